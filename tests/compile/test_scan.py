"""Compact loops: scan is one call of a compiled function, its gradient another; both as eager."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn, optim
from needle.compiler.control.loops import LOOP

rng = np.random.default_rng(0)


def numbers(*shape):
    return ndl.tensor(rng.standard_normal(shape).astype("f4"))


def loops(step):
    return [node for node in step.graph["traced"].nodes if node.kernel == LOOP]


def check_compiled(f, *args, count=1):
    """A function compiled, with `count` loops in it, equals the function itself."""
    step = ndl.jit(f)
    for _ in range(2):
        ours, eager = step(*args), f(*args)
        for a, b in zip(ndl.tree.leaves(ours), ndl.tree.leaves(eager), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 2e-5, 1e-5)
    assert len(loops(step)) == count
    return step


W, U = numbers(4, 16), numbers(5, 16)


def lstm(xs, w, u, reverse=False):
    """An LSTM written with scan."""

    def cell(state, x):
        h, c = state["h"], state["c"]
        i, f, g, o = gates(x, h)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return {"h": h, "c": c}, (h, c * 2)

    def gates(x, h):
        z = x @ u + h @ w
        return [z[:, 4 * k : 4 * k + 4] for k in range(4)]

    batch = xs.shape[1]
    init = {"h": ndl.zeros(batch, 4), "c": ndl.zeros(batch, 4)}
    return ndl.scan(cell, init, xs, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_lstm_is_one_call(reverse):
    def f(xs):
        last, (hs, cs) = lstm(xs, W, U, reverse)
        return last["h"], last["c"], hs, cs

    step = check_compiled(f, numbers(7, 3, 5))
    assert len(step.graph["traced"].nodes) < 8
    longer = check_compiled(f, numbers(40, 3, 5))
    assert len(longer.graph["traced"].nodes) == len(step.graph["traced"].nodes)


def loss(xs, w, u):
    last, (hs, _) = lstm(xs, w, u)
    return (last["h"] * hs.mean(0)).sum() + (hs * hs).sum()


@pytest.mark.parametrize("argnums", [0, 1, 2])
def test_the_gradient_is_another_call(argnums):
    f = ndl.grad(loss, argnums)
    step = check_compiled(f, numbers(6, 3, 5), W, U, count=2)
    assert [node.args[0].reverse for node in loops(step)] == [False, True]


def test_second_gradients():
    def f(xs, w):
        return (ndl.grad(lambda w: loss(xs, w, U))(w) ** 2).sum()

    check_compiled(ndl.grad(f, 1), numbers(4, 2, 5), W, count=4)


def test_what_is_captured_gets_its_gradient():
    p = ndl.tensor(np.full((3,), 0.5, np.float32), requires_grad=True)

    def f(x):
        scale = (p * 2).exp()  # made outside of the body, from a parameter
        total, _ = ndl.scan(lambda c, x: (c * scale + x * p, c), x[0] * 0, x)
        total.sum().backward(create_graph=False)
        return p.grad

    x = numbers(5, 3)
    step = ndl.jit(f)
    np.testing.assert_allclose(step(x).numpy(), f(x).numpy(), rtol=1e-5)
    assert len(loops(step)) == 2


def test_training_with_scan():
    outcomes = []
    for compiled in (False, True):
        ndl.manual_seed(0)
        embed, cell, head = nn.Embedding(11, 8), nn.GRUCell(8, 8), nn.Linear(8, 11)
        parameters = [*embed.parameters(), *cell.parameters(), *head.parameters()]
        optimizer = optim.Adam(parameters, lr=0.01)

        def step(tokens):
            optimizer.zero_grad()  # noqa: B023
            xs = embed(tokens[:-1])  # noqa: B023
            h = ndl.zeros(tokens.shape[1], 8)
            _, hs = ndl.scan(lambda h, x: (cell(x, h),) * 2, h, xs)  # noqa: B023
            logits = head(hs).reshape((-1, 11))  # noqa: B023
            loss = nn.functional.cross_entropy(logits, tokens[1:].reshape((-1,)))
            loss.backward(create_graph=False)
            optimizer.step()  # noqa: B023
            return loss

        called = ndl.jit(step) if compiled else step
        tokens = ndl.tensor(np.random.default_rng(1).integers(0, 11, (9, 4)))
        outcomes.append([called(tokens).item() for _ in range(6)])
    np.testing.assert_allclose(outcomes[0], outcomes[1], rtol=1e-4)
    assert outcomes[1][-1] < outcomes[1][0] and len(loops(called)) == 2


def test_loops_in_loops():
    def f(xs):
        def outer(c, x):
            inner, ys = ndl.scan(lambda d, y: (d * 0.5 + y, d), c, x)
            return inner, ys.sum(0)

        last, sums = ndl.scan(outer, xs[0, 0] * 0, xs)
        return (last * sums.sum(0)).sum()

    check_compiled(f, numbers(3, 4, 2))
    check_compiled(ndl.grad(f), numbers(3, 4, 2), count=2)


def test_carried_values_may_trade_places_and_stay():
    def f(xs):
        def step(state, x):
            a, b, same = state
            return (b, a + x, same), (a, same, x)

        return ndl.scan(step, (xs[0], xs[1] * 2, xs[2]), xs)

    check_compiled(f, numbers(6, 3))
    check_compiled(lambda xs: ndl.scan(lambda c, x: (c, c), xs[0], xs), numbers(5, 2))


def test_layouts_of_inputs():
    def f(xs, init):
        return ndl.scan(lambda c, x: (c.T * 0.5 + x, x.T), init.T, xs.transpose((0, 2)))

    check_compiled(f, numbers(3, 3, 6), numbers(3, 3))


def test_integers_are_carried_too():
    def f(x):
        n = ndl.tensor(0)
        return ndl.scan(
            lambda s, x: ((s[0] + 1, s[1] + x * s[0].astype("float32")), s[0]), (n, x[0] * 0), x
        )

    check_compiled(f, numbers(5, 3))
    check_compiled(ndl.grad(lambda x: f(x)[0][1].sum()), numbers(5, 3), count=2)


def test_a_step_may_give_no_result():
    w = numbers(3, 3)

    def f(x):
        last, ys = ndl.scan(lambda c, x: ((c @ w + x).tanh(), {"no": None, "c": c}), x[0], x)
        assert ys["no"] is None
        only, none = ndl.scan(lambda c, x: ((c @ w - x).tanh(), None), x[0], x)
        assert none is None
        return (last * ys["c"].sum(0) + only).sum()

    x, compiled = numbers(6, 3), ndl.jit(ndl.value_and_grad(f))
    for ours, eager in zip(compiled(x), ndl.value_and_grad(f)(x), strict=True):
        np.testing.assert_allclose(ours.numpy(), eager.numpy(), rtol=1e-5)
    assert len(loops(compiled)) == 4


def test_steps_that_change_something_are_made_one_by_one():
    ndl.manual_seed(0)
    seen = ndl.zeros(3)

    def draws(x):
        return ndl.scan(lambda c, x: (c + nn.functional.dropout(x, 0.5), c), x[0] * 0, x)

    def assigns(x):
        def step(c, x):
            seen.data = seen + x
            return c + seen, c

        return ndl.scan(step, x[0] * 0, x)

    def grows(x):
        return ndl.scan(lambda c, x: (ndl.concatenate([c, x[None]], 0), x), x[:1], x)[0]

    x = numbers(4, 3)

    def assigns_again(x):
        seen.data = x[0] * 2
        return *assigns(x), seen * 1

    for f in (draws, assigns, assigns_again, grows):
        outcomes = []
        for compiled in (False, True):
            ndl.manual_seed(0)
            seen.data = ndl.zeros(3)
            step = ndl.jit(f) if compiled else f
            found = [ndl.tree.leaves(step(x))[0].numpy() for _ in range(2)]
            outcomes.append([*found, seen.numpy()])
        for a, b in zip(*outcomes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        assert not loops(step)


def test_the_reference_device_runs_loops():
    device = ndl.cpu_numpy()

    def f(x):
        return ndl.scan(lambda c, x: (c * 0.5 + x, c), x[0] * 0, x)[0].sum()

    x = ndl.Tensor(rng.standard_normal((5, 3)).astype("f4"), device=device)
    check_compiled(ndl.grad(f), x, count=2)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 9), st.booleans(), st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_random_bodies(steps, reverse, choices):
    def f(xs, w):
        def step(c, x):
            for choice in choices:
                c = (c.tanh() @ w, c * x, (c + x).sigmoid(), c - c.mean(), c.T.T + w)[choice]
            return c, (c * 2, x + c)

        last, (ys, zs) = ndl.scan(step, w * 0.5, xs, reverse=reverse)
        return last.sum() + (ys * zs).mean()

    local = np.random.default_rng(steps)
    xs, w = (ndl.tensor(local.standard_normal(s).astype("f4")) for s in ((steps, 3, 3), (3, 3)))
    check_compiled(ndl.grad(f, (0, 1)), xs, w, count=2)


def test_memory_and_graph_do_not_grow_with_the_body(monkeypatch):
    x = numbers(1000, 2, 5)
    step = ndl.jit(lambda x: ndl.grad(loss, 1)(x, W, U))
    step(x)
    assert len(step.graph["traced"].nodes) < 60
    assert "1000 steps of" in str(step.graph["fused"])
    text = next(k.text for k in step.kernels if k.name == "loop")
    assert "tanh" in text


def test_hooks_of_captured_tensors_run_once():
    w, x = ndl.tensor([1.0, 2.0], requires_grad=True), ndl.ones(3)
    w.register_hook(lambda g: g * 2)

    def gradient(x):
        last, _ = ndl.scan(lambda h, v: (h * w.sum() + v, h), ndl.zeros(()), x)
        last.backward(create_graph=False)
        return w.grad

    expected = gradient(x).tolist()
    assert ndl.jit(gradient)(x).tolist() == expected


K = np.array([1.0, 2.0], np.float32)
TABLE = nn.Embedding(5, 2)


@pytest.mark.parametrize(
    "step",
    [
        lambda c, x: (c + x * ndl.tensor(K), x),
        lambda c, x: (c + x[[1, 0]], x[[0]]),
        lambda c, x: (c + ndl.take(x, ndl.tensor([1, 0])), x),
        lambda c, x: (c * TABLE(ndl.tensor([3]))[0], x),
        lambda c, x: (ndl.where(ndl.tensor([True, False]), c, x), x),
        lambda c, x: (ndl.tensor(K), ndl.tensor(K) * x),
        lambda c, x: (
            ndl.scan(lambda d, y: (d + y * ndl.tensor(K), None), c, x * ndl.ones(3, 2))[0],
            x[[1]],
        ),
    ],
    ids=["numpy", "list", "take", "embedding", "mask", "carried", "nested"],
)
def test_a_body_may_use_constants(step, tmp_path):
    def f(xs):
        return ndl.scan(step, ndl.ones(2), xs)

    def total(xs):
        return sum(t.sum() for t in f(xs))

    xs = numbers(3, 2)
    check_compiled(f, xs)
    np.testing.assert_allclose(
        ndl.jit(ndl.grad(total))(xs).numpy(), ndl.grad(total)(xs).numpy(), 1e-5, 1e-6
    )
    ndl.export(f, xs, path=tmp_path / "f.needle")
    for a, b in zip(ndl.load_exported(tmp_path / "f.needle")(xs), ndl.jit(f)(xs), strict=True):
        assert a.tolist() == b.tolist()


def test_a_body_that_writes_into_what_it_is_given():
    def running(start, xs):
        def body(carry, x):
            carry[...] = carry * 2
            x[0] = 7
            return carry + x, carry.sum()

        return ndl.scan(body, start, xs)

    def given():
        return ndl.ones(3), ndl.tensor(np.arange(6.0).reshape(2, 3))

    eager, compiled = given(), given()
    for a, b in zip(running(*eager), ndl.jit(running)(*compiled), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    for a, b in zip(eager, compiled, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_carried_values_get_their_gradient_step_by_step():
    """`late` is given what has a gradient from the third step on; `never` has none."""

    def f(w, xs):
        def step(carry, x):
            first, late, never = carry
            return (first + w * x, late + first, never + x), late * never

        init = [ndl.zeros(3) for _ in range(3)]
        return ndl.scan(step, init, xs)

    w, xs = numbers(3), numbers(5, 3)
    check_compiled(f, w, xs)

    def loss(w, xs):
        (first, late, _), ys = f(w, xs)
        return (first + late).sum() + ys.sum()

    check_compiled(ndl.grad(loss, argnums=(0, 1)), w, xs, count=2)


def test_a_body_without_gradients_may_write_outside():
    state = ndl.zeros(3)

    def f(xs):
        def step(carry, x):
            state.add_(x)
            return carry + state, x

        return ndl.scan(step, ndl.zeros(3), xs)

    xs = numbers(4, 3)
    want = [t.numpy().copy() for t in (*f(xs), state)]
    state.fill_(0)
    made = [t.numpy() for t in (*ndl.jit(f)(xs), state)]
    for a, b in zip(made, want, strict=True):
        np.testing.assert_allclose(a, b, 1e-6)
