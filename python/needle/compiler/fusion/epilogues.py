"""Programs that run on the blocks of a product or convolution while those are in cache.

An elementwise program that is the only reader of a product (bias, activation, residual sum,
scaling, batch norm with fixed statistics) becomes the product's epilogue; so does one that also
sums the product's rows, or finds their largest element, after a matrix product. Both are one call,
`matmul_then` or `conv_then`, and the product itself is never stored. The result of a convolution
counts as a matrix of positions by channels.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from ...dtype import float32
from ...ndarray.layout import Shape, broadcast_shapes
from ...tile.ir import FULL
from ...tile.program import Program, TypedProgram
from ..ir.graph import Graph, Node, Operand
from .fuse import Fusion

FEWEST_ROWS = 5  # and columns; smaller products are not computed in blocks
# A program with several inputs joins a convolution only if the result has at least this many
# elements. A smaller result is still in cache when the program runs, and the program is then faster
# as a kernel built in C. ResNet-18's inference, joined and apart: 2 M elements 14.0 and 14.4 ms (20
# layers: 185.4 and 187.9), 260,000 elements 11.7 and 11.5.
MANY_ELEMENTS = 1 << 19
# Columns of a product whose rows a program sums, since its tiles have whole rows. The norm of each
# row, joined and apart (two Zen 4 cores): 8192 x 64 x 784 4.4 and 4.7 ms, 1024 x 128 x 128 0.18 and
# 0.21, 2048 x 384 x 1024 7.86 and 7.88; with the rows' elements stored too, no difference or 2 %.
MOST_IN_A_ROW = 1024
# Instructions that take no longer than memory traffic. Programs with other instructions gain more
# as kernels built in C: a GPT's MLP (2048 x 384 x 1536) took 3 % longer with gelu in the epilogue.
# Dropout after the same product took 5 % less time in the epilogue than as a tile program, and 3 %
# less than in C; after 256 x 784 x 512, whose result stays in cache, 2 % and 4 % more.
CHEAP = frozenset(
    "load store constant random cast where add subtract multiply divide negative abs square relu "
    "maximum minimum equal not_equal less less_equal greater greater_equal".split()
)
ROW_SUMS = frozenset({"row_sum", "row_max", "row_min"})


def epilogues(graph: Graph) -> Graph:
    """Join programs with the products and convolutions that they alone read."""
    readers = Counter(value for node in graph.nodes for value in set(node.reads()))
    readers.update(result.value for result in graph.results)
    products = {
        node.outs[0].value: node
        for node in graph.nodes
        if _is_plain_product(node) and readers[node.outs[0].value] == 1
    }
    if not products:
        return graph
    fusion = Fusion(graph)
    joined: dict[int, Node] = {}
    gone: set[int] = set()
    for number, node in enumerate(graph.nodes):
        for value in node.reads():
            if value not in products or node.continues:
                continue
            if not fusion.effects.may_wait(products[value], number):
                continue
            program = node if node.kernel == "run" else fusion.as_program(number, node)
            made = None if program is None else _joined(products[value], program)
            if made is not None:
                joined[id(node)] = made
                gone.add(id(products[value]))
                break
    return graph.with_nodes([joined.get(id(n), n) for n in graph.nodes if id(n) not in gone])


def _is_plain_product(node: Node) -> bool:
    """Is it a float32 product or convolution whose result is new, whole and in C order?"""
    if node.kernel not in ("matmul", "conv") or node.continues or not node.device.offers.epilogues:
        return False
    out = node.outs[0]
    is_tiled = node.kernel == "conv" or (len(out.shape) == 2 and min(out.shape) >= FEWEST_ROWS)
    return is_tiled and out.dtype is float32 and out.is_compact()


def _joined(product: Node, node: Node) -> Node | None:
    """Both as one call, if the program runs over the product's rows and columns."""
    typed, outs, ins, inner = node.args
    out = product.outs[0]
    rows_and_columns = (math.prod(out.shape[:-1]), out.shape[-1])
    places = [i for i, x in enumerate(ins) if x.value is out.value]
    if node.device is not product.device or len(places) != 1:
        return None
    place = places[0]
    shape = broadcast_shapes("run", *(x.shape for x in (*outs, *ins)))
    if typed.input_kinds[place] != FULL or math.prod(shape) != out.size:
        return None
    if not (_is_elementwise(typed) or _sums_rows(typed, shape, inner, product)):
        return None
    if product.kernel == "conv" and len(ins) > 2 and out.size < MANY_ELEMENTS:
        return None
    matrices = [as_matrix(x, shape, rows_and_columns) for x in (*outs, *ins)]
    found = [x for x in matrices if x is not None]
    if len(found) < len(matrices):
        return None
    results, others = tuple(found[: len(outs)]), found[len(outs) :]
    if others.pop(place) != as_matrix(out, out.shape, rows_and_columns):
        return None
    _, a, b, *window = product.args
    if product.kernel == "conv":
        window.insert(0, out.shape)
    args = (_with_first(typed, place), results, a, b, *window, tuple(others))
    return node.instead(f"{product.kernel}_then", args, results)


def _is_elementwise(typed: TypedProgram) -> bool:
    is_full = set(typed.output_kinds) == {FULL}
    return is_full and typed.is_elementwise and all(i.name in CHEAP for i in typed.instructions)


def _sums_rows(typed: TypedProgram, shape: Shape, inner: int, product: Node) -> bool:
    """Does the program reduce the rows of the product, of which a block has whole ones?"""
    out = product.outs[0]
    is_row = math.prod(shape[len(shape) - inner :]) == out.shape[-1] <= MOST_IN_A_ROW
    if not is_row or product.kernel != "matmul" or not typed.reduces_rows:
        return False
    full = [i.name for i in typed.instructions if i.kind == FULL or i.is_row_reduction]
    return all(name in CHEAP or name in ROW_SUMS for name in full)


def _with_first(typed: TypedProgram, place: int) -> TypedProgram:
    """The program with the input at `place` as its first one."""
    if place == 0:
        return typed
    old = typed.program
    order = [place, *(i for i in range(len(old.inputs)) if i != place)]
    instructions = tuple(
        replace(i, detail=order.index(i.detail)) if i.name == "load" else i
        for i in old.instructions
    )
    inputs, names = (tuple(x[i] for i in order) for x in (old.inputs, old.arguments))
    program = Program(old.name, names, instructions, inputs, old.outputs)
    return program.for_dtypes(tuple(typed.inputs[i] for i in order), typed.outputs)


def as_matrix(x: Operand, shape: Shape, matrix: Shape) -> Operand | None:
    """An operand that broadcasts to `shape`, as a matrix with the same elements; None if its rows
    or columns have no constant stride."""
    missing = len(shape) - len(x.shape)
    axes = [
        (n, 0 if i < missing or x.shape[i - missing] == 1 else x.strides[i - missing])
        for i, n in enumerate(shape)
        if n != 1
    ]
    strides: list[int] = []
    for size in reversed(matrix):
        step = _take(axes, size)
        if step is None:
            return None
        strides.insert(0, step)
    rows, columns = (n if s else 1 for n, s in zip(matrix, strides, strict=True))
    return Operand(x.value, (rows, columns), tuple(strides), x.offset)


def _take(axes: list[tuple[int, int]], size: int) -> int | None:
    """Take `size` elements off the innermost (size, stride) axes; returns their common stride, or
    None if they have none."""
    if size == 1:
        return 0
    first: int | None = None
    length = 1  # elements taken
    while length < size:
        n, step = axes.pop()
        if first is None:
            first = step
        elif step != first * length:
            return None
        if length * n > size:
            part = size // length
            if size % length or n % part:
                return None
            axes.append((n // part, step * part))
            n = part
        length *= n
    return first if length == size else None
