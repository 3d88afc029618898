"""The course's modules: backend selection, backend_ndarray, devices, module paths."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd, config, course_paths

NAMES = "BACKEND Device NDArray all_devices array_api cpu default_device"


def run(backend: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NEEDLE_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )


def test_numpy_mode() -> None:
    code = f"""
import numpy, needle as ndl
assert all(hasattr(ndl, name) for name in {NAMES.split()})
assert not hasattr(ndl, "cuda")
assert ndl.array_api is numpy and ndl.NDArray is numpy.ndarray
x = ndl.Tensor([1, 2])
assert type(x.cached_data) is numpy.ndarray and x.dtype == "int64"
assert type(ndl.init.rand(2).cached_data) is numpy.ndarray
assert x.device == ndl.cpu() == ndl.all_devices()[0]
assert memoryview(ndl.Tensor([[1.0, 2.0]])[:, ::-1]).tolist() == [[2.0, 1.0]]
"""
    assert run("np", code).stderr == ""


def test_numpy_mode_takes_operators_that_give_scalars() -> None:
    """np.sum without an axis gives a NumPy scalar, not an array."""
    code = """
import numpy, needle as ndl
class Total(ndl.TensorOp):
    def compute(self, a):
        return numpy.sum(a)
    def gradient(self, out_grad, node):
        return ndl.broadcast_to(ndl.reshape(out_grad, (1, 1)), node.inputs[0].shape) * node
class Ends(ndl.TensorTupleOp):
    def compute(self, a):
        return a[0], a[-1]
for ndl.autograd.LAZY_MODE in (False, True):
    x = ndl.Tensor([[1.0, 2.0]])
    y = Total()(x)
    assert type(y.realize_cached_data()) is numpy.ndarray and y.shape == ()
    ndl.exp(ndl.reshape(y, (1, 1))).backward()
    assert numpy.allclose(x.grad.numpy(), 3 * numpy.exp(3))
    assert Ends()(ndl.Tensor([1.0, 2.0, 4.0]))[1].reshape((1,)).numpy() == 4
"""
    assert run("np", code).stderr == ""


def test_numpy_mode_has_no_bfloat16() -> None:
    code = """
import needle as ndl
for make in (lambda: ndl.tensor([1.5], dtype="bfloat16"), lambda: ndl.eye(2, dtype="bfloat16")):
    try:
        make()
    except TypeError as error:
        assert "NumPy has no bfloat16" in str(error), error
    else:
        raise AssertionError("made of its bits")
"""
    assert run("np", code).stderr == ""


def test_default_mode() -> None:
    code = f"""
import needle as ndl
from needle import backend_ndarray
assert all(hasattr(ndl, name) for name in {[*NAMES.split(), "cuda", "cpu_numpy"]})
assert ndl.array_api is backend_ndarray and ndl.NDArray is backend_ndarray.NDArray
assert isinstance(ndl.init.rand(2).cached_data, ndl.NDArray)
"""
    assert run("nd", code).stderr == ""


def test_unknown_backend() -> None:
    process = run("torch", "import needle")
    assert process.returncode == 1
    assert "RuntimeError: [needle] NEEDLE_BACKEND must be one of nd, np" in process.stderr


def test_devices() -> None:
    assert str(nd.cpu()) == "cpu()" and nd.cpu().enabled()
    assert not nd.cuda().enabled()
    assert nd.cpu() == ndl.cpu() and nd.cpu() != nd.cpu_numpy()
    assert isinstance(nd.cpu(), nd.BackendDevice)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: ndl.Tensor([1.0], device=d),
        lambda d: ndl.init.zeros(2, device=d),
        lambda d: ndl.init.rand(2, device=d),
        lambda d: d.from_numpy(np.ones(2), None),
    ],
)
def test_a_device_that_is_not_there(make: Callable[[nd.BackendDevice], object]) -> None:
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available .* use cpu"):
        make(nd.cuda())


def test_device_methods() -> None:
    for device in (nd.cpu(), nd.cpu_numpy()):
        np.random.seed(0)
        drawn = np.asarray(device.rand(2, 3)), np.asarray(device.randn(2))
        np.random.seed(0)
        np.testing.assert_allclose(drawn[0], np.random.rand(2, 3), rtol=1e-6)
        np.testing.assert_allclose(drawn[1], np.random.randn(2), rtol=1e-6)
        assert device.empty((2, 3)).shape == (2, 3)
        np.testing.assert_array_equal(np.asarray(device.full((2,), 3.0)), [3, 3])
        np.testing.assert_array_equal(np.asarray(device.one_hot(3, [2, 0])), np.eye(3)[[2, 0]])


@pytest.mark.skipif(config.BACKEND == "np", reason="creates NumPy arrays in this mode")
def test_array_functions() -> None:
    a = nd.array([[1.0, 4.0], [9.0, 16.0]], device=nd.cpu())
    assert a.dtype == "float32" and a.device == nd.cpu()
    np.testing.assert_allclose(nd.log(a).numpy(), np.log(a.numpy()), rtol=1e-6)
    np.testing.assert_allclose(nd.exp(nd.tanh(a)).numpy(), np.exp(np.tanh(a.numpy())), rtol=1e-6)
    np.testing.assert_array_equal(nd.maximum(a, 5.0).numpy(), np.maximum(a.numpy(), 5))
    np.testing.assert_array_equal(nd.flip(a, (0,)).numpy(), np.flip(a.numpy(), 0))
    np.testing.assert_array_equal(nd.sum(a, axis=1, keepdims=True).numpy(), [[5], [25]])
    np.testing.assert_array_equal(nd.reshape(a, (4,)).numpy(), [1, 4, 9, 16])
    assert nd.broadcast_to(nd.full((2, 1), 3.0), (2, 4)).strides == (1, 0)
    assert nd.empty((2, 3)).shape == (2, 3)


@pytest.mark.parametrize("path", sorted(course_paths.PATHS))
def test_course_paths(path: str) -> None:
    target = importlib.import_module(f"needle.{course_paths.PATHS[path]}")
    assert importlib.import_module(f"needle.{path}") is target
    assert target.__spec__ is not None
    assert target.__spec__.name == target.__name__


@pytest.mark.parametrize("module", ["needle", "needle.ops", "needle.ops.ops_mathematic"])
def test_star_imports_leave_pythons_own_names(module: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)
    assert {"Tensor", "EWiseAdd", "summation", "exp", "TensorOp", "cat"} <= set(names)
    hidden = "abs all any bool float int max min pow round sum"
    assert not {*hidden.split()} & set(names)
    assert ndl.max(ndl.ones(2)).item() == ndl.ops.max(ndl.ones(2)).item() == 1
