"""Reads and writes of one memory keep their order, whatever passes move or join."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import needle as ndl
from needle.compiler.ir.effects import Effects, overlaps
from needle.compiler.ir.graph import FlatValue, Graph, GraphError, Node, Operand, whole
from needle.compiler.ir.verify import verify
from needle.compiler.memory.plan import Donation, Place, meet, verify_plan
from needle.compiler.memory.planner import plan_memory


@st.composite
def views(draw, size=48):
    """A strided view inside of `size` elements, as an operand of a value, and its places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    base = np.arange(size).reshape(draw(st.sampled_from([(48,), (6, 8), (2, 3, 8), (4, 12)])))
    for axis in range(base.ndim):
        n = base.shape[axis]
        start, stop = sorted(rng.integers(0, n + 1, 2))
        step = rng.integers(1, 4)
        part = slice(start, stop, step)
        base = base[(slice(None),) * axis + (part,)]
        base = np.flip(base, axis) if rng.random() < 0.3 else base
    base = np.transpose(base, rng.permutation(base.ndim))
    offset = int(base.flat[0]) if base.size else 0
    return base.shape, tuple(s // base.itemsize for s in base.strides), offset, set(base.flat)


@given(views(), views())
def test_views_that_overlap_are_never_said_to_be_apart(a, b):
    value = FlatValue(0, 48, ndl.float32)
    found = overlaps(Operand(value, *a[:3]), Operand(value, *b[:3]))
    assert found or not a[3] & b[3]


@pytest.mark.parametrize(
    "one, other",
    [
        (np.s_[0], np.s_[1]),
        (np.s_[:, 0], np.s_[:, 3]),
        (np.s_[:, :2], np.s_[:, 2:]),
        (np.s_[::2], np.s_[1::2]),
        (np.s_[:, ::2], np.s_[:, 1::2]),
        (np.s_[::-1, 5:3:-1], np.s_[:, :3]),
        (np.s_[2, 2], np.s_[2, 3]),
        (np.s_[:0], np.s_[:]),
    ],
)
def test_rows_columns_and_steps_are_apart(one, other):
    base = np.arange(48).reshape(6, 8)
    value = FlatValue(0, 48, ndl.float32)

    def operand(view):
        steps = tuple(s // view.itemsize for s in view.strides)
        return Operand(value, view.shape, steps, int(view.flat[0]) if view.size else 0)

    assert not overlaps(operand(base[one]), operand(base[other]))
    assert overlaps(operand(base[other]), operand(base)) == (base[other].size > 0)


# Programs ----------------------------------------------------------------------------------------


def _vector(*numbers):
    return ndl.tensor(numbers, dtype="float32")


def two_writes_of_a_row():
    s = ndl.zeros(2, 2)

    def f(x, p, q):
        s[0] = p
        u = x + s[0]
        s[0] = q
        return u * s[0]

    return f, [s]


def columns():
    s = ndl.ones(2, 2)

    def f(x, p, q):
        u = x + s[:, 1]
        s[:, 1] = p
        v = u * s[:, 1] - s[:, 0]
        s[:, 0] = q
        return u + v * s[:, 0]

    return f, [s]


def single_elements():
    s = ndl.zeros(3)

    def f(x, p, q):
        s[1] = p.sum()
        u = x * s[1] + s[0]
        s[1] = q.sum()
        s[0] = s[1] + u.sum()
        return u - s[1] * s[0]

    return f, [s]


def running_averages():
    s = ndl.zeros(2, 2)

    def f(x, p, q):
        s[0] = 0.9 * s[0] + 0.1 * p
        u = x - s[0]
        s[0] = 0.9 * s[0] + 0.1 * q
        return u * s[0]

    return f, [s]


def a_negative_of_what_is_overwritten():
    s = ndl.ones(2)

    def f(x, p, q):
        minus = -s
        s[0] = 5.0
        return x + minus + s

    return f, [s]


def the_input_of_a_product_with_an_epilogue():
    s = ndl.ones(8, 8)

    def f(x, p, q):
        y = s @ s.T
        s[0] = p.sum()
        return ndl.relu(y + s)

    return f, [s]


def equal_programs_around_a_write():
    s, t = ndl.ones(2, 2), ndl.zeros(2)

    def f(x, p, q):
        u = (s[0] + p) * 0.5
        s[0] = q
        v = (s[0] + p) * 0.5
        return u, v

    return f, [s, t]


def equal_programs_that_replace_what_the_other_reads():
    a, b = ndl.ones(2), 2 * ndl.ones(2)

    def f(x, p, q):
        new = (a + b) * 0.5, (b + a) * 0.5
        a.data, b.data = new
        return x + p

    return f, [a, b]


def written_in_place_and_replaced():
    s = ndl.ones(3)
    view = s[1:]

    def f(x, p, q):
        s[:] = p.sum()
        before = s * 1
        s.data = s * 2
        return before + s, view + x

    return f, [s, view]


def a_part_written_in_place_and_replaced():
    s = ndl.ones(3)

    def f(x, p, q):
        s[0] = p.sum()
        new = s * 2
        old = s.detach()
        s.data = new
        return old.sum() + s.sum()

    return f, [s]


def a_transpose_is_read_between_writes():
    s = ndl.ones(2, 2)
    turned = s.T

    def f(x, p, q):
        s[0] = p
        u = turned + x
        turned[0] = q
        return u @ s, turned * u

    return f, [s, turned]


PROGRAMS = [
    two_writes_of_a_row,
    columns,
    single_elements,
    running_averages,
    a_negative_of_what_is_overwritten,
    the_input_of_a_product_with_an_epilogue,
    equal_programs_around_a_write,
    equal_programs_that_replace_what_the_other_reads,
    written_in_place_and_replaced,
    a_part_written_in_place_and_replaced,
    a_transpose_is_read_between_writes,
]


def _history(make, transform):
    """The results of some calls, and the state after each, as NumPy arrays."""
    function, states = make()
    function = transform(function)
    found = []
    for k in range(3):
        given = _vector(1, 2 + k), _vector(2 + k, 3), _vector(10, 20 - k)
        made = function(*given)
        found += [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]
        found += [t.numpy() for t in states]
    return found


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_compiled_programs_read_what_eager_ones_read(make, fuse):
    eager = _history(make, lambda f: f)
    compiled = _history(make, lambda f: ndl.jit(f, fuse=fuse))
    for a, b in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)


# The rules are checked ---------------------------------------------------------------------------


def _overwritten():
    """A call that reads a row, one that overwrites it, and a result that shows another row."""
    graph = Graph()
    state = graph.new_value(4, ndl.float32, "state")
    row, other = (Operand(state, (2,), (1,), k) for k in (0, 2))
    read = whole(graph.new_value(2, ndl.float32))
    new = graph.new_value(4, ndl.float32)
    out = Operand(new, (2,), (1,), 0)
    reader = Node("copy", (read, row), (read,), ndl.cpu())
    writer = Node("fill", (out, 1.0), (out,), ndl.cpu(), (state,))
    graph.nodes, graph.results = [reader, writer], [read, whole(new)]
    return graph, other


def test_a_read_behind_the_write_is_refused():
    graph, other = _overwritten()
    verify(graph)
    reader, writer = graph.nodes
    assert Effects(graph.nodes).readers_before(graph.nodes) == {1: {0}}
    with pytest.raises(GraphError, match="read after call 0 has overwritten it"):
        verify(graph.with_nodes([writer, reader]))
    elsewhere = Node("copy", (reader.outs[0], other), reader.outs, ndl.cpu())
    verify(graph.with_nodes([writer, elsewhere]))  # another row may be read at any time


def test_a_value_that_is_continued_twice_is_refused():
    graph, _ = _overwritten()
    out = Operand(graph.new_value(4, ndl.float32), (2,), (1,), 2)
    again = Node("fill", (out, 1.0), (out,), ndl.cpu(), graph.nodes[1].continues)
    with pytest.raises(GraphError, match="continued twice"):
        verify(graph.with_nodes([*graph.nodes, again]))


def test_a_plan_with_two_values_in_one_place_is_refused():
    graph = Graph()
    x = whole(graph.new_value(4, ndl.float32, "input"))
    a, b, c = (whole(graph.new_value(4, ndl.float32)) for _ in range(3))
    made = ((a, "exp", x), (b, "tanh", x), (c, "sqrt", a))
    graph.nodes = [Node("unary", (name, o, i), (o,), ndl.cpu()) for o, name, i in made]
    graph.results = [b, c]
    plan = plan_memory(graph, [None, None])
    verify_plan(plan, graph)
    plan.places[a.value] = plan.places[b.value] = Place(7, 0)
    plan.result_slots[0] = 7
    with pytest.raises(GraphError, match="holds another value"):
        verify_plan(plan, graph)


def test_a_state_is_written_in_place_without_copies():
    function, _ = two_writes_of_a_row()
    step = ndl.jit(function)
    step(*[_vector(1, 2)] * 3)
    written = [node for node in step.program.plan.nodes if node.kernel == "copy"]
    assert len(written) == 2 and all(node.continues for node in written)
    assert [donation for donation in step.program.donations if donation] == [
        Donation(step.program.trace.states[0].value, must=True)
    ]


def test_memory_of_no_bytes_meets_nothing():
    """A value without elements may lie anywhere, and is not lost when that is written."""
    assert not meet([(0, 8, 8)], [(0, 0, 16)])
    assert meet([(0, 8, 9)], [(0, 0, 16)])
