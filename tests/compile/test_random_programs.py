"""Random programs: compiled equals eager in every bit, and no two live values share memory."""

import numpy as np
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle.compiler.ir.verify import verify
from needle.compiler.memory.plan import ARENA
from needle.compiler.memory.planner import Arena

UNARY = ("exp", "tanh", "relu", "square", "abs", "sigmoid")
BINARY = ("add", "subtract", "multiply", "maximum")
SIDE = 4


def build(choices):
    """A function of two (SIDE, SIDE) tensors that makes a list of values, each from former ones."""

    def function(a, b, w):
        values = [a, b, w]
        for kind, first, second, how in choices:
            x, y = values[first % len(values)], values[second % len(values)]
            if kind == 0:
                made = getattr(ndl, UNARY[how % len(UNARY)])(x * 0.1)
            elif kind == 1:
                made = getattr(ndl, BINARY[how % len(BINARY)])(x, y)
            elif kind == 2:
                made = (x @ y) * 0.1
            elif kind == 3:
                made = x.T if how % 2 else ndl.flip(x, how % 4 // 2)
            elif kind == 4:
                made = x.sum(how % 2, keepdims=True).broadcast_to((SIDE, SIDE)) * 0.1
            elif kind == 5:
                made = ndl.where(x > y, x, y * 2)
            elif kind == 6:
                made = x.detach().clone()
                made[how % SIDE] = y[0] if how % 3 else 3.0
            elif kind == 7:
                made = ndl.stack([x[0], y[1], x[2], y[:, 3]], 0)
            else:
                w.data = (w + x * 0.1).tanh()
                made = w * 2
            values.append(made)
        return values[-1], values[-2] + values[len(values) // 2]

    return function


calls = st.tuples(*(st.integers(0, n) for n in (8, 60, 60, 11)))


@settings(max_examples=150, deadline=None)
@given(st.lists(calls, min_size=5, max_size=50), st.integers(0, 5), st.booleans())
def test_random_programs_equal_eager(choices, seed, fuse):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(3)]
    outcomes = []
    for compiled in (False, True):
        a, b, w = map(ndl.tensor, arrays)
        function = build(choices)

        def step(a, b):
            return function(a, b, w)  # noqa: B023

        step = ndl.jit(step, fuse=fuse) if compiled else step
        found = []
        for _ in range(3):
            found += [x.numpy() for x in step(a, b)] + [w.numpy()]
        outcomes.append(found)
    for eager, ours in zip(*outcomes, strict=True):
        if fuse:
            np.testing.assert_allclose(eager, ours, 1e-3, 1e-5 * np.abs(eager).max())
        else:
            np.testing.assert_array_equal(eager, ours)
    verify(step.program.graph)
    check_plan(step.program.plan)


def check_plan(plan):
    """Values that are alive at the same time do not overlap in the arena.

    A value may take the place of one that dies in the very call that writes it.
    """
    spans = []
    for root, (start, end) in plan.lifetimes.items():
        place = plan.places[root]
        assert place.slot == ARENA and place.offset + root.nbytes <= plan.arena_bytes
        spans.append((start, end, place.offset, place.offset + root.nbytes))
    for i, (start, end, low, high) in enumerate(spans):
        for other_start, other_end, other_low, other_high in spans[:i]:
            together = start < other_end and other_start < end
            same_call = start == other_start
            if together or same_call:
                assert high <= other_low or other_high <= low


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=60))
def test_arena_never_gives_memory_twice(steps):
    arena, live = Arena(), []
    for take, n in steps:
        if take or not live:
            offset = arena.take(n)
            assert offset % 64 == 0 and offset + n <= arena.size
            assert all(offset + n <= o or o + m <= offset for o, m in live if n and m)
            live.append((offset, n))
        else:
            arena.give(*live.pop(n % len(live)))
    for offset, n in live:
        arena.give(offset, n)
    size = arena.size
    assert arena.take(size) == 0 or size == 0
