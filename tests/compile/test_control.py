"""cond, scan and while_loop: the same eagerly and compiled, with gradients."""

import numpy as np
import pytest

import needle as ndl
from needle.compiler.errors import TraceError

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def both(function, *args):
    """The results of a function, eager and compiled, which must agree."""
    eager, compiled = function(*args), ndl.jit(function)(*args)
    np.testing.assert_allclose(eager.numpy(), compiled.numpy(), rtol=1e-6)
    return eager


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_chooses_and_differentiates(sign):
    def f(x):
        return ndl.cond(x.sum() > 0, lambda x: (x * 2).sum(), lambda x: (x * x).sum(), x)

    x = ndl.tensor(sign * np.ones(3, np.float32))
    assert both(f, x).item() == (6.0 if sign > 0 else 3.0)
    gradient = both(ndl.grad(f), x)
    assert gradient.tolist() == ([2.0] * 3 if sign > 0 else [-2.0] * 3)


def test_dtypes_must_agree():
    """In eager mode the dtype is that of the branch; a compiled function has no such result."""
    x, wide = ndl.ones(3), np.ones(3)
    with pytest.raises(TypeError, match=r"\[cond\] .*same dtypes, got float64 and float32"):
        ndl.jit(lambda x: ndl.cond(x.sum() > 0, lambda: x + wide, lambda: x))(x)
    with pytest.raises(TypeError, match=r"\[while_loop\] .*got float64 and float32"):
        ndl.jit(
            lambda x: ndl.while_loop(lambda q: q.sum() < 9, lambda q: q + wide, x, max_steps=4)
        )(x)


def test_branches_must_agree():
    with pytest.raises(ValueError, match="same shapes"):
        ndl.jit(lambda x: ndl.cond(x.sum() > 0, lambda: x, lambda: x[:1]))(ndl.ones(3))

    with pytest.raises(
        ValueError, match=r"same nesting, got leaves at \[\(0,\)\] and \[\('a',\)\]"
    ):
        ndl.jit(lambda x: ndl.cond(x.sum() > 0, lambda: [x], lambda: {"a": x}))(ndl.ones(3))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_may_have_other_orders_and_python_values(sign):
    def f(x):
        return ndl.cond(
            x.sum() > 0,
            lambda: {"a": x, "b": (x * 2, None, 3, "text", 1.0)},
            lambda: {"b": (x * 3, None, 3, "text", 2.0), "a": -x},
        )

    x = ndl.tensor(sign * X)
    eager, compiled = f(x), ndl.jit(f)(x)
    np.testing.assert_array_equal(compiled["a"].numpy(), eager["a"].numpy())
    np.testing.assert_array_equal(compiled["b"][0].numpy(), eager["b"][0].numpy())
    assert compiled["b"][1:4] == (None, 3, "text")
    assert compiled["b"][4].item() == eager["b"][4]


def test_what_is_chosen_from_must_not_assign():
    w = ndl.ones(2).requires_grad_()

    def assign(x):
        w.data = w.detach() + x
        return x

    def differentiate(x):
        (w * x).sum().backward(create_graph=False)
        return x

    for effect in (assign, differentiate):
        for f in (
            lambda x: ndl.cond(x.sum() > 0, effect, lambda x: x, x),  # noqa: B023
            lambda x: ndl.while_loop(lambda x: x.sum() < 0, effect, x, 3),  # noqa: B023
        ):
            with pytest.raises(ndl.TraceError, match=r"changes a tensor.*\n.*test_control.py"):
                ndl.jit(f)(ndl.ones(2))
    assert w.tolist() == [1.0, 1.0] and w.grad is None


def test_a_condition_has_one_element():
    def choose(x):
        return ndl.cond(x > 0, lambda: x.sum(), lambda: -x.sum())

    def grow(x):
        return ndl.while_loop(lambda x: x < 9, lambda x: x * 2, x, 5)

    for f in (choose, grow):
        assert both(f, ndl.tensor([[3.0]])).shape == f(ndl.tensor([[3.0]])).shape
        for called in (f, ndl.jit(f)):
            with pytest.raises(ValueError, match=r"use .any\(\) or .all\(\)"):
                called(ndl.ones(2))


def test_a_loop_may_count_in_python():
    def f(x, **steps):
        return ndl.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2, s[1] + 1), (x, 0), **steps)

    for steps in ({}, {"max_steps": 9}, {"max_steps": 2}):
        (eager, n), (compiled, m) = f(ndl.ones(2), **steps), ndl.jit(f)(ndl.ones(2), **steps)
        assert n == m == min(3, steps.get("max_steps", 3)) and eager.tolist() == compiled.tolist()

    def stops(x):
        conditions = iter([True, x.sum() < 20, x.sum() < 3, True, True])
        return ndl.while_loop(lambda s: next(conditions), lambda s: s * 2, x, 5)

    assert both(stops, ndl.ones(2)).tolist() == [32.0, 32.0]
    assert both(stops, ndl.ones(2) * 2).tolist() == [8.0, 8.0]


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_a_condition_holds_unless_it_is_zero(dtype):
    for value in (0, 1, 2):
        condition = ndl.tensor(value, dtype=dtype)
        chosen = both(lambda c: ndl.cond(c, lambda: ndl.ones(1), lambda: ndl.zeros(1)), condition)
        looped = both(lambda c: ndl.while_loop(lambda x: c, lambda x: x + 1, c * 0.0, 1), condition)
        assert chosen.item() == looped.item() == float(value != 0)


def test_scan_is_a_recurrence():
    w = ndl.tensor(np.eye(3, dtype=np.float32) * 0.5)

    def f(xs):
        def cell(h, x):
            h = (h @ w + x).tanh()
            return h, {"h": h, "twice": h * 2}

        last, steps = ndl.scan(cell, ndl.zeros(1, 3), xs)
        return (last + steps["twice"][2] + steps["h"].sum(0)).sum()

    h, kept = np.zeros((1, 3)), []
    for x in X:
        h = np.tanh(h @ (0.5 * np.eye(3)) + x)
        kept.append(h)
    expected = (h + 2 * kept[2] + sum(kept)).sum()
    np.testing.assert_allclose(both(f, ndl.tensor(X)).item(), expected, rtol=1e-5)
    assert both(ndl.grad(f), ndl.tensor(X)).shape == X.shape


def test_functions_that_are_only_chosen_from_write_no_memory_from_outside():
    memory = ndl.zeros(3)

    def into(target, x):
        target[0] = x
        return x * 2 + target.sum()

    def outside(x):
        return ndl.cond(x > 0, lambda x: into(memory, x), lambda x: -x, x)

    def looped(x):
        return ndl.while_loop(lambda x: x > 0, lambda x: into(memory, x) - 9, x, 3)

    for f in (outside, looped):
        with pytest.raises(ndl.TraceError, match="changes a tensor from outside"):
            ndl.jit(f)(ndl.tensor(-3.0))
        assert memory.tolist() == [0.0, 0.0, 0.0]

    def inside(x):  # memory of its own may be written
        return ndl.cond(x > 0, lambda x: into(ndl.zeros(3), x), lambda x: -x, x)

    assert both(inside, ndl.tensor(3.0)).item() == 9.0
    assert both(inside, ndl.tensor(-3.0)).item() == 3.0


def test_a_loop_in_a_branch_keeps_its_own_memory():
    def f(xs):
        def total(xs):
            return ndl.scan(lambda c, x: (c + x, x), ndl.zeros(()), xs)[0]

        return ndl.cond(xs.sum() > 0, total, lambda xs: xs.max(), xs)

    assert both(f, ndl.tensor([1.0, 2.0])).item() == 3.0
    assert both(f, ndl.tensor([-1.0, -2.0])).item() == -1.0


def test_scan_without_inputs_has_a_length():
    last, powers = ndl.scan(lambda x, _: (x * 2, x), ndl.tensor(1.0), length=4)
    assert last.item() == 16.0 and powers.tolist() == [1.0, 2.0, 4.0, 8.0]
    with pytest.raises(ValueError, match="one size"):
        ndl.scan(lambda c, x: (c, x), ndl.tensor(1.0), (ndl.ones(2), ndl.ones(3)))
    with pytest.raises(ValueError, match="one size"):
        ndl.scan(lambda c, x: (c, x), ndl.tensor(1.0))


@pytest.mark.parametrize("compiled", [False, True])
def test_scan_wants_a_pair(compiled):
    def run(xs):
        return ndl.scan(lambda carry, x: carry + x, ndl.zeros(2), xs)

    with pytest.raises(TypeError, match=r"\[scan\] expected f to return a pair .* got Tensor"):
        (ndl.jit(run) if compiled else run)(ndl.ones(3, 2))


def test_while_loop_stops_when_its_condition_does_not_hold():
    def f(x):
        return ndl.while_loop(lambda s: s["x"].sum() < 100, grow, {"x": x, "n": x * 0}, 20)["x"]

    def grow(s):
        return {"x": s["x"] * 2, "n": s["n"] + 1}

    assert both(f, ndl.tensor([3.0, 1.0])).tolist() == [96.0, 32.0]
    gradient = both(ndl.grad(lambda x: f(x).sum()), ndl.tensor([3.0, 1.0]))
    assert gradient.tolist() == [32.0, 32.0]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("start", [1.0, 3.0, 5.0, 8.0, 9.0, -0.5])
def test_loops_need_no_bound(start, fuse):
    """They end when the condition does: after an even number of steps, an odd one, or none."""

    def f(x, w):
        state = {"x": x, "w": w * 2}

        def body(s):
            return {"x": s["x"] * 2 + s["w"] * w, "w": s["w"] + 1}

        return ndl.while_loop(lambda s: s["x"] < 9, body, state)["x"]

    given = ndl.tensor(start), ndl.tensor(0.75)
    compiled = ndl.jit(f, fuse=fuse)
    np.testing.assert_allclose(compiled(*given).numpy(), f(*given).numpy(), rtol=1e-6)
    gradient = ndl.grad(f, argnums=(0, 1))
    for ours, expected in zip(ndl.jit(gradient)(*given), gradient(*given), strict=True):
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-5)
    second = ndl.grad(ndl.grad(f, argnums=1), argnums=1)
    np.testing.assert_allclose(ndl.jit(second)(*given).numpy(), second(*given).numpy(), rtol=1e-5)


def test_a_branch_that_is_not_chosen_has_no_gradient():
    """Not even NaN, which 0 times an infinite derivative would be."""

    def f(x):
        return ndl.cond(x > 0, lambda x: x.sqrt() + x, lambda x: x * 3, x)

    assert ndl.jit(ndl.grad(f))(ndl.tensor(0.0)).item() == 3.0
    assert ndl.jit(ndl.grad(f))(ndl.tensor(4.0)).item() == 1.25


# Results have memory of their own ----------------------------------------------------------------


def _through(loop):
    """A function that writes into what it gave to a loop, and into what it got."""

    def f(x):
        given = x.clone()
        results = ndl.tree.leaves(loop(given))
        given[0] = 9.0
        for k, result in enumerate(results):
            result[1] = 10.0 + k
        return given, *results

    return f


ALIASING = {
    "cond": lambda q: ndl.cond(q.sum() > 0, lambda a: a, lambda a: -a, q),
    "cond of a view": lambda q: ndl.cond(q.sum() > 0, lambda: q[::-1], lambda: q[:]),
    "cond of one tensor": lambda q: ndl.cond(q.sum() > 0, lambda: (q, 2), lambda: (q, 2))[0],
    "cond of the same twice": lambda q: ndl.cond(q.sum() > 0, lambda: [q, q], lambda: [q * 2, q]),
    "cond of a number": lambda q: ndl.cond(True, lambda a: a, lambda a: -a, q),
    "while_loop": lambda q: ndl.while_loop(lambda s: s.sum() < 0, lambda s: s * 2, q, max_steps=3),
    "while_loop with a part that stays": lambda q: ndl.while_loop(
        lambda s: s[0].sum() < 20, lambda s: (s[0] * 2, s[1]), (q, q), max_steps=5
    ),
    "while_loop that swaps": lambda q: ndl.while_loop(
        lambda s: s[0].sum() < 20, lambda s: (s[1] * 2, s[0]), (q, q), max_steps=5
    ),
    "while_loop of numbers": lambda q: ndl.while_loop(
        lambda s: s[1] < 2, lambda s: (s[0], s[1] + 1), (q, 0)
    )[0],
    "scan": lambda q: ndl.scan(lambda c, x: (c, x), q, length=2)[0],
    "scan of the last element": lambda q: ndl.scan(
        lambda c, x: (x, None), q * 0, ndl.stack([q, q * 2])
    )[0],
    "scan of two that are one": lambda q: ndl.scan(lambda c, x: (c, None), (q, q), length=2)[0],
    "scan that changes its type": lambda q: ndl.scan(
        lambda c, x: ((c[0], c[1].astype("float64")), None), (q, q), length=2
    )[0],
}


@pytest.mark.parametrize("name", ALIASING)
@pytest.mark.parametrize("fuse", [True, False])
def test_results_share_no_memory_with_what_a_loop_was_given(name, fuse):
    f = _through(ALIASING[name])
    x = ndl.tensor([1.0, 2.0, 3.0])
    eager, compiled = f(x), ndl.jit(f, fuse=fuse)(x)
    assert x.tolist() == [1, 2, 3]
    assert [t.tolist() for t in compiled] == [t.tolist() for t in eager]
    given, *results = eager
    assert given.tolist() == [9, 2, 3]
    assert all(t[1].item() == 10 + k for k, t in enumerate(results) if t.ndim == 1)


@pytest.mark.parametrize("loop", ["cond", "while_loop", "scan"])
def test_a_result_that_is_an_argument_has_its_gradient(loop):
    def f(x):
        return (ALIASING[loop](x) * ndl.tensor([1.0, 2.0, 3.0])).sum()

    x = ndl.ones(3)
    assert ndl.grad(f)(x).tolist() == ndl.jit(ndl.grad(f))(x).tolist() == [1, 2, 3]


def test_a_condition_that_writes_is_refused_where_it_would_run_too_often():
    count = ndl.zeros(1)

    def f(x):
        def condition(s):
            count[0] = count[0] + 1
            return s.sum() < 10

        return ndl.while_loop(condition, lambda s: s * 2, x, max_steps=8)

    assert f(ndl.ones(2)).tolist() == [8, 8] and count.item() == 4
    with pytest.raises(TraceError, match=r"\[while_loop\] one of the functions changes"):
        ndl.jit(f)(ndl.ones(2))
