"""Every operator, forward and backward, on every device against the reference device."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import bfloat16, float32, int32

from .record import TOLERANCE, Arguments, results
from .records import RECORDS

DEVICES = [d for d in ndl.all_devices() if d.enabled() and d != ndl.cpu_numpy()]


def close(actual, expected, dtype, about):
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected, about)
        return
    relative = TOLERANCE[str(dtype) if dtype.is_floating else actual.dtype.name]
    scale = float(np.max(np.abs(expected), initial=1.0))
    np.testing.assert_allclose(actual, expected, relative, relative * scale, err_msg=about)


def run(record, call, dtype, device):
    """The results and the gradients of their sum."""
    args, kwargs = Arguments(record, call, dtype).tensors(device, requires_grad=True)
    outputs = results(record(*args, **kwargs))
    arrays = [o.numpy() for o in outputs]
    sources = [x for a in args for x in (a if isinstance(a, list) else [a])]
    leaves = [x for x in sources if isinstance(x, ndl.Tensor) and x.requires_grad]
    if outputs[0].requires_grad:
        outputs[0].backward()
        arrays += [x.grad.numpy() for x in leaves if x.grad is not None]
    return arrays


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_device_equals_reference(record, device):
    for dtype in [d for d in (float32, bfloat16, int32) if d in record.supported]:
        for call in record.calls:
            actual = run(record, call, dtype, device)
            expected = run(record, call, dtype, ndl.cpu_numpy())
            assert len(actual) == len(expected)
            for ours, theirs in zip(actual, expected, strict=True):
                assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
                close(ours, theirs, dtype, f"{record}{call} {dtype} on {device}")
