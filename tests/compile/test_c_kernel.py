"""CKernel: operators whose compute is C, eagerly, compiled, exported, on both devices."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

import needle as ndl
from needle import _native
from needle.backend import c_build
from needle.testing import check_grads

pytestmark = pytest.mark.skipif(c_build.compiler() is None, reason="needs a C compiler")

AXPY = ndl.CKernel(
    "axpy", ["a", "x", "y"], ["out"],
    "for (int64_t i = begin; i < end; i++) out[i] = a * x[i] + y[i];",
)  # fmt: skip
ROW_RANGE = ndl.CKernel(
    "row_range", ["x"], ["low", "high"],
    """
    const int64_t n = x_shape[1];
    for (int64_t i = begin; i < end; i++) {
        low[i] = high[i] = x[i * n];
        for (int64_t j = 1; j < n; j++) {
            low[i] = smaller(low[i], x[i * n + j]);
            high[i] = -smaller(-high[i], -x[i * n + j]);
        }
    }
    """,
    header="static double smaller(double a, double b) { return a < b ? a : b; }",
)  # fmt: skip


class Axpy(ndl.TensorOp):
    """out = a x + y"""

    def __init__(self, a):
        self.a = a

    def compute(self, x, y):
        return AXPY(self.a, x, y)

    def gradient(self, out_grad, node):
        return out_grad * self.a, out_grad


class RowRange(ndl.TensorOp):
    """The spread of each row, of int64 ends"""

    differentiable = False

    def compute(self, x):
        rows = x.shape[:1]
        low, high = ROW_RANGE(x, shapes=[rows, rows], dtypes=["int64"] * 2, count=rows[0])
        return ndl.ndarray.functions.binary("subtract", high, low)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setattr(c_build.config, "CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


DEVICES = [ndl.cpu(), ndl.cpu_numpy()]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (300, 401)], ids=str)
def test_values(device, dtype, shape):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 9, shape).astype(dtype) for _ in range(2))
    found = Axpy(2)(ndl.tensor(x, device=device), ndl.tensor(y, device=device))
    np.testing.assert_array_equal(found.numpy(), (2 * x + y).astype(dtype))
    assert str(found.dtype) == dtype


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_operands_of_any_layout(device):
    x = np.random.default_rng(1).standard_normal((6, 5)).astype("f4")
    t = ndl.tensor(x, device=device)
    found = Axpy(0.5)(t.T[::2, ::-1], ndl.broadcast_to(t[:, :1], (6, 6))[:3])
    np.testing.assert_allclose(found.numpy(), 0.5 * x.T[::2, ::-1] + x[:3, :1], rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_several_outputs_shapes_and_threads(threads):
    x = np.random.default_rng(2).integers(-1000, 1000, (4099, 33))
    before = ndl.get_num_threads()
    ndl.set_num_threads(threads)
    try:
        found = RowRange()(ndl.tensor(x))
    finally:
        ndl.set_num_threads(before)
    np.testing.assert_array_equal(found.numpy(), x.max(1) - x.min(1))


def test_any_number_of_iterations():
    length = ndl.CKernel("length", ["x"], ["n"], "n[begin > 0] = end - begin;")
    for size, count in [(4, 1), (4, 2**50), (4, 2**63 - 1), (40_000, 2**50), (40_000, 2**63 - 1)]:
        x = ndl.zeros(size).cached_data
        found = length(x, shapes=[(2,)], dtypes=["int64"], count=count).numpy()
        assert (found[0] if size == 4 else found.sum()) == count


def test_gradients_to_second_order():
    x, y = (ndl.randn(3, 4, dtype="float64") for _ in range(2))
    check_grads(lambda x, y: ndl.tanh(Axpy(1.5)(x, y)) * x, x, y)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_compiled_is_one_program_without_breaks(device, recwarn):
    w = ndl.randn(5, 4, device=device, requires_grad=True)
    x = ndl.randn(3, 5, device=device)

    def step(x):
        loss = (Axpy(0.25)(x @ w, (x * x) @ w).T ** 2).sum()
        loss.backward()
        grad, w.grad = w.grad, None
        return loss, grad

    compiled = ndl.jit(step)
    for expected, found in zip(step(x), compiled(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    names = [kernel.name for kernel in compiled.kernels]
    assert "run_c axpy" in names and not any(name.startswith("python") for name in names)
    assert "a * x[i] + y[i]" in str(compiled.kernels[names.index("run_c axpy")])
    assert not recwarn.list


def test_equal_calls_are_made_once():
    compiled = ndl.jit(lambda x: Axpy(2.0)(x, x) + Axpy(2.0)(x, x))
    compiled(ndl.ones(4))
    assert [k.name for k in compiled.kernels].count("run_c axpy") == 1


def test_export(tmp_path):
    x = np.random.default_rng(3).standard_normal((4, 6)).astype("f4")
    step = ndl.jit(lambda x: Axpy(3.0)(x, x.exp()))
    with pytest.raises(TypeError, match=r"run_c cannot be stored.*a file holds no code"):
        ndl.export(step, ndl.tensor(x), path=tmp_path / "model.needle")
    ndl.export(step, ndl.tensor(x), path=tmp_path / "model.c")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-shared", "-fPIC"]
    command = [c_build.compiler(), *flags, "model.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    y = np.zeros_like(x)
    ctypes.CDLL(tmp_path / "model.so").model(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)))
    np.testing.assert_allclose(y, 3 * x + np.exp(x), rtol=1e-6)


def test_export_of_one_kernel_for_two_dtypes(tmp_path):
    x = ndl.ones(3, 4)

    def both(x):
        return Axpy(2.0)(x, x), Axpy(2.0)(x.astype("float64"), x.astype("float64")), RowRange()(x)

    ndl.export(both, x, path=tmp_path / "model.c")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c"]
    subprocess.run([c_build.compiler(), *flags, "model.c"], cwd=tmp_path, check=True)


def test_export_with_two_functions_of_one_name(tmp_path):
    source = "for (int64_t i = begin; i < end; i++) out[i] = a + x[i] + y[i];"
    other = ndl.CKernel("axpy", ["a", "x", "y"], ["out"], source)

    class Other(ndl.TensorOp):
        def compute(self, x):
            return other(2.0, x, x)

    with pytest.raises(TypeError, match="two C functions have the name axpy"):
        ndl.export(lambda x: Axpy(2.0)(x, Other()(x)), ndl.ones(3), path=tmp_path / "model.c")


def test_mistakes_are_named():
    x = ndl.ones(3).cached_data
    with pytest.raises(c_build.BuildError, match=r"(?s)\[bad\].*bad:2:.*nowhere"):
        ndl.CKernel("bad", ["x"], ["y"], "\ny[0] = nowhere;")(x)
    with pytest.raises(TypeError, match=r"\[axpy\] expected 3 inputs \(a, x, y\)"):
        AXPY(1.0, x)
    with pytest.raises(TypeError, match=r"\[axpy\] expected arrays and Python numbers, got str"):
        AXPY("2", x, x)
    with pytest.raises(ValueError, match=r"\[row_range\] expected shapes and dtypes of 2 outputs"):
        ROW_RANGE(x, shapes=[(3,)])
    with pytest.raises(ValueError, match="names that C allows, got 'a-b'"):
        ndl.CKernel("a-b", [], ["y"], "")
    with pytest.raises(ValueError, match="different names"):
        ndl.CKernel("same", ["x"], ["x"], "")
    with pytest.raises(TypeError, match=r"\[axpy\] expected a list of shapes.*got \(3,\)"):
        AXPY(1.0, x, x, shapes=(3,))
    with pytest.raises(TypeError, match="expected lists of names, got 'xy'"):
        ndl.CKernel("text", "xy", ["z"], "")
    with pytest.raises(c_build.BuildError, match=r"(?s)\[calls\].*nobody"):
        ndl.CKernel("calls", ["x"], ["y"], "y[0] = nobody(x[0]);")(x)
    with pytest.raises(ValueError, match=r"\[run_c\] expected a count"):
        AXPY(1.0, x, x, count=-1)
    with pytest.raises(ValueError, match="one device"):
        AXPY(1.0, x, ndl.ones(3, device=ndl.cpu_numpy()).cached_data)


@pytest.mark.parametrize("name", ["at", "shapes", "begin", "end", "int", "bool", "y_shape"])
def test_names_that_the_c_function_has_already(name):
    with pytest.raises(ValueError, match=rf"\['{name}'\] mean something else"):
        ndl.CKernel("clash", [name], ["y"], "")


@pytest.mark.parametrize("name", ["exp", "memcpy", "int", "at", "add_f32"])
def test_a_kernel_may_have_any_name(name, tmp_path):
    """Its function has a name of its own, also beside the functions of an exported program."""
    kernel = ndl.CKernel(name, ["x"], ["y"], "for (int64_t i = begin; i < end; i++) y[i] = x[i];")

    class Same(ndl.TensorOp):
        def compute(self, x):
            return kernel(x)

    np.testing.assert_array_equal(Same()(ndl.ones(3)).numpy(), np.ones(3))
    ndl.export(lambda x: (Same()(x) + 1).exp(), ndl.ones(3), path=tmp_path / "model.c")
    subprocess.run([c_build.compiler(), "-std=c11", "-c", "model.c"], cwd=tmp_path, check=True)


def test_numpy_numbers_are_numbers():
    x = ndl.ones(3).cached_data
    for number in (np.float32(0.5), np.float64(0.5)):
        np.testing.assert_array_equal(AXPY(number, x, x).numpy(), np.full(3, 1.5))
    np.testing.assert_array_equal(AXPY(np.int8(-2), x, x).numpy(), np.full(3, -1))


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(c_build, "compiler", lambda: None)
    kernel = ndl.CKernel("unbuilt", ["x"], ["y"], "y[0] = x[0];")
    with pytest.raises(c_build.BuildError, match=r"\[unbuilt\] expected a C compiler"):
        kernel(ndl.ones(1).cached_data)


def test_every_instruction_set_has_its_flags():
    plain = {"baseline", "neon", "wide", "wide-amx"}  # what compilers assume without flags
    assert set(_native.instruction_sets()) <= plain | c_build.MACHINE.keys()
