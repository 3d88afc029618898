"""What the parity suite shares: values, layouts, running a kernel on two devices, comparing.

Values are NumPy arrays in storage form (bfloat16 as uint16 bits). A layout puts them into a flat
memory and gives the view of it that shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import needle as ndl
from needle import _native
from needle.backend import reference
from needle.dtype import DType, bfloat16, bool_, float16, float32, float64
from needle.ndarray.array import NDArray, from_numpy, make_view

Array = np.ndarray[Any, Any]

FLOATS = (float32, float64, float16, bfloat16)
DEVICES = [d for d in ndl.all_devices() if d.enabled() and d != ndl.cpu_numpy()]
on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)

# The tiles of AMX, or those that a build with NEEDLE_ISAS=wide makes from memory.
TILES = next((s for s in ("amx", "wide-amx") if s in _native.instruction_sets()), None)
VECTORS = {"amx": "avx512", "wide-amx": "wide", None: None}[TILES]
needs_amx = pytest.mark.skipif(TILES is None, reason="this machine has no AMX")
# What multiplies pairs of bfloat16: tiles, or the dot products of AVX-512.
PAIRS = [s for s in ("amx", "wide-amx", "avx512bf16") if s in _native.instruction_sets()]

# Around the widths of vectors (4 to 64 elements) and of the blocks that kernels cut work into.
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 1000)
SHAPES = ((), (0,), (3, 0, 2), (1, 1), (5, 7), (3, 17), (17, 3), (2, 3, 5), (2, 1, 3, 2), (33, 65))


# Values -----------------------------------------------------------------------------------------


def bits(values: Any) -> Array:
    """float32 -> bfloat16 bits."""
    return reference.narrow(np.asarray(values, np.float32))


def numbers(values: Array, dtype: DType) -> Array:
    """Storage form -> numbers that NumPy can compute with."""
    return reference.widen(values) if dtype is bfloat16 else values


def storage_of(values: Array, dtype: DType) -> Array:
    """Numbers as the device stores them."""
    if dtype is bfloat16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.storage)


def _float_specials(dtype: DType) -> Array:
    info = np.finfo(np.float32 if dtype is bfloat16 else dtype.storage)
    small = [float(info.tiny), float(info.smallest_subnormal), float(info.tiny) * 0.75]
    large = [float(info.max), float(info.max) / 2]
    plain = [0, 0.5, 1, 1.5, 2, 2.5, 3, np.pi, 10, 88, 89, 100, 1 + float(info.eps), 1e-3, 1e-5]
    half = [*plain, *small, *large, np.inf]
    return np.array([*half, *(-v for v in half), np.nan])


def specials(dtype: DType) -> Array:
    """The values on which kernels go wrong."""
    if dtype.is_floating:
        values = _float_specials(dtype)
        with np.errstate(over="ignore"):
            return bits(values) if dtype is bfloat16 else values.astype(dtype.storage)
    if dtype is bool_:
        return np.array([False, True])
    limits = np.iinfo(dtype.storage)
    near = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 5, 7, 10, 100]
    near += [-1, -2, -3, -7, -100] if limits.min < 0 else [128, 200]
    return np.array(near, dtype.storage)


def draw(dtype: DType, shape: tuple[int, ...], seed: int = 0, special: bool = True) -> Array:
    """Random values of many magnitudes, every third one special."""
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.random(shape) < 0.5
    if dtype.is_floating:
        wide = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
        values = bits(wide) if dtype is bfloat16 else wide.astype(dtype.storage)
    else:
        limits = np.iinfo(dtype.storage)
        values = rng.integers(limits.min, limits.max, shape, dtype.storage, endpoint=True)
    if special:
        pool = specials(dtype)
        values = np.where(rng.random(shape) < 1 / 3, rng.choice(pool, shape), values)
    return np.asarray(values, dtype.storage)


def mild(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Values between -2 and 2 (0 to 4 for unsigned): sums and products stay finite."""
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.random(shape) < 0.5
    if dtype.is_floating:
        values = rng.uniform(-2, 2, shape)
        return bits(values) if dtype is bfloat16 else values.astype(dtype.storage)
    return rng.integers(0 if dtype.kind == "u" else -2, 5, shape).astype(dtype.storage)


# Layouts ----------------------------------------------------------------------------------------


def _guarded(shape: tuple[int, ...], like: Array) -> Array:
    """Memory with a pattern, so that a write outside the view shows."""
    size = int(np.prod(shape, dtype=np.int64))
    return (np.arange(size) % 5 + 1).astype(like.dtype).reshape(shape)


def contiguous(values: Array) -> tuple[Array, Array]:
    memory = values.flatten()
    return memory, memory.reshape(values.shape)


def transposed(values: Array) -> tuple[Array, Array]:
    memory = values.T.flatten()
    return memory, memory.reshape(values.shape[::-1]).T


def sliced(values: Array) -> tuple[Array, Array]:
    memory = _guarded(tuple(2 * n + 1 for n in values.shape), values)
    view = memory[(..., *(slice(1, None, 2) for _ in values.shape))]
    view[...] = values
    return memory.reshape(-1), view


def negative(values: Array) -> tuple[Array, Array]:
    backwards = (..., *(slice(None, None, -1) for _ in values.shape))
    memory = values[backwards].flatten()
    return memory, memory.reshape(values.shape)[backwards]


def offset(values: Array) -> tuple[Array, Array]:
    memory = _guarded((values.size + 5,), values)
    memory[3 : 3 + values.size] = values.reshape(-1)
    return memory, memory[3 : 3 + values.size].reshape(values.shape)


def pitched(values: Array) -> tuple[Array, Array]:
    """Rows that are longer than the view shows."""
    if values.ndim == 0:
        return offset(values)
    memory = _guarded((*values.shape[:-1], values.shape[-1] + 3), values)
    view = memory[..., 1:-2]
    view[...] = values
    return memory.reshape(-1), view


def middle_reversed(values: Array) -> tuple[Array, Array]:
    """The last axis outermost in memory, every second one backwards."""
    moved = np.moveaxis(values, -1, 0) if values.ndim else values
    index = (..., *(slice(None, None, -1 if i % 2 else 1) for i in range(values.ndim)))
    memory = moved[index].flatten()
    view = memory.reshape(moved.shape)[index]
    return memory, np.moveaxis(view, 0, -1) if values.ndim else view


def broadcast_rows(values: Array) -> tuple[Array, Array]:
    """One row for all: stride 0 on the first axis (inputs only, the values change)."""
    if values.ndim == 0 or values.shape[0] == 0:
        return contiguous(values)
    memory = values[:1].flatten()
    return memory, np.broadcast_to(memory.reshape(values[:1].shape), values.shape)


def broadcast_last(values: Array) -> tuple[Array, Array]:
    """One value along the last axis: stride 0 there (inputs only, the values change)."""
    if values.ndim == 0 or values.shape[-1] == 0:
        return contiguous(values)
    memory = values[..., :1].flatten()
    return memory, np.broadcast_to(memory.reshape(values[..., :1].shape), values.shape)


Layout = Callable[[Array], tuple[Array, Array]]
WRITABLE: tuple[Layout, ...] = (
    contiguous, transposed, sliced, negative, offset, pitched, middle_reversed,
)  # fmt: skip
READABLE: tuple[Layout, ...] = (*WRITABLE, broadcast_rows, broadcast_last)


class Spec(NamedTuple):
    """An operand that can be made on any device."""

    values: Array
    dtype: DType
    layout: Layout = contiguous

    def on(self, device: Any) -> NDArray:
        memory, view = self.layout(self.values)
        size = memory.itemsize
        strides = tuple(s // size for s in view.strides)
        start = 0
        if view.size:
            start = (view.ctypes.data - memory.ctypes.data) // size
        handle = from_numpy(memory, self.dtype, device, as_bits=True)._handle
        return make_view(view.shape, strides, start, self.dtype, device, handle)

    @property
    def shown(self) -> Array:
        """The numbers that the operand shows (a broadcast layout repeats some)."""
        return numbers(np.array(self.layout(self.values)[1]), self.dtype)


def blank(shape: tuple[int, ...], dtype: DType, layout: Layout = contiguous) -> Spec:
    """An output, filled with a pattern."""
    size = int(np.prod(shape, dtype=np.int64))
    return Spec((np.arange(size) % 3).astype(dtype.storage).reshape(shape), dtype, layout)


def whole_memory(array: NDArray) -> Array:
    """Everything in the handle, in and outside the view."""
    handle = array._handle
    flat = make_view((handle.size,), (1,), 0, array.dtype, array.device, handle)
    result: Array = array.device.mod.to_numpy(flat)
    return result


def on_both(
    device: Any, call: Callable[..., None], out: Spec, *inputs: Spec
) -> tuple[Array, Array]:
    """The whole memory of `out` after the call on the device and on the reference."""
    memories = []
    for d in (device, ndl.cpu_numpy()):
        target = out.on(d)
        call(d.mod, target, *(i.on(d) for i in inputs))
        memories.append(whole_memory(target))
    return memories[0], memories[1]


# Comparing --------------------------------------------------------------------------------------


def _ordered(values: Array) -> Array:
    """Floats as integers whose difference counts the floats in between."""
    whole = values.view(f"int{8 * values.itemsize}").astype(np.int64)
    lowest = np.int64(-(2 ** (8 * values.itemsize - 1)))
    return np.where(whole < 0, lowest - whole, whole)


def ulps_apart(a: Array, b: Array, dtype: DType) -> Array:
    """How many values of dtype lie between; NaN and NaN are equal, NaN and a number are not."""
    x, y = (_ordered(np.ascontiguousarray(v)).astype(np.uint64) for v in (a, b))
    larger = _ordered(np.ascontiguousarray(a)) > _ordered(np.ascontiguousarray(b))
    distance = np.where(larger, x - y, y - x)
    if dtype is bfloat16:
        distance = distance >> np.uint64(16)
    both, either = np.isnan(a) & np.isnan(b), np.isnan(a) | np.isnan(b)
    far = np.uint64(2**63)
    return np.where(both, np.uint64(0), np.where(either, far, distance))


def assert_ulps(actual: Array, expected: Array, dtype: DType, ulps: int, about: str) -> None:
    """Floats within `ulps` (0: equal, the sign of zero included); anything else equal."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, about
    if not dtype.is_floating:
        np.testing.assert_array_equal(actual, expected, about)
        return
    distance = ulps_apart(actual, expected, dtype)
    bad = distance > ulps
    if ulps == 0:
        bad |= (np.signbit(actual) != np.signbit(expected)) & ~np.isnan(expected)
    if bad.any():
        i = np.flatnonzero(bad)[0]
        raise AssertionError(
            f"{about}: {bad.sum()} of {bad.size} differ by more than {ulps} ulp; the first at "
            f"{i}: {actual[i]!r} instead of {expected[i]!r} ({distance[i]} ulp)"
        )


def assert_near(actual: Array, exact: Array, bound: Array, about: str) -> None:
    """|actual - exact| <= bound, where bound comes from an analysis of rounding."""
    error = np.abs(actual.astype(np.float64) - exact)
    bad = ~(error <= bound)
    if bad.any():
        i = np.unravel_index(np.argmax(error - bound), error.shape)
        raise AssertionError(
            f"{about}: {bad.sum()} of {bad.size} are off; the worst at {i}: {actual[i]!r} instead "
            f"of {exact[i]!r}, error {error[i]:.3g}, bound {bound[i]:.3g}"
        )


def epsilon(dtype: DType) -> float:
    """The spacing of numbers at 1."""
    return 2.0**-7 if dtype is bfloat16 else float(np.finfo(dtype.storage).eps)
