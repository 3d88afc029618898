"""Values and gradients at special values are PyTorch's, or what exact arithmetic gives; all other
cases are choices that pytorch.py lists, with reasons."""

import numpy as np
import pytest

from .pytorch import CHOICES, elementwise, of_rows
from .rows import ROWS, triples
from .test_elementwise import DTYPES, EDGES, operands
from .values import agree, describe, few_specials, value_and_gradients

torch = pytest.importorskip("torch")
THEIRS = elementwise(torch) | of_rows(torch)
ALL = {edge.name: edge for edge in (*EDGES, *ROWS)}


def theirs(function, arrays, dtype):
    tensors = [torch.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    y = function(*tensors)
    if y.requires_grad:
        y.backward(torch.ones_like(y))
    return [
        y.detach().numpy(),
        *(np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in tensors),
    ]


def disagreements(edge, dtype):
    """For the value and each gradient, where it is neither PyTorch's, in this dtype or rounded from
    float64, nor the exact number."""
    arrays = [triples(few_specials(dtype))] if edge in ROWS else operands(edge, dtype)
    ours = value_and_gradients(edge.function, arrays, dtype)
    own, wide = (theirs(THEIRS[edge.name], arrays, d) for d in (dtype, "float64"))
    for what, (a, b, c, exact) in enumerate(
        zip(ours, own, wide, edge.expected(arrays), strict=True)
    ):
        error = edge.error(what, a.dtype)
        good = agree(a, b, edge.units, error) | agree(a, c, edge.units, error)
        if not edge.own:
            good |= ~np.isnan(exact) & agree(a, exact, edge.units, error)
        yield arrays, what, a, c, ~good


def chosen(choice, arrays, bad):
    """Where a choice is made, for each place of a result."""
    with np.errstate(all="ignore"):
        where = choice.where(*arrays)
    return where.reshape(where.shape + (1,) * (bad.ndim - where.ndim))


def test_every_function_has_a_counterpart():
    assert set(ALL) == set(THEIRS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", ALL.values(), ids=str)
def test_as_in_pytorch(edge, dtype):
    for arrays, what, ours, expected, bad in disagreements(edge, dtype):
        for choice in CHOICES:
            if choice.covers(edge.name, what):
                bad &= ~chosen(choice, arrays, bad)
        name = f"gradient {what - 1}" if what else "value"
        assert not bad.any(), f"{name}: {describe(bad, arrays, ours, expected)}"


def test_every_choice_is_one():
    """What PyTorch does, too, has no place in the list."""
    for choice in CHOICES:
        for name in choice.names.split("; "):
            found = False
            for dtype in DTYPES:
                for arrays, what, _, _, bad in disagreements(ALL[name], dtype):
                    if choice.covers(name, what):
                        found |= (bad & chosen(choice, arrays, bad)).any()
            assert found, f"{name}: {choice.reason}"
