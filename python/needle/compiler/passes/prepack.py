"""Weights that a program only reads, kept in the order in which products read them.

A product of some hundred rows copies its weights into panels of columns at every call. If the
weights do not change between calls, the panels are made once, and the product becomes a batch of
products, one per panel, which reads the panels in place.

    (m, n) = (m, k) @ (k, n)    becomes    (n / 64, m, 64) = (m, k) @ (n / 64, k, 64)

Panels are made again after the weights have been written (`Buffer.version`), and are shared by all
programs that use the same weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from ...backend import BackendDevice
from ...dtype import float32
from ...ndarray.array import compact_view, make_view
from ..ir.graph import CONSTANT, FlatValue, Graph, Node, Operand, whole
from ..trace.breaks import PYTHON

WIDTH = 64  # columns of a panel: a block of AVX-512, four of AVX2
# Products of so many rows gain. Two threads of a Zen 4, weights of 768 x 3072 from memory: 66 rows
# 1.85 ms with weights copied and 1.51 with panels kept, 128 3.26 and 2.88, 512 12.3 and 11.1, 1024
# 24.0 and 22.8. Products of fewer rows read weights as they lie.
FEWEST_ROWS, MOST_ROWS = 65, 512
FEWEST_WEIGHTS = 1 << 17  # smaller ones are not copied either

_kept: WeakKeyDictionary[Any, dict[Any, tuple[int, Any]]] = WeakKeyDictionary()


def prepack(graph: Graph, fixed: dict[FlatValue, Any]) -> tuple[Graph, dict[FlatValue, Operand]]:
    """The program with panels in place of weights, and the weights that each panel is a copy of.
    `fixed` has the memory of the state that the program does not change."""
    made_of: dict[FlatValue, Operand] = {}
    if any(node.kernel == PYTHON for node in graph.nodes):  # which may write anything
        return graph, made_of
    made = replace(graph, inputs=list(graph.inputs), nodes=[])
    known: dict[Operand, FlatValue] = {}
    for node in graph.nodes:
        if not _gains(node) or not _is_private(fixed.get(node.args[2].value)):
            made.nodes.append(node)
            continue
        out, a, weights = node.args
        if weights not in known:
            known[weights] = made.new_value(weights.size, float32, CONSTANT)
            made_of[known[weights]] = weights
        (m, n), k = out.shape, weights.shape[0]
        parts = Operand(out.value, (n // WIDTH, m, WIDTH), (WIDTH, n, 1), out.offset)
        kept = whole(known[weights], (n // WIDTH, k, WIDTH))
        made.nodes.append(node.instead("matmul", (parts, a, kept), (parts,)))
    return made, made_of


def _gains(node: Node) -> bool:
    """Is it a product of float32 matrices, of a size that gains (see above)?"""
    if node.kernel != "matmul" or not node.device.offers.prepacking or node.continues:
        return False
    out, a, weights = node.args
    if len(out.shape) != 2 or not out.is_compact() or {x.dtype for x in node.args} != {float32}:
        return False
    m, n = out.shape
    is_large = FEWEST_ROWS <= m <= MOST_ROWS and weights.size >= FEWEST_WEIGHTS
    return is_large and n % WIDTH == 0 and weights.is_whole() and a.value is not weights.value


def _is_private(memory: Any) -> bool:
    """Is every write to it noticed? The version of memory that other libraries can write differs
    each time that it is read."""
    return memory is not None and memory.version == memory.version


def prepacked(weights: Operand, device: BackendDevice, memory: Any) -> Any:
    """The memory of the panels of weights that lie in `memory` of a device."""
    place = (weights.shape, weights.strides, weights.offset)
    known = _kept.setdefault(memory, {})
    version = memory.version  # read before the copy: a write during the copy changes it
    made_at, panels = known.get(place, (None, None))
    if made_at != version:
        (k, n), (row, column) = weights.shape, weights.strides
        shape, steps = (n // WIDTH, k, WIDTH), (WIDTH * column, row, column)
        panels = device.mod.empty(weights.size, float32)
        target = compact_view(shape, float32, device, panels)
        source = make_view(shape, steps, weights.offset, float32, device, memory)
        device.mod.copy(target, source)
        known[place] = (version, panels)
    return panels
