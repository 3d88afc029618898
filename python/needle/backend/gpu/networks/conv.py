"""Convolutions and their adjoints, as products of windows (native/cuda/kernels/windows.cuh)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol import Operand, Steps
from .. import views
from ..elementwise import STORED, copy, fill
from ..matmul import Tiling, add_parts, parts_of, sums_of, tiling
from ..modules import kernel
from ..views import View

if TYPE_CHECKING:
    from ....tile.program import TypedProgram


class Axis(NamedTuple):
    """Along one axis, position p meets through tap t the place (p multiply + t step + offset) /
    divide of the data, if that is whole and one of `size`."""

    size: int
    multiply: int
    step: int
    offset: int
    divide: int
    positions: int
    taps: int


class Factor(NamedTuple):
    """The other factor of the product, and its strides along taps, the sum and columns."""

    operand: Operand
    tap: int
    depth: int
    side: int


def conv(
    out: Operand, x: Operand, w: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    axes = _axes_of_outputs(x.shape, out.shape, w.shape, stride, padding, dilation)
    w = _by_taps(w)
    factor = Factor(w, w.strides[0], w.strides[1], w.strides[2])
    _convolve("conv", out, x, axes, factor, groups)


def conv_by_data(
    out: Operand, y: Operand, w: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    sizes = zip(y.shape[1:-1], out.shape[1:-1], w.shape[:-2], strict=True)
    axes = [
        Axis(made, 1, -dilation[i], padding[i], stride[i], size, taps)
        for i, (made, size, taps) in enumerate(sizes)
    ]
    w = _by_taps(w)
    factor = Factor(w, w.strides[0], w.strides[2], w.strides[1])
    _convolve("conv", out, y, axes, factor, groups)


def conv_by_weight(
    out: Operand, x: Operand, y: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    axes = _axes_of_outputs(x.shape, y.shape, out.shape, stride, padding, dilation)
    y = _by_rows(y)
    factor = Factor(y, 0, y.strides[0], y.strides[1])
    _convolve("conv_by_weight", out, x, axes, factor, groups)


def conv_then(
    program: TypedProgram, outs: Sequence[Operand], x: Operand, w: Operand,
    shape: Steps, stride: Steps, padding: Steps, dilation: Steps, groups: int,
    ins: Sequence[Operand] = (),
) -> None:  # fmt: skip
    from ..run import run

    images = views.new(tuple(shape), program.inputs[0])
    conv(images, x, w, stride, padding, dilation, groups)
    matrix = views.seen_as(images, tuple(outs[0].shape), views.compact_strides(outs[0].shape))
    run(program, outs, (matrix, *ins), 0)


def _axes_of_outputs(
    inputs: Steps, outputs: Steps, filters: Steps,
    stride: Steps, padding: Steps, dilation: Steps,
) -> list[Axis]:  # fmt: skip
    sizes = zip(inputs[1:-1], outputs[1:-1], filters[:-2], strict=True)
    return [
        Axis(size, stride[i], dilation[i], -padding[i], 1, made, taps)
        for i, (size, made, taps) in enumerate(sizes)
    ]


def _by_taps(w: Operand) -> View:
    """(taps, channels, outputs), copied if its taps have no common stride."""
    step = views.step_over(w.shape[:-2], w.strides[:-2])
    if step is None:
        return _by_taps(views.in_compact(w))
    return views.seen_as(w, (math.prod(w.shape[:-2]), *w.shape[-2:]), (step, *w.strides[-2:]))


def _by_rows(y: Operand) -> View:
    """(positions, channels), copied if its positions have no common stride."""
    step = views.step_over(y.shape[:-1], y.strides[:-1])
    if step is None:
        return _by_rows(views.in_compact(y))
    return views.seen_as(y, (math.prod(y.shape[:-1]), y.shape[-1]), (step, y.strides[-1]))


def _convolve(
    name: str, out: Operand, data: Operand, axes: list[Axis], factor: Factor, groups: int
) -> None:
    """out, as a matrix, = windows of the data (or their transpose) times the factor."""
    if 0 in out.shape:
        return
    if 0 in data.shape or 0 in factor.operand.shape:
        return fill(out, 0)
    step = views.step_over(out.shape[:-1], out.strides[:-1])
    if step is None:
        made = views.new(tuple(out.shape), out.dtype)
        _convolve(name, made, data, axes, factor, groups)
        return copy(out, made)
    rows, columns = math.prod(out.shape[:-1]), out.shape[-1] // groups
    matrix = views.seen_as(out, (rows, out.shape[-1]), (step, out.strides[-1]))
    cells = math.prod(axis.taps for axis in axes) * (data.shape[-1] // groups)
    positions = data.shape[0] * math.prod(axis.positions for axis in axes)
    depth = cells if name == "conv" else positions
    tiles = tiling(data.dtype, rows, columns, depth, groups)
    parts, part = parts_of(depth, tiles.tiles(rows, columns) * groups)
    if parts == 1:
        return _launch(name, matrix, data, axes, factor, groups, tiles, 1, part, 0)
    room = views.new((parts, *matrix.shape), sums_of(data.dtype))
    first = views.one_of(room, 0)
    _launch(name, first, data, axes, factor, groups, tiles, parts, part, room.strides[0])
    add_parts(matrix, room, data.dtype)


def _launch(
    name: str, matrix: View, data: Operand, axes: list[Axis], factor: Factor, groups: int,
    tiles: Tiling, parts: int, part: int, part_stride: int,
) -> None:  # fmt: skip
    rows, columns = matrix.shape[0], matrix.shape[1] // groups
    channels = data.shape[-1] // groups
    # In groups, the factor's last axis is cut, too: that of channels that windows do not have.
    cut = factor.operand.shape[-1] // groups * factor.operand.strides[-1]
    between = (columns * matrix.strides[1],), (channels * data.strides[-1],), (cut,)
    _, tail = views.space((groups,), between)
    tail += views.members(f"{len(axes) + 2}q", *data.strides)
    tail += views.members(f"{7 * len(axes)}i2I", *_by_member(axes), channels, data.shape[0])
    strides = (*matrix.strides, part_stride, factor.tap, factor.depth, factor.side)
    tail += views.members("6q3I", *strides, columns, parts, part)
    out_type = STORED[matrix.dtype] if part_stride == 0 else f"Sum<{STORED[data.dtype]}>"
    call = kernel(
        name, OUT=out_type, DTYPE=STORED[data.dtype], AXES=len(axes), **tiles.definitions()
    )
    blocks = tiles.tiles(rows, columns) * parts * groups
    call.launch(blocks, tiles.threads**2, (matrix,), (data, factor.operand), tail)


def _by_member(axes: list[Axis]) -> list[int]:
    return [axis[member] for member in range(len(Axis._fields)) for axis in axes]
