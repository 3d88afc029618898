"""Kernels of users: `ndl.cuda.Kernel(source)(grid, block, *arguments)`."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
from needle import _native
from needle.backend.gpu import nvrtc

pytestmark = pytest.mark.skipif(not nvrtc.is_there(), reason="needs NVRTC")

SCALE = """
__global__ void scale(float* a, const int* shift, float by, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) a[i] = a[i] * by + shift[0];
}
"""
SHIFT = np.array([1], "i4")


@pytest.fixture
def scale(device):
    return ndl.cuda.Kernel(SCALE)


@pytest.fixture
def simulated(device):
    if not _native.cuda.is_simulated():
        pytest.skip("needs the simulator")


def test_numpy_arrays_are_copied_there_and_back(scale):
    a = np.arange(100, dtype="f4")
    scale(4, 32, a, SHIFT, 2.5, np.int64(90))
    expected = np.arange(100, dtype="f4")
    expected[:90] = expected[:90] * 2.5 + 1
    np.testing.assert_array_equal(a, expected)


def test_arrays_of_the_device_are_written_where_they_are(scale, device):
    x = ndl.Tensor(np.ones((4, 8)), device=device)
    rows = x.cached_data[1:3, :]
    scale((1, 1), (16, 1, 1), rows, SHIFT, 2, 16)
    expected = np.ones((4, 8))
    expected[1:3] = 3
    np.testing.assert_array_equal(x.numpy(), expected)


def test_shared_memory_is_given_by_the_call(device):
    kernel = ndl.cuda.Kernel(
        "__global__ void turn(double* a) { extern __shared__ double s[]; int i = threadIdx.x;"
        " s[i] = a[i]; __syncthreads(); a[i] = s[blockDim.x - 1 - i]; }"
    )
    a = np.arange(64.0)
    kernel(1, 64, a, shared=64 * 8)
    np.testing.assert_array_equal(a, np.arange(64.0)[::-1])


def test_one_of_many_kernels(device):
    source = SCALE + 'extern "C" __global__ void one(float* a) { a[threadIdx.x] = 1; }'
    a = np.zeros(3, "f4")
    ndl.cuda.Kernel(source, "one")(1, 3, a)
    assert a.tolist() == [1, 1, 1]
    assert ndl.cuda.Kernel(source, "scale").name != "one"
    for name in (None, "two"):
        with pytest.raises(ValueError, match="expected the name of one __global__ function"):
            ndl.cuda.Kernel(source, name)


def test_bad_calls_are_refused(scale, device):
    x, a = ndl.ones(4, 4, device=device), np.ones(16, "f4")
    with pytest.raises(TypeError, match="expected 4 arguments, got 1"):
        scale(1, 16, a)
    with pytest.raises(TypeError, match="expected an array of cuda"):
        scale(1, 16, ndl.ones(16, device=ndl.cpu()), SHIFT, 1.0, 16)
    with pytest.raises(ValueError, match="expected an array in C order"):
        scale(1, 16, x.transpose(), SHIFT, 1.0, 16)
    with pytest.raises(TypeError, match="expected an integer of 32 bits"):
        scale(1, 16, a, SHIFT, 1.0, 1.5)
    with pytest.raises(TypeError, match="expected a number for argument 3"):
        scale(1, 16, a, SHIFT, 1.0, a)
    for grid in (0, (1, 1, 1, 1), ()):
        with pytest.raises(ValueError, match="1 to 3 positive sizes of the grid"):
            scale(grid, 16, a, SHIFT, 1.0, 16)
    with pytest.raises(ValueError, match="pointers and numbers"):
        ndl.cuda.Kernel("struct P { int a, b, c; }; __global__ void f(P p) {}")
    with pytest.raises(RuntimeError, match="NVRTC refused"):
        ndl.cuda.Kernel("__global__ void f() { nothing(); }")


def test_a_mistake_is_reported_with_its_line_and_the_device_goes_on(simulated):
    wrong = ndl.cuda.Kernel(SCALE.replace("i < count", "i <= count"))
    a = np.zeros(16, "f4")
    with pytest.raises(RuntimeError) as error:
        wrong(1, 32, a, SHIFT, 1.0, 16)
    text = str(error.value)
    assert "0 bytes after the end of an allocation of 64 bytes" in text
    assert "thread (16,0,0)" in text and "kernel.cu:4: ld.global.f32" in text
    wrong(1, 16, a, SHIFT, 1.0, 16)
    assert a.tolist() == [1] * 16


def test_a_race_names_both_accesses(simulated):
    kernel = ndl.cuda.Kernel(
        "__global__ void turn(float* a) {\n  __shared__ float s[64];\n  int i = threadIdx.x;\n"
        "  s[i] = a[i];\n  __syncthreads();\n  s[i] = s[63 - i];\n"
        "  __syncthreads();\n  a[i] = s[i];\n}"
    )
    with pytest.raises(RuntimeError, match="race") as error:
        kernel(1, 64, np.zeros(64, "f4"))
    text = str(error.value)
    assert text.count("kernel.cu:6: ") == 2
    assert "ld.shared.f32" in text and "st.shared.f32" in text
