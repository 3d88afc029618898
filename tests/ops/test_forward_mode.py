"""Forward mode of every operator: <u, J t> from jvp equals <Jᵀu, t> from reverse mode."""

import numpy as np
import pytest

import needle as ndl

from .records import RECORDS
from .test_gradient import as_function

CASES = [(r, c) for r in RECORDS if r.differentiable and r.forward_mode for c in r.calls]


def like(tensors, rng):
    return tuple(ndl.Tensor(rng.standard_normal(t.shape), dtype=t.dtype) for t in tensors)


def inner(xs, ys):
    return sum(float((x.numpy() * y.numpy()).sum()) for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize(("record", "call"), CASES, ids=[f"{r}{c}" for r, c in CASES])
def test_forward_mode(record, call):
    function, inputs = as_function(record, call)
    rng = np.random.default_rng(1)
    tangents = like(inputs, rng)
    out, pushed = ndl.jvp(function, tuple(inputs), tangents)
    assert [t.shape for t in pushed] == [t.shape for t in out]
    assert all(t.dtype == "float64" for t in pushed)
    weights = like(out, rng)
    _, vjp_fn = ndl.vjp(function, *inputs)
    back = vjp_fn(weights)
    left, right = inner(weights, pushed), inner(back, tangents)
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
