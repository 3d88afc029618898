"""The course's device functions (`ewise_add`, `compact`, ...) on raw handles.

Course code calls these on a device: `cpu().ewise_add(a, b, out)`, with compact float32 handles.
Each is a view of the handles and one kernel of protocol.py, so every device has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtype import DType, bool_, float32

if TYPE_CHECKING:
    from ..backend.protocol import Backend, Handle
    from ..types import NumpyArray

TILE = 8  # __tile_size__: the side of the square tiles that matmul_tiled takes


class _View:
    """The plainest operand: a strided view of a handle."""

    __slots__ = ("_handle", "shape", "strides", "offset", "dtype")

    def __init__(
        self,
        handle: Handle,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
        dtype: DType = float32,
    ):
        self._handle, self.shape, self.strides = handle, shape, strides
        self.offset, self.dtype = offset, dtype


def _flat(handle: Handle) -> _View:
    return _View(handle, (handle.size,), (1,))


def _matrix(handle: Handle, rows: int, columns: int) -> _View:
    return _View(handle, (rows, columns), (columns, 1))


def _untiled(handle: Handle, rows: int, columns: int) -> _View:
    """A (rows/T, columns/T, T, T) handle seen as (rows/T, T, columns/T, T)."""
    shape = (rows // TILE, TILE, columns // TILE, TILE)
    return _View(handle, shape, (columns * TILE, TILE, TILE * TILE, 1))


def _array(mod: Backend, size: int) -> Handle:
    return mod.empty(size, float32)


def _to_numpy(
    mod: Backend, a: Handle, shape: Sequence[int], strides: Sequence[int], offset: int
) -> NumpyArray:
    return mod.to_numpy(_View(a, tuple(shape), tuple(strides), offset))


def _from_numpy(mod: Backend, array: NumpyArray, out: Handle) -> None:
    contiguous = np.ascontiguousarray(array, np.float32)
    mod.copy(_flat(out), _flat(mod.from_numpy(contiguous, float32)))


def _fill(mod: Backend, out: Handle, value: float) -> None:
    mod.fill(_flat(out), float(value))


def _compact(
    mod: Backend, a: Handle, out: Handle, shape: Sequence[int], strides: Sequence[int], offset: int
) -> None:
    source = _View(a, tuple(shape), tuple(strides), offset)
    mod.copy(_View(out, source.shape, _row_major(source.shape)), source)


def _ewise_setitem(
    mod: Backend, a: Handle, out: Handle, shape: Sequence[int], strides: Sequence[int], offset: int
) -> None:
    target = _View(out, tuple(shape), tuple(strides), offset)
    mod.copy(target, _View(a, target.shape, _row_major(target.shape)))


def _scalar_setitem(
    mod: Backend,
    size: int,
    value: float,
    out: Handle,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
) -> None:
    mod.fill(_View(out, tuple(shape), tuple(strides), offset), float(value))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _operand(x: Any) -> Any:
    """A number, or a whole handle."""
    return _flat(x) if hasattr(x, "ptr") else float(x)


def _unary(mod: Backend, a: Handle, out: Handle, *, kernel: str) -> None:
    mod.unary(kernel, _flat(out), _flat(a))


def _binary(mod: Backend, a: Handle, b: object, out: Handle, *, kernel: str) -> None:
    other = _operand(b)
    mod.binary(kernel, _flat(out), _flat(a), other)


def _compare(mod: Backend, a: Handle, b: Handle, out: Handle, *, kernel: str) -> None:
    other = _operand(b)
    answer = _View(mod.empty(out.size, bool_), (out.size,), (1,), 0, bool_)
    mod.binary(kernel, answer, _flat(a), other)
    mod.copy(_flat(out), answer)  # 0.0 or 1.0


def _matmul(mod: Backend, a: Handle, b: Handle, out: Handle, m: int, n: int, p: int) -> None:
    mod.matmul(_matrix(out, m, p), _matrix(a, m, n), _matrix(b, n, p))


def _matmul_tiled(mod: Backend, a: Handle, b: Handle, out: Handle, m: int, n: int, p: int) -> None:
    """out, a, b hold T x T tiles; m, n, p are multiples of T."""

    def dense(handle: Handle, rows: int, columns: int) -> _View:
        tiled = _untiled(handle, rows, columns)
        copy = mod.empty(rows * columns, float32)
        mod.copy(_View(copy, tiled.shape, _row_major(tiled.shape)), tiled)
        return _matrix(copy, rows, columns)

    product = _matrix(mod.empty(m * p, float32), m, p)
    mod.matmul(product, dense(a, m, n), dense(b, n, p))
    target = _untiled(out, m, p)
    mod.copy(target, _View(product._handle, target.shape, _row_major(target.shape)))


def _reduce(mod: Backend, a: Handle, out: Handle, reduce_size: int, *, kernel: str) -> None:
    mod.reduce(kernel, _matrix(out, out.size, 1), _matrix(a, out.size, reduce_size))


def _functions() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {
        "Array": _array,
        "to_numpy": _to_numpy,
        "from_numpy": _from_numpy,
        "fill": _fill,
        "compact": _compact,
        "ewise_setitem": _ewise_setitem,
        "scalar_setitem": _scalar_setitem,
        "scalar_power": partial(_binary, kernel="power"),
        "matmul": _matmul,
        "matmul_tiled": _matmul_tiled,
        "reduce_max": partial(_reduce, kernel="max"),
        "reduce_sum": partial(_reduce, kernel="sum"),
    }
    for name in ("log", "exp", "tanh"):
        table[f"ewise_{name}"] = partial(_unary, kernel=name)
    for name, kernel in (("add", "add"), ("mul", "multiply"), ("div", "divide"), ("maximum",) * 2):
        table[f"ewise_{name}"] = table[f"scalar_{name}"] = partial(_binary, kernel=kernel)
    for name, kernel in (("eq", "equal"), ("ge", "greater_equal")):
        table[f"ewise_{name}"] = table[f"scalar_{name}"] = partial(_compare, kernel=kernel)
    return table


FUNCTIONS = _functions()


def lookup(name: str, mod: Backend) -> Any:
    """The course's function (or constant) of that name over the kernels `mod`, or None."""
    if name == "__tile_size__":
        return TILE
    return partial(FUNCTIONS[name], mod) if name in FUNCTIONS else None
