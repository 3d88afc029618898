"""Programs that compute an operand of a product while the product copies it.

An elementwise program whose only result is the left factor of a matrix product, and is read by
nothing else, becomes the product's prologue. Both are one call, `matmul_of`: the program runs on
the rows that the product is about to use, and its result is never stored. The product may have an
epilogue too. A convolution with one tap is such a product, of positions by channels; others store
their input.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from ...dtype import float32
from ...ndarray.layout import broadcast_shapes
from ...tile.ir import FULL
from ...tile.program import Symbol, TypedProgram, cast, program
from ..ir.graph import Graph, Node, Operand
from .epilogues import as_matrix
from .fuse import Fusion

# A factor with this many elements does not stay in cache until the product reads it. Best ms as two
# calls and as one, on two threads of a Zen 4 with 32 MB of third-level cache, for m x k x n:
#
#     relu           4096 x 384 x 16 0.33 and 0.33, 16384 x 256 x 16 1.85 and 1.03
#     x s + b, relu  65536 x 64 x 64 4.35 and 3.43, 32768 x 384 x 64 12.2 and 10.1
#     gelu           16384 x 256 x 16 3.53 and 2.63, 32768 x 384 x 64 16.5 and 14.3
#
# As a call of its own, the program may also be built in C, as a prologue it may not. Built in C and
# as a prologue, 16384 x 256 x 64: relu 3.64 and 3.17, x s + b and relu 2.92 and 2.92, gelu 4.34 and
# 3.84, eight sums and products 3.96 and 3.96; 4096 x 384 x 64: all the same within 2 %.
MANY_ELEMENTS = 1 << 22
# With more columns the product takes longer than memory: 16384 x 256 x 512 22.0 and 21.1 ms, 8192 x
# 1000 x 1024 81.6 and 81.9. A device that cuts columns into tiles would also compute rows several
# times. With fewer columns, it has no tiles.
FEWEST_COLUMNS, MOST_COLUMNS = 9, 512
# Few rows that are longer than this fit into a tile: 8192 x 1024 x 256 22.8 and 20.8 ms,
# 4096 x 4000 x 64 12.7 and 13.7.
LONGEST_ROW = 2048
# A convolution sums all channels at once, a product blocks of at least this many: up to here both
# sum alike. Batch norm and relu before a convolution with one tap, and the call that makes their
# input, 32 x 56 x 56 x 64 to 64 channels: 8.98 and 6.99 ms, built in C 7.22 and 6.85. Before 3 x 3
# taps they are 3 % of its time (1.8 of 62 ms), and it would compute the lines between its tiles
# twice.
MOST_CHANNELS = 256


class Product(NamedTuple):
    """A product with or without an epilogue: outs = then(a b, others)."""

    a: Operand
    b: Operand
    outs: tuple[Operand, ...]
    then: TypedProgram | None = None
    others: tuple[Operand, ...] = ()

    def is_worth_it(self) -> bool:
        """Is it a product of plain float32 matrices, of a size that gains?"""
        out, a = self.outs[0], self.a
        if len(out.shape) != 2 or (self.then is None and out.dtype is not float32):
            return False
        if not a.is_compact() or not (self.then or out.is_compact()):
            return False
        is_thin = FEWEST_COLUMNS <= out.shape[1] <= MOST_COLUMNS
        return is_thin and a.shape[1] <= LONGEST_ROW and a.size >= MANY_ELEMENTS


@program
def widened(x: Symbol) -> Symbol:
    """Elements of a small type as floats."""
    return cast(x, float32)


def prologues(graph: Graph) -> Graph:
    """Join programs with the products that are the only readers of their results."""
    places = {id(node): number for number, node in enumerate(graph.nodes)}
    readers = Counter(value for node in graph.nodes for value in node.reads())
    readers.update(result.value for result in graph.results)
    makers = {out.value: node for node in graph.nodes for out in node.outs}
    fusion: Fusion | None = None
    joined: dict[int, Node] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        product = _product(node)
        if product is None or not node.device.offers.prologues():
            continue
        if readers[product.a.value] != 1 or product.a.value not in makers:
            continue
        fusion = fusion or Fusion(graph)
        maker = makers[product.a.value]
        if not fusion.effects.may_wait(maker, places[id(node)]):
            continue
        found = _program(maker, places[id(maker)], fusion)
        made = None if found is None else _joined(found, node, product)
        if made is not None:
            joined[id(node)] = made
            gone.add(id(maker))
    return graph.with_nodes([joined.get(id(n), n) for n in graph.nodes if id(n) not in gone])


def _product(node: Node) -> Product | None:
    """A call as a product that is worth a prologue; None if it is not one."""
    found: Product | None = None
    if node.continues:
        return None
    if node.kernel == "matmul":
        out, a, b = node.args
        found = Product(a, b, (out,))
    elif node.kernel == "matmul_then":
        then, outs, a, b, others = node.args
        found = Product(a, b, outs, then, others) if then.is_elementwise else None
    elif node.kernel == "conv":
        out, x, w, *window = node.args
        y = as_matrix(out, out.shape, (math.prod(out.shape[:-1]), out.shape[-1]))
        found = None if y is None else _of_positions(x, w, window, Product(x, w, (y,)))
    elif node.kernel == "conv_then":
        then, outs, x, w, _, *window, others = node.args
        found = _of_positions(x, w, window, Product(x, w, outs, then, others))
    return found if found is not None and found.is_worth_it() else None


def _of_positions(x: Operand, w: Operand, window: list[Any], conv: Product) -> Product | None:
    """A convolution with one tap as a product of positions by channels."""
    stride, padding, _, groups = window
    channels, features = w.shape[-2:]
    is_point = {*w.shape[:-2], *stride, groups} == {1} and not any(padding)
    a = as_matrix(x, x.shape, (math.prod(x.shape[:-1]), channels))
    if not is_point or a is None or channels > MOST_CHANNELS:
        return None
    b = Operand(w.value, (channels, features), w.strides[-2:], w.offset)
    return conv._replace(a=a, b=b)


def _program(node: Node, number: int, fusion: Fusion) -> Node | None:
    """A call as an elementwise program with one result; None if it cannot be one."""
    if len(node.outs) != 1 or node.continues:
        return None
    if node.kernel == "copy" and node.ins[0].dtype.itemsize < float32.itemsize:
        typed = widened.for_dtypes((node.ins[0].dtype,), (float32,))
        return node.instead("run", (typed, node.outs, node.ins, 0))
    found = node if node.kernel == "run" else fusion.as_program(number, node)
    if found is None or found.args[0].output_kinds != (FULL,):
        return None
    typed = found.args[0]
    return found if typed.is_elementwise and not typed.is_random else None


def _joined(maker: Node, node: Node, product: Product) -> Node | None:
    """Both as one call, if the program's operands have the rows of the factor."""
    (typed, outs, ins, _), a = maker.args, product.a
    shape = broadcast_shapes("run", *(x.shape for x in (*outs, *ins)))
    if math.prod(shape) != a.size or maker.device is not node.device:
        return None
    whole, *matrices = (as_matrix(x, shape, a.shape) for x in (*outs, *ins))
    found = tuple(x for x in matrices if x is not None and x.strides[1] in (0, 1))
    if len(found) < len(matrices) or whole != as_matrix(a, a.shape, a.shape):
        return None
    args = (typed, product.outs, found, product.b, product.then, product.others)
    return node.instead("matmul_of", args, product.outs)
