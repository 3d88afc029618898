"""Control flow from source in the user's Python: modules, closures, errors, effects."""

import functools
import linecache

import numpy as np
import pytest

import needle as ndl
from needle import nn

PLUS, MINUS = [1.0, 2.0, 0.5], [-1.0, -2.0, 0.5]


def same(function, *inputs):
    """The results of a function, eager and compiled, which must agree, for each input."""
    compiled = ndl.jit(function)
    for x in map(ndl.tensor, inputs):
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-6)
    assert compiled.cache_info().misses == 1
    return compiled


class Steps(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(3, 3)
        self.__scale = 2.0

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0:
            return y.relu()
        return self.other(y)

    def other(self, y):
        for k in range(3):
            if y[0] < k:
                break
            y = y + self.__scale
        return y


class More(Steps):
    def forward(self, x):
        y = super().forward(x)
        if y.mean() > 0.5:
            y = y / 2
        return y


@pytest.mark.parametrize("kind", [Steps, More])
def test_modules(kind):
    model = kind()
    for compiled in (ndl.jit(model), ndl.jit(lambda x: model(x)), ndl.jit(nn.Sequential(model))):
        for numbers in (PLUS, MINUS, [9.0, -9.0, 9.0]):
            x = ndl.tensor(numbers)
            np.testing.assert_allclose(compiled(x).numpy(), model(x).numpy(), rtol=1e-5)


def test_a_training_step():
    models = [Steps(), Steps()]
    models[1].load_state_dict(models[0].state_dict())

    def step(model, optimizer, x):
        loss = model(x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    optimizers = [ndl.optim.Adam(m.parameters(), lr=0.1) for m in models]
    compiled = ndl.jit(lambda x: step(models[0], optimizers[0], x))
    for k in range(6):
        x = ndl.tensor(PLUS if k % 2 else MINUS)
        expected = step(models[1], optimizers[1], x).item()
        assert compiled(x).item() == pytest.approx(expected, rel=1e-4)
    assert compiled.cache_info().misses <= 2


def decorated(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


@decorated
def scaled(x, *, scale=2.0):
    return x * scale if x.sum() > 0 else x


def test_closures_lambdas_decorators_and_defaults():
    def more_than(limit):
        def inside(x, by=3.0):
            if x.sum() > limit:
                return x + by
            return x - limit

        return inside

    nearby = more_than(2.0)

    def f(x):
        square = lambda v: v * v if v.sum() > 0 else -v  # noqa: E731
        picked = sum(scaled(v, scale=4.0) for v in [x, x])
        return nearby(x) + square(x) + picked + ndl.grad(lambda v: scaled(v).sum())(x)

    same(f, PLUS, MINUS)


LIMIT = 1.0


def test_what_it_reads_from_outside_is_watched(monkeypatch):
    @ndl.jit
    def f(x):
        if x.sum() > LIMIT:
            return x * 2
        return x

    assert f(ndl.ones(3)).tolist() == [2.0] * 3
    monkeypatch.setitem(globals(), "LIMIT", 5.0)
    assert f(ndl.ones(3)).tolist() == [1.0] * 3
    assert f.cache_info().misses == 2


def test_a_range_of_a_tensor():
    @ndl.jit
    def powers(x, n):
        total, steps = x * 0, 0
        for i in range(1, n + 1):
            if i == 3:
                continue
            total += x**i
            steps += 1
        return total, steps

    for n in (0, 1, 4):
        total, steps = powers(ndl.tensor(2.0), ndl.tensor(n))
        assert total.item() == sum(2.0**i for i in range(1, n + 1) if i != 3)
        assert steps.item() == len([i for i in range(1, n + 1) if i != 3])
    assert powers.cache_info().misses == 1


def test_python_stays_python():
    seen = []

    @ndl.jit
    def f(x, mode=None):
        if mode is None and not seen:
            seen.append(1)
        while len(seen) < 3:
            seen.append(2)
        if x.sum() > 0:
            x = x * 2
        return x if mode else -x

    assert f(ndl.ones(2)).tolist() == [-2.0, -2.0]
    assert f(ndl.ones(2), mode="a").tolist() == [2.0, 2.0]


# Effects -----------------------------------------------------------------------------------------


def test_print_prints_in_every_call(capsys):
    @ndl.jit
    def f(x):
        print("x:", x, 7)
        if x.sum() > 0:
            print("positive", [x * 2], sep="|")
        return x

    f(ndl.ones(2))
    f(-ndl.ones(2))
    expected = f"x: {ndl.ones(2)} 7\npositive|{[ndl.ones(2) * 2]}\nx: {-ndl.ones(2)} 7\n"
    assert capsys.readouterr().out == expected


def test_the_gradient_prints_nothing_again(capsys):
    def f(x):
        while x.sum() < 9:
            print("step", x.sum())
            x = x * x
        print("end", x.sum())
        return x.sum()

    for gradient in (ndl.grad(f), ndl.jit(ndl.grad(f)), ndl.grad(ndl.jit(f))):
        assert gradient(ndl.tensor([2.0])).item() == 32.0
        assert capsys.readouterr().out == "step 2.0\nstep 4.0\nend 16.0\n"


def test_assert_and_raise_leave_tensors_as_they_were():
    count = ndl.zeros(())

    @ndl.jit
    def f(x):
        count.data = count + 1
        assert x.sum() < 10, "too large"
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    assert f(ndl.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(AssertionError, match="too large") as found:
        f(9 * ndl.ones(3))
    assert "assert x.sum() < 10" in found.value.__notes__[0]
    with pytest.raises(ValueError, match="negative"):
        f(-ndl.ones(3))
    assert count.item() == 1 and f.cache_info().misses == 1


# Errors ------------------------------------------------------------------------------------------


def two_shapes(x):
    y = x if x.sum() < 0 else -x
    if x.sum() > 0:
        y = x[:1]
    return y.sum()  # here


def one_branch(x):
    if x.sum() > 0:
        y = x
    return y  # here


def no_result(x):
    if x.sum() > 0:
        return x


def a_list(x):
    out = []
    if x.sum() > 0:  # here
        out.append(x)
    return x


def growing(x):
    while x.sum() < 9:
        x = ndl.concatenate([x, x])  # here
    return x


def only_inside(x):
    while x.sum() < 9:
        y = x * 2
        x = x * 3
    return y  # here


def draws(x):
    while x.sum() < 9:  # here
        x = x + ndl.rand(3)
    return x


def endless(x):
    while x.sum() < 9:  # here
        pass
    return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (two_shapes, r"'y' is float32\[1\] or float32\[3\].*let both have the same"),
        (one_branch, r"'y' is float32\[3\] or no value.*assign it before, or in both branches"),
        (no_result, r"the returned value is float32\[3\] or None"),
        (a_list, r"'out' is changed in place"),
        (growing, r"'x' is float32\[3\] before a step and float32\[6\] after it"),
        (only_inside, r"'y' has a value only by the loop.*assign it before the loop"),
        (draws, r"draw random numbers before the loop"),
        (endless, r"no variable changes in this loop"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_errors_name_the_variable_and_the_line(function, words):
    with pytest.raises(ndl.TraceError, match=words) as found:
        ndl.jit(function)(ndl.ones(3))
    line = str(found.value).splitlines()[-1]
    assert "# here" in line or function is no_result
    assert "test_source_python.py:" in line


def test_what_is_not_used_need_not_agree():
    def f(x):
        if x.sum() > 0:
            part = x[:1]
            y = x * part
        else:
            part = None
            y = -x
        return y

    same(f, PLUS, MINUS)


def test_without_source_it_is_traced_as_it_is():
    names = {"ndl": ndl}
    exec("def f(x):\n    if x.sum() > 0:\n        return x\n    return -x", names)
    with pytest.raises(ndl.TraceError, match="elements of a tensor were asked for"):
        ndl.jit(names["f"])(ndl.ones(3))


def test_source_of_a_notebook_cell():
    text = "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    names = {}
    exec(compile(text, "<cell 1>", "exec"), names)
    same(names["f"], PLUS, MINUS)
