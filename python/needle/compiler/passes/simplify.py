"""Passes that make a graph smaller: Graph in, Graph out, and the same results in every bit.

`simplify` runs them in order; the rules for single calls are in `rules.py`.
"""

from __future__ import annotations

from typing import Any

from ..control.loops import LOOP
from ..ir.graph import CONSTANT, FlatValue, Graph, Node, Operand, map_operands, whole
from ..ir.verify import verified
from ..trace.breaks import PYTHON, has_effect
from .rules import RULES

FOLDED_ELEMENTS = 1 << 22  # larger constants are computed at each call


def simplify(graph: Graph) -> Graph:
    """All passes that change no result."""
    for a_pass in (
        eliminate_dead_code,
        fold_constants,
        apply_rules,
        merge_common_subexpressions,
        eliminate_dead_code,
    ):
        graph = verified(a_pass(graph))
    return graph


def eliminate_dead_code(graph: Graph) -> Graph:
    """Dead-code elimination: without the calls that no result and no effect depends on."""
    needed = {r.value for r in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if has_effect(node) or any(out.value in needed for out in node.outs):
            kept.append(node)
            needed.update(node.reads())
    return graph.with_nodes(kept[::-1])


def replaced(operand: Operand, by: dict[FlatValue, Operand]) -> Operand:
    """The same elements as a view of another value."""
    found = by.get(operand.value)
    if found is None:
        return operand
    return operand._replace(value=found.value, offset=operand.offset + found.offset)


def merge_common_subexpressions(graph: Graph) -> Graph:
    """Common subexpressions: equal calls on equal operands are made once. Values that are updated
    in place are left alone."""
    continued = graph.continued()
    seen: dict[Any, Node] = {}
    by: dict[FlatValue, Operand] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = node.mapped(lambda x: replaced(x, by))
        if node.continues or any(o.value in continued for o in node.outs):
            nodes.append(node)
            continue
        first = seen.setdefault(_key(node), node)
        if first is node:
            nodes.append(node)
        else:
            for old, new in zip(node.outs, first.outs, strict=True):
                by[old.value] = whole(new.value)
    results = [replaced(r, by) for r in graph.results]
    return graph.with_nodes(nodes, results)


def _key(node: Node) -> Any:
    """What two calls must have in common to be merged; 0 and -0 differ, and so do 1 and 1.0."""
    outs = {id(o) for o in node.outs}

    def without_outs(x: Operand) -> Any:
        return (x.shape, x.strides, x.offset, x.dtype) if id(x) in outs else x

    args = map_operands(node.args, without_outs)
    return node.kernel, node.device.name, args, repr([a for a in args if isinstance(a, float)])


def apply_rules(graph: Graph) -> Graph:
    """Every call rewritten by the first rule that applies to it, until none does."""
    continued = graph.continued()
    made: dict[FlatValue, Node] = {}
    by: dict[FlatValue, Operand] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = node.mapped(lambda x: replaced(x, by))
        if not node.continues and not any(o.value in continued for o in node.outs):
            node = _rewritten(node, made)
        same = _same_elements(node, continued)
        if same is not None:
            by[node.outs[0].value] = same
        else:
            nodes.append(node)
            if not any(x.value in continued for x in node.ins):  # else it may be too late to read
                made.update({o.value: node for o in node.outs})
    return graph.with_nodes(nodes, [replaced(r, by) for r in graph.results])


def _rewritten(node: Node, made: dict[FlatValue, Node]) -> Node:
    for rule in RULES.get(node.kernel, ()):
        new = rule(node, made)
        if new is not None:
            return _rewritten(new, made)
    return node


def _same_elements(node: Node, continued: set[FlatValue]) -> Operand | None:
    """The source of a copy with the same layout, if neither is continued: it can stand for the
    copy."""
    if node.kernel != "copy" or node.continues:
        return None
    out, source = node.outs[0], node.ins[0]
    fits = (
        out.value not in continued
        and source.value not in continued
        and (out.shape, out.strides, out.dtype) == (source.shape, source.strides, source.dtype)
        and out.is_whole()
        and out.offset == 0
    )
    return source if fits else None


def fold_constants(graph: Graph) -> Graph:
    """Calls on constants alone are made now."""
    continued = graph.continued()
    constants = graph.constants
    nodes: list[Node] = []
    for node in graph.nodes:
        known = node.ins and all(x.value in constants for x in node.ins)
        small = all(o.value.size <= FOLDED_ELEMENTS for o in node.outs)
        fixed = not node.continues and not any(o.value in continued for o in node.outs)
        fixed = fixed and node.kernel not in (LOOP, PYTHON)
        if not (known and small and fixed and all(o.is_whole() for o in node.outs)):
            nodes.append(node)
            continue
        kernels = node.device.mod
        made = {out.value: kernels.empty(out.value.size, out.dtype) for out in node.outs}
        try:
            getattr(kernels, node.kernel)(*arrays_of(node, constants | made))
        except IndexError:  # left to the program, which raises it if it gets there
            nodes.append(node)
            continue
        constants.update(made)
        for value in made:
            value.kind = CONSTANT
            graph.inputs.append(value)
    return graph.with_nodes(nodes)


def arrays_of(node: Node, memory: dict[FlatValue, Any]) -> tuple[Any, ...]:
    """A call's arguments, with arrays on real memory."""
    arguments: tuple[Any, ...] = map_operands(
        node.args, lambda x: x.array(node.device, memory[x.value])
    )
    return arguments
