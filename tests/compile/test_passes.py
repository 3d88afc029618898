"""Passes: golden text of small graphs, and the rules that a graph must keep."""

import pytest

import needle as ndl
from needle.compiler.ir.graph import Graph, GraphError, Node, whole
from needle.compiler.ir.verify import verify
from needle.compiler.passes.simplify import (
    eliminate_dead_code,
    merge_common_subexpressions,
    simplify,
)
from needle.compiler.trace.tracer import ArgumentType, trace
from needle.dtype import float32


def traced(function, *shapes):
    types = [ArgumentType(s, float32, ndl.cpu(), False, ndl.Tensor) for s in shapes]
    return trace(function, tuple(0 for _ in shapes), {}, types).graph


def lines(graph):
    verify(graph)
    return str(graph).splitlines()


def test_a_graph_reads_like_a_program():
    graph = traced(lambda x, w: (x @ w.T).exp().sum(), (2, 3), (4, 3))
    assert lines(graph) == [
        "%0: float32[6] input",
        "%1: float32[12] input",
        "%2: float32[2, 4] = matmul(%0, %1[3x4 by 1x3])",
        "%3: float32[2, 4] = unary(exp, %2)",
        "%4: float32[1, 1] = reduce(sum, %3)",
        "return %4",
    ]


def test_dead_calls_are_left_out():
    def f(x):
        x.exp()
        return x.log()

    assert len(traced(f, (3,)).nodes) == 2
    assert lines(eliminate_dead_code(traced(f, (3,)))) == [
        "%0: float32[3] input",
        "%2: float32[3] = unary(log, %0)",
        "return %2",
    ]


def test_equal_calls_are_made_once():
    graph = traced(lambda x: x.exp() + x.exp() * x.T.exp(), (3, 3))
    assert lines(merge_common_subexpressions(graph)) == [
        "%0: float32[9] input",
        "%1: float32[3, 3] = unary(exp, %0)",
        "%3[3x3 by 1x3]: float32[3, 3] = unary(exp, %0[3x3 by 1x3])",
        "%4: float32[3, 3] = binary(multiply, %1, %3[3x3 by 1x3])",
        "%5: float32[3, 3] = binary(add, %1, %4)",
        "return %5",
    ]


def test_identities_and_arrays_of_one_number():
    graph = simplify(traced(lambda x: x * 1 / ndl.ones(3) + ndl.full((3,), 2.0), (3,)))
    assert lines(graph) == [
        "%0: float32[3] input",
        "%5: float32[3] = binary(add, %0, 2.0)",
        "return %5",
    ]


def test_what_would_change_a_bit_stays():
    graph = simplify(traced(lambda x: x + 0, (3,)))
    assert [n.kernel for n in graph.nodes] == ["binary"]


def test_constants_are_computed_now():
    graph = simplify(traced(lambda x: ndl.tril(x), (3, 3)))
    assert [n.kernel for n in graph.nodes] == ["fill", "where"]


def test_a_changed_part_continues_its_memory():
    def f(x):
        y = x * 2
        y[1:] = 7.0
        return y

    assert lines(traced(f, (3,))) == [
        "%0: float32[3] input",
        "%1: float32[3] = binary(multiply, %0, 2)",
        "%2[2 by 1+1]: float32[2] = fill(7.0) onto %1",
        "return %2",
    ]


def test_broken_graphs_are_found():
    graph = Graph()
    x, y = graph.new_value(3, float32, "input"), graph.new_value(3, float32)
    out = whole(y)
    call = Node("copy", (out, whole(x)), (out,), ndl.cpu())
    graph.nodes, graph.results = [call], [whole(y)]
    verify(graph)
    with pytest.raises(GraphError, match="written twice"):
        verify(graph.with_nodes([call, call]))
    with pytest.raises(GraphError, match="never written"):
        verify(graph.with_nodes([]))
    outside = Node("copy", (call.outs[0], whole(x)._replace(offset=1)), call.outs, ndl.cpu())
    with pytest.raises(GraphError, match="leaves its value"):
        verify(graph.with_nodes([outside]))
    late = Node("copy", (call.outs[0], whole(y)), call.outs, ndl.cpu())
    with pytest.raises(GraphError, match="before it is written"):
        verify(graph.with_nodes([late]))


def test_numbers_are_computed_now():
    graph = simplify(traced(ndl.grad(lambda x, y: (x - y).square().mean()), (4,), (4,)))
    assert lines(graph)[2:] == [
        "%3: float32[4] = binary(subtract, %0, %1)",
        "%10: float32[4] = binary(multiply, 0.5, %3)",
        "return %10",
    ]
