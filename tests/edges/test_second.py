"""Second derivatives at special values are PyTorch's where PyTorch's are numbers."""

import numpy as np
import pytest

import needle as ndl

from .elementwise import UNARY
from .pairs import PAIRS
from .pytorch import SECOND_CHOICES, elementwise
from .test_elementwise import DTYPES, operands
from .test_pytorch import chosen
from .values import agree, describe

torch = pytest.importorskip("torch")
THEIRS = elementwise(torch)
WITHOUT = {"hardsigmoid": "PyTorch has no second derivative of it"}
EDGES = [edge for edge in (*UNARY, *PAIRS) if edge.name not in WITHOUT]


def ours(function, arrays, dtype):
    """The gradients of the sum of all first gradients."""
    xs = [ndl.tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    y = function(*xs)
    first = ndl.autograd.grad(y.sum(), xs, create_graph=True) if y.requires_grad else []
    found = [g.sum() for g in first if g is not None and g.requires_grad]
    if not found:
        return [np.zeros(x.shape, dtype) for x in xs]
    second = ndl.autograd.grad(sum(found), xs, allow_unused=True)
    return [
        np.zeros(x.shape, dtype) if g is None else g.numpy()
        for g, x in zip(second, xs, strict=True)
    ]


def theirs(function, arrays, dtype):
    xs = [torch.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    y = function(*xs)
    if not y.requires_grad:
        return [np.zeros(x.shape) for x in xs]
    first = torch.autograd.grad(y.sum(), xs, create_graph=True)
    found = [g.sum() for g in first if g.requires_grad]
    if not found:
        return [np.zeros(x.shape) for x in xs]
    second = torch.autograd.grad(sum(found), xs, allow_unused=True)
    return [
        np.zeros(x.shape) if g is None else g.numpy(force=True)
        for g, x in zip(second, xs, strict=True)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_second_derivatives(edge, dtype):
    arrays = operands(edge, dtype)
    error = 16 * max(edge.absolute, 1) * float(np.finfo(dtype).eps)
    results = (
        ours(edge.function, arrays, dtype),
        *(theirs(THEIRS[edge.name], arrays, d) for d in (dtype, "float64")),
    )
    for a, b, c in zip(*results, strict=True):
        bad = ~(agree(a, b, 256, error) | agree(a, c, 256, error))
        with np.errstate(over="ignore"):
            bad &= np.isfinite(c.astype(dtype))
        for x in arrays:
            bad &= np.isfinite(x)
        for choice in SECOND_CHOICES:
            if choice.covers(edge.name, 1):
                bad &= ~chosen(choice, arrays, bad)
        assert not bad.any(), describe(bad, arrays, a, c)
