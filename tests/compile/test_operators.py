"""Every operator record compiled: values, gradients and second gradients equal eager's."""

import numpy as np
import pytest

import needle as ndl

from ..ops.record import Arguments, results
from ..ops.records import RECORDS
from ..ops.test_forward import base_dtype
from ..ops.test_gradient import as_function

# A compiled program is for one device: it moves nothing to another.
COMPILED = [r for r in RECORDS if not r.data_dependent and r.name != "to"]


FUSE = pytest.mark.parametrize("fuse", [False, True], ids=["calls", "fused"])


def same(found, expected, what, fuse):
    """In every bit; sums of fused kernels to rounding."""
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, what
        a, b = ours.numpy(), theirs.numpy()
        if not fuse or a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, what)
        else:
            scale = np.abs(b).max(initial=0, where=np.isfinite(b))
            tolerance = {8: 1e-12, 4: 1e-5, 2: 1e-2}[a.dtype.itemsize]
            np.testing.assert_allclose(a, b, tolerance, tolerance * scale, err_msg=what)


@FUSE
@pytest.mark.parametrize("record", COMPILED, ids=str)
def test_compiled_equals_eager(record, fuse):
    for call in record.calls:
        args, kwargs = Arguments(record, call, base_dtype(record)).tensors()
        expected = results(record(*args, **kwargs))
        jit = ndl.jit(fuse=fuse)
        compiled = jit(lambda *tensors: results(record(*tensors, **kwargs)))  # noqa: B023
        try:
            found = compiled(*args)
        except TypeError as error:
            if "hashable" not in str(error):
                raise
            found = jit(lambda: results(record(*args, **kwargs)))()  # noqa: B023
        same(found, expected, f"{record}{call}", fuse)


@FUSE
@pytest.mark.parametrize("record", [r for r in COMPILED if r.differentiable], ids=str)
def test_compiled_gradients_equal_eager(record, fuse):
    for call in record.calls[:3]:
        function, inputs = as_function(record, call)
        if not function(*inputs):  # no floating result
            continue

        def loss(*tensors):
            return sum((y * y).sum() for y in function(*tensors))  # noqa: B023

        first = ndl.grad(loss, argnums=tuple(range(len(inputs))))
        same(ndl.jit(first, fuse=fuse)(*inputs), first(*inputs), f"{record}{call}", fuse)
        if record.order > 1:

            def norm(*tensors):
                return sum((g * g).sum() for g in first(*tensors))  # noqa: B023

            second = ndl.grad(norm, argnums=tuple(range(len(inputs))))
            same(
                ndl.jit(second, fuse=fuse)(*inputs),
                second(*inputs),
                f"{record}{call}, second",
                fuse,
            )
