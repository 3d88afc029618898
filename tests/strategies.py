"""Hypothesis strategies: shapes, dtypes, and arrays that are strided by construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import needle as ndl
from needle.dtype import DTYPES, DType, bfloat16
from needle.ndarray import functions as F
from needle.ndarray.array import NDArray, from_numpy


def shapes(min_dims: int = 0, max_dims: int = 4, max_side: int = 5, min_side: int = 0) -> Any:
    """Tuples of sizes; 0 and 1 come up often."""
    return st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims).map(
        tuple
    )


def dtypes(*, exclude: Sequence[DType] = ()) -> Any:
    """The ten element types."""
    return st.sampled_from([d for d in DTYPES if d not in exclude])


@dataclass(frozen=True)
class Layout:
    """How an array lies in memory: stored permuted, reversed, with gaps, behind some padding."""

    order: tuple[int, ...]  # the axes of the array, outermost in memory first
    reverse: tuple[bool, ...]
    steps: tuple[int, ...]
    padding: int

    def place(self, values: np.ndarray[Any, Any], dtype: DType, device: Any) -> NDArray:
        """An NDArray with these values (in storage form) and this layout."""
        stored_shape = tuple(values.shape[a] for a in self.order)
        gaps = tuple(n * s for n, s in zip(stored_shape, self.steps, strict=True))
        size = int(np.prod(gaps, dtype=np.int64))
        memory = np.full(self.padding + size, 7).astype(values.dtype)
        inner = memory[self.padding :].reshape(gaps)[(..., *self.selection())]
        inner[...] = np.transpose(values, self.order)
        flat = from_numpy(memory, dtype, device, as_bits=True)
        strides = [s // values.itemsize for s in inner.strides]
        shape = [0] * len(self.order)
        placed = [0] * len(self.order)
        for axis, n, stride in zip(self.order, stored_shape, strides, strict=True):
            shape[axis], placed[axis] = n, stride
        offset = 0 if inner.size == 0 else _first_element(memory, inner)
        return NDArray.make(tuple(shape), tuple(placed), device, flat._handle, offset)

    def selection(self) -> tuple[slice, ...]:
        return tuple(
            slice(None, None, -step) if backwards else slice(None, None, step)
            for backwards, step in zip(self.reverse, self.steps, strict=True)
        )


def _first_element(memory: np.ndarray[Any, Any], view: np.ndarray[Any, Any]) -> int:
    distance = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return int(distance // memory.itemsize)


@st.composite
def layouts(draw: Any, ndim: int) -> Layout:
    """Any layout of an array with ndim axes."""
    return Layout(
        tuple(draw(st.permutations(range(ndim)))),
        tuple(draw(st.lists(st.booleans(), min_size=ndim, max_size=ndim))),
        tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=ndim, max_size=ndim))),
        draw(st.sampled_from([0, 0, 1, 5])),
    )


def stored(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Random small values in storage form (bfloat16 as bits)."""
    values = np.asarray(np.random.default_rng(seed).integers(-50, 50, shape))
    if dtype is bfloat16:
        return np.asarray(values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype.is_floating:
        return np.asarray(values / 8, dtype.storage)
    return values.astype(dtype.storage)


def as_numbers(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Storage form -> what `.numpy()` shows: bfloat16 widens to float32."""
    if dtype is bfloat16:
        return np.asarray(values.astype(np.uint32) << 16).view(np.float32)
    return values


@st.composite
def arrays(draw: Any, shape: Any = None, dtype: Any = None, device: Any = None) -> Any:
    """(NDArray in a random layout, its values as a NumPy array)."""
    size = draw(shapes() if shape is None else shape)
    kind = draw(dtypes() if dtype is None else dtype)
    values = stored(kind, size, draw(st.integers(0, 2**20)))
    placed = draw(layouts(len(size))).place(values, kind, device or ndl.cpu())
    return placed, as_numbers(values, kind)


@st.composite
def tensors(draw: Any, shape: Any = None, dtype: Any = None, device: Any = None) -> Any:
    """(Tensor over an array in a random layout, its values)."""
    array, values = draw(arrays(shape, dtype, device))
    return ndl.Tensor(array), values


@st.composite
def slices(draw: Any, size: int) -> slice:
    """Any slice of an axis: ends beyond it and negative steps included."""
    end = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    return slice(draw(end), draw(end), draw(step))


@st.composite
def view_chains(draw: Any, shape: tuple[int, ...], length: int = 4) -> Any:
    """Steps that keep the memory: [(on an NDArray, on a NumPy array)], to apply in turn."""
    steps: list[Any] = []
    sample = np.broadcast_to(np.zeros(()), shape)
    for _ in range(draw(st.integers(1, length))):
        ours, theirs = draw(_one_view(sample.shape))
        sample = theirs(sample)
        steps.append((ours, theirs))
    return steps


@st.composite
def _one_view(draw: Any, shape: tuple[int, ...]) -> Any:
    from needle.ndarray.index.gather import getitem

    kind = draw(st.sampled_from(["permute", "slice", "flip", "broadcast", "newaxis"]))
    if kind == "permute":
        axes = tuple(draw(st.permutations(range(len(shape)))))
        return (lambda a: F.permute(a, axes)), (lambda x: np.transpose(x, axes))
    if kind == "slice":
        index = tuple(draw(slices(n)) for n in shape)
        return (lambda a: getitem(a, index)), (lambda x: x[index])
    if kind == "flip":
        axes = tuple(i for i in range(len(shape)) if draw(st.booleans()))
        return (lambda a: F.flip(a, axes)), (lambda x: np.flip(x, axes))
    if kind == "broadcast":
        target = (
            draw(st.integers(0, 3)),
            *(draw(st.just(n) if n != 1 else st.integers(0, 3)) for n in shape),
        )
        return (lambda a: F.broadcast_to(a, target)), (lambda x: np.broadcast_to(x, target))
    return (lambda a: getitem(a, (None, ...))), (lambda x: x[None])
