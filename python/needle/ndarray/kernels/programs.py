"""Tile programs on arrays. Operators call `run` by way of `functions.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ... import _native
from ...dtype import DType
from ...tile.ir import COLUMN, FULL, ROW, SCALAR
from ...tile.program import Program, ProgramError
from .. import layout
from ..array import NDArray, empty_like, make_view
from ..interop.numpy_mode import array_function
from ..layout import Shape
from ..movement import same_device

Arrays = tuple[NDArray, ...]


@array_function
def run(program: Program, *arrays: NDArray, axes: Shape = ()) -> NDArray:
    """The output of a tile program over the broadcast of the arrays; of several, see `run_all`.

    The row is made of `axes`, which count from 0 in the broadcast shape and are in order. Row
    values have size 1 there, column values on all other axes."""
    result: NDArray | None = _native.new_run(program, arrays, axes)
    if result is not None:
        return result
    device = arrays[0].device
    for other in arrays[1:]:
        if other.device is not device:
            same_device(program.name, *arrays)
    find = _form_of_run if device.mod is _native else _form_of_run.__wrapped__
    shapes, dtypes = tuple([a.shape for a in arrays]), tuple([a.dtype for a in arrays])
    typed = program.for_dtypes(dtypes)  # kept in the program, where `new_run` looks for it
    forms, order = find(program, shapes, dtypes, axes)
    outs = tuple([empty_like(shape, dtype, device, *arrays) for shape, dtype in forms])
    turned = (outs, arrays) if order is None else [_turned(x, order) for x in (outs, arrays)]
    device.mod.run(typed, *turned, len(axes))
    return outs[0] if len(outs) == 1 else outs  # type: ignore[return-value]


run_all: Callable[..., Arrays] = run  # type: ignore[assignment]  # of several outputs


@lru_cache(maxsize=1024)
def _form_of_run(
    program: Program, shapes: tuple[Shape, ...], dtypes: tuple[DType, ...], axes: Shape
) -> tuple[list[tuple[Shape, DType]], Shape | None]:
    """What `run` needs to know of its arrays: the outputs' shapes and dtypes, and the order that
    brings `axes` to the end, if they are not there."""
    shape = shapes[0]
    for other in shapes[1:]:
        if other != shape:
            shape = layout.broadcast_shapes(program.name, shape, other)
    typed = program.for_dtypes(dtypes)
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    by_kind = {
        FULL: shape,
        SCALAR: (),
        ROW: layout.reduced_shape(shape, axes, True),
        COLUMN: layout.reduced_shape(shape, kept, True),
    }
    forms = [(by_kind[k], d) for k, d in zip(program.outputs, typed.outputs, strict=True)]
    if typed.is_random and axes and axes[0] != len(kept):
        raise ProgramError(
            f"[{program.name}] random numbers follow the order of all axes: the row must be made "
            f"of the last axes, got {axes} of {len(shape)}."
        )
    return forms, (*kept, *axes) if axes and axes[0] != len(kept) else None


def _turned(arrays: Arrays, order: Shape) -> Arrays:
    """Views with the axes in another order, after axes of size 1 in front."""
    return tuple([_turned_view(a, order) if a.ndim else a for a in arrays])


def _turned_view(a: NDArray, order: Shape) -> NDArray:
    missing = len(order) - a.ndim
    shape = layout.permuted((1,) * missing + a.shape, order)
    strides = layout.permuted((0,) * missing + a.strides, order)
    return make_view(shape, strides, a.offset, a.dtype, a.device, a._handle)
