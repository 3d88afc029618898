"""Every operator on inputs that are transposed, sliced, reversed or broadcast in memory."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import bfloat16
from tests.parity.operands import READABLE, WRITABLE, Spec, bits

from .record import Arguments, results
from .records import RECORDS
from .test_forward import base_dtype


def place_as(layout, device):
    def place(x, dtype):
        return Spec(bits(x) if dtype is bfloat16 else x, dtype, layout).on(device)

    return place


def compact(array):
    """The same values in plain memory: what a broadcast layout shows."""
    return ndl.NDArray(array.numpy(), device=array.device, dtype=array.dtype)


@pytest.mark.parametrize("layout", [k for k in READABLE if k.__name__ != "contiguous"])
@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_strided_equals_compact(record, layout):
    for call in record.calls:
        arguments = Arguments(record, call, base_dtype(record), seed=5)
        place = place_as(layout, ndl.cpu())
        args, kwargs = arguments.tensors(place=place)
        found = results(record(*args, **kwargs))
        args, kwargs = arguments.tensors(place=lambda x, d, p=place: compact(p(x, d)))
        expected = results(record(*args, **kwargs))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                ours.numpy(), theirs.numpy(), 1e-13, 1e-13, err_msg=f"{record}{call}"
            )


@pytest.mark.parametrize("layout", [k for k in WRITABLE if k.__name__ != "contiguous"])
@pytest.mark.parametrize("record", [r for r in RECORDS if r.differentiable], ids=str)
def test_strided_gradients_equal_compact_ones(record, layout):
    found = []
    place = place_as(layout, ndl.cpu())
    for form in (place, lambda x, d: compact(place(x, d))):
        args, kwargs = Arguments(record, record.calls[0], seed=5).tensors(
            place=form, requires_grad=True
        )
        results(record(*args, **kwargs))[0].backward()
        sources = [x for a in args for x in (a if isinstance(a, list) else [a])]
        tensors = [x for x in sources if isinstance(x, ndl.Tensor) and x.grad is not None]
        found.append([x.grad.numpy() for x in tensors])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-13, 1e-13)


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_inputs_are_never_written(record):
    for call in record.calls:
        args, kwargs = Arguments(record, call, base_dtype(record)).tensors(requires_grad=True)
        sources = [x for a in args for x in (a if isinstance(a, list) else [a])]
        tensors = [x for x in sources if isinstance(x, ndl.Tensor)]
        before = [x.numpy() for x in tensors]
        out = results(record(*args, **kwargs))[0]
        if out.requires_grad:
            out.backward()
        for x, values in zip(tensors, before, strict=True):
            np.testing.assert_array_equal(x.numpy(), values)
