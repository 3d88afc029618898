"""Random programs of 5 to 50 operators: compiled equals eager, and NumPy in float64."""

import numpy as np
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle.compiler.ir.verify import verify

from .test_random_programs import check_plan

SHAPES = [(4, 6), (1, 6), (4, 1), (3, 4, 6), (6,)]
UNARY = {
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs, "exp": np.exp,
    "relu": lambda x: np.maximum(x, 0), "square": np.square, "sin": np.sin, "floor": np.floor,
}  # fmt: skip
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}


class Program:
    """A list of choices, run with tensors or with NumPy arrays."""

    def __init__(self, choices):
        self.choices = choices

    def run(self, values, is_numpy):
        """All values that are made, each from former ones; sizes stay small."""
        values = list(values)
        for kind, first, second, how in self.choices:
            x, y = values[first % len(values)], values[second % len(values)]
            values.append(self.step(kind, x, y, how, is_numpy))
        return values[-3:]

    def step(self, kind, x, y, how, is_numpy):
        axis = how % x.ndim if x.ndim else 0
        if kind == 0:
            name = list(UNARY)[how % len(UNARY)]
            return UNARY[name](x * 0.3) if is_numpy else getattr(ndl, name)(x * 0.3)
        if kind == 1:
            name = list(BINARY)[how % len(BINARY)]
            fits = self.fits(x.shape, y.shape)
            other = y if fits else x
            return (BINARY[name] if is_numpy else getattr(ndl, name))(x, other) * 0.5
        if kind == 2 and x.ndim:
            total = x.sum(axis, keepdims=bool(how % 2))
            return total * 0.2
        if kind == 3 and x.ndim:
            return x.max(axis, keepdims=True)
        if kind == 4 and x.ndim > 1:
            order = tuple(np.roll(range(x.ndim), how))
            return x.transpose(order) if is_numpy else x.permute(order)
        if kind == 5 and x.ndim:
            index = tuple(
                slice(None, None, -1) if d == axis else slice(None) for d in range(x.ndim)
            )
            return x[index] if is_numpy else ndl.flip(x, axis)
        if kind == 6 and x.ndim > 1:
            other = np.swapaxes(x, -1, -2) if is_numpy else x.transpose((x.ndim - 2, x.ndim - 1))
            return (x @ other) * 0.05
        if kind == 7 and x.ndim:
            wide = x - x.mean(axis, keepdims=True)
            return np.where(wide > 0, wide, x) if is_numpy else ndl.where(wide > 0, wide, x)
        if kind == 8 and x.ndim:
            flat = x.reshape((-1,))
            return flat[: min(6, flat.shape[0])]
        return x * 0.5 + 0.25

    @staticmethod
    def fits(a, b):
        try:
            return np.prod(np.broadcast_shapes(a, b)) <= 500
        except ValueError:
            return False


calls = st.tuples(*(st.integers(0, n) for n in (9, 60, 60, 23)))


@settings(max_examples=60, deadline=None)
@given(st.lists(calls, min_size=5, max_size=50), st.integers(0, 9))
def test_compiled_equals_eager_and_numpy(choices, seed):
    program = Program(choices)
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in SHAPES]
    expected = program.run([a.astype("f8") for a in arrays], is_numpy=True)
    tensors = [ndl.tensor(a) for a in arrays]
    eager = program.run(tensors, is_numpy=False)
    step = ndl.jit(lambda *values: program.run(values, is_numpy=False))
    steep = any(kind == 0 and how % len(UNARY) == 7 for kind, _, _, how in choices)  # floor
    for _ in range(2):
        for ours, theirs, exact in zip(step(*tensors), eager, expected, strict=True):
            assert ours.shape == theirs.shape == exact.shape
            size = max(np.abs(exact).max(initial=0), 1e-3)
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-3, 1e-4 * size)
            if not steep:
                np.testing.assert_allclose(ours.numpy(), exact, 1e-3, 1e-4 * size)
    verify(step.program.graph)
    check_plan(step.program.plan)
