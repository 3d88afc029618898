"""Every operator that has a record, over special values: values, and adjoints of moved elements."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import float32, float64

from ..ops.record import Arguments, is_shape, results
from ..ops.records import RECORDS, indexing, joining, movement, torch_names
from .values import UNITS, agree

# No finite number is so large that the order of a sum decides whether it overflows.
VALUES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-38, np.inf, -np.inf, np.nan])


# Which floating operands stay ordinary, from what place on, and why.
ORDINARY = {
    "conv": (1, "padding times an infinite weight is NaN or left out"),
    "conv_channels_last": (1, "padding times an infinite weight is NaN or left out"),
    "conv_transpose_channels_last": (1, "gaps times an infinite weight are NaN or left out"),
    "einsum": (0, "the order of three factors decides which products are infinite"),
    "interpolate": (0, "a neighbour with the weight 0 is left out, also if it is NaN"),
    "lerp": (0, "goes from the nearer end, as PyTorch's does: see pairs.py"),
}


class SpecialArguments(Arguments):
    """Special values in place of random ones: one in three, the others ordinary."""

    def _draw(self, x, rng, named=False):
        drawn = super()._draw(x, rng, named)
        if not is_shape(x) or named or drawn.dtype.kind != "f":
            return drawn
        self.drawn = getattr(self, "drawn", -1) + 1
        first, _ = ORDINARY.get(self.record.name, (100, ""))
        special = rng.choice(VALUES, drawn.shape).astype(drawn.dtype)
        chance = 1 / 3 if self.drawn < first else 0
        return np.where(rng.random(drawn.shape) < chance, special, drawn)


CALLS = [
    (r, c, dtype)
    for r in RECORDS
    for c in r.calls
    for dtype in (float32, float64)
    if dtype in r.supported
]


@pytest.mark.parametrize(
    ("record", "call", "dtype"), CALLS, ids=[f"{r}{c} {dtype}" for r, c, dtype in CALLS]
)
def test_values(record, call, dtype):
    for seed in range(8):
        arguments = SpecialArguments(record, call, dtype, seed)
        args, kwargs = arguments.tensors()
        found = results(record(*args, **kwargs))
        args, kwargs = arguments.arrays()
        with np.errstate(all="ignore"):
            expected = results(record.reference(*args, **kwargs))
        for ours, theirs in zip(found, expected, strict=True):
            a, b = ours.numpy(), np.asarray(theirs)
            assert a.shape == b.shape
            if a.dtype.kind != "f":
                np.testing.assert_array_equal(a, b.astype(a.dtype))
                continue
            # Sums may cancel.
            bad = ~agree(a, b, UNITS, 0 if record.exact else UNITS * np.finfo(a.dtype).eps)
            assert not bad.any(), f"seed {seed}: {a[bad][:5]}, expected {b[bad][:5]}"


# Operators that move elements, whatever these are.
MOVES = [
    (r, c)
    for r in (*movement.RECORDS, *joining.RECORDS, *indexing.RECORDS, *torch_names.RECORDS)
    if r.exact and r.differentiable and not r.data_dependent
    for c in r.calls
]


class NumberedArguments(Arguments):
    """A number of its own for each element, none that an operator would fill in."""

    def _draw(self, x, rng, named=False):
        drawn = super()._draw(x, rng, named)
        if not is_shape(x) or named or drawn.dtype.kind != "f":
            return drawn
        first = getattr(self, "following", 1000)
        self.following = first + drawn.size
        return np.arange(first, self.following, dtype=float).reshape(drawn.shape)


@pytest.mark.parametrize(("record", "call"), MOVES, ids=[f"{r}{c}" for r, c in MOVES])
def test_gradients_go_back_to_where_elements_came_from(record, call):
    """Each element gets the gradients of the places that it went to, and no other infinity or NaN.
    Where elements go is seen by moving their numbers."""
    args, kwargs = SpecialArguments(record, call, float64).tensors(requires_grad=True)
    outputs = results(record(*args, **kwargs))
    numbered = NumberedArguments(record, call, float64)
    plain, options = numbered.arrays()
    places = results(record.reference(*plain, **options))
    rng = np.random.default_rng(0)
    weights = [rng.choice(VALUES, y.shape) for y in outputs]
    for y, weight in zip(outputs, weights, strict=True):
        if y.requires_grad:
            y.backward(ndl.tensor(weight, dtype="float64"), accumulate=True)
    sources = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, list) else [a])]
    leaves = [x for x in sources if isinstance(x, ndl.Tensor) and x.requires_grad]
    checked = 0
    for x, numbers in zip(leaves, numbered.floats(), strict=True):
        if numbers.size and numbers.flat[0] < 1000:
            continue  # an array of the call itself: its elements are not numbered
        expected = np.zeros(numbers.shape)
        with np.errstate(invalid="ignore"):
            for place in np.ndindex(*numbers.shape):
                for out, weight in zip(places, weights, strict=True):
                    expected[place] += weight[np.asarray(out) == numbers[place]].sum()
        found = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
        assert agree(found, expected, absolute=1e-30).all()
        checked += 1
    assert checked
