"""Every differentiable operator against finite differences in float64, to second order."""

import numpy as np
import pytest

import needle as ndl
from needle.testing import check_grads

from .record import Arguments, results
from .records import RECORDS

DIFFERENTIABLE = [r for r in RECORDS if r.differentiable]
CASES = [(r, c) for r in DIFFERENTIABLE for c in r.calls]


def as_function(record, call):
    """The operator as a function of its floating tensors only, and those tensors."""
    arguments = Arguments(record, call)
    args, kwargs = arguments.tensors()
    inputs = []

    def hold(x):
        """A place for a tensor that is differentiated by."""
        if isinstance(x, list):
            return [hold(v) for v in x]
        if isinstance(x, ndl.Tensor) and x.dtype == "float64":
            inputs.append(x)
            return len(inputs) - 1
        return lambda: x

    held, held_kwargs = [hold(a) for a in args], {k: hold(v) for k, v in kwargs.items()}

    def fill(place, tensors):
        if isinstance(place, list):
            return [fill(p, tensors) for p in place]
        return tensors[place] if isinstance(place, int) else place()

    def function(*tensors):
        out = record(
            *(fill(p, tensors) for p in held),
            **{k: fill(p, tensors) for k, p in held_kwargs.items()},
        )
        return tuple(t for t in results(out) if t.dtype == "float64")

    return function, inputs


@pytest.mark.parametrize(("record", "call"), CASES, ids=[f"{r}{c}" for r, c in CASES])
def test_gradient(record, call):
    function, inputs = as_function(record, call)
    check_grads(function, *inputs, order=record.order)


@pytest.mark.parametrize("record", DIFFERENTIABLE, ids=str)
def test_gradients_have_the_inputs_dtype(record):
    for dtype in [d for d in record.supported if d.is_floating]:
        args, kwargs = Arguments(record, record.calls[0], dtype).tensors(requires_grad=True)
        for out in results(record(*args, **kwargs)):
            if out.requires_grad:
                out.backward()
        sources = [x for a in args for x in (a if isinstance(a, list) else [a])]
        for x in sources:
            if isinstance(x, ndl.Tensor) and x.requires_grad:
                assert x.grad.dtype == dtype and x.grad.shape == x.shape
                assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("record", [r for r in RECORDS if not r.differentiable], ids=str)
def test_results_without_a_gradient_require_none(record):
    dtype = record.supported[0]
    args, kwargs = Arguments(record, record.calls[0], dtype).tensors(requires_grad=True)
    for out in results(record(*args, **kwargs)):
        assert not out.requires_grad and out.op is None


def test_power_at_zero_to_the_zero_has_gradient_zero():
    a = ndl.Tensor([0.0, 0.0, 2.0], dtype="float64")
    b = ndl.Tensor([0.0, 1.0, 0.0], dtype="float64")
    ndl.power(a, b).sum().backward()
    assert a.grad.tolist() == [0, 1, 0]
    np.testing.assert_allclose(b.grad.numpy(), [0, 0, np.log(2)])


def test_a_number_padded_has_a_gradient():
    x = ndl.Tensor(3.0, dtype="float64")
    ndl.pad(x, 1).backward()
    assert x.grad.tolist() == 1
