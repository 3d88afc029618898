"""Variables from outside that come to stand for something else between calls."""

import functools
import warnings

import pytest

import needle as ndl
from needle import nn

x = ndl.tensor([1.0, 2.0])
scale = 2.0
weight = ndl.ones(2)
model = nn.Linear(2, 1)


def by_globals(x):
    return x * scale * weight


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    for name in ("scale", "weight", "model"):
        monkeypatch.setitem(globals(), name, globals()[name])


def test_globals_that_are_bound_anew():
    global scale, weight, model
    f, g = ndl.jit(by_globals), ndl.jit(lambda x: model(x))
    assert f(x).tolist() == [2.0, 4.0] and g(x).tolist() == model(x).tolist()
    scale = 3.0
    assert f(x).tolist() == [3.0, 6.0]
    weight = ndl.tensor([1.0, 10.0])
    assert f(x).tolist() == [3.0, 60.0] and f.cache_info().misses == 3
    model = nn.Linear(2, 1)
    assert g(x).tolist() == model(x).tolist() and g.cache_info().misses == 2


def test_equal_numbers_need_no_trace():
    global scale
    f = ndl.jit(by_globals)
    scale = float("1000.5")
    f(x)
    scale = float("1000.5")  # another object
    assert f(x).tolist() == [1000.5, 2001.0] and f.cache_info().misses == 1
    scale = -0.0
    f(x)
    scale = 0.0
    f(x)
    assert f.cache_info().misses == 3


def test_variables_of_enclosing_functions():
    k, w = 2, ndl.ones(2)

    @ndl.jit
    def f(x):
        return next(x * k * w for _ in range(1))

    assert f(x).tolist() == [2.0, 4.0]
    k = 5
    assert f(x).tolist() == [5.0, 10.0]
    w = ndl.full((2,), 2.0)
    assert f(x).tolist() == [10.0, 20.0]
    k = 2
    w = ndl.ones(2)
    assert f(x).tolist() == [2.0, 4.0]


def test_functions_that_are_wrapped():
    k = 2.0

    def loss(x):
        return (x * x * k).sum()

    inner = ndl.jit(loss)
    wrapped = (
        ndl.jit(ndl.grad(loss)),
        ndl.jit(functools.partial(ndl.grad(loss))),
        ndl.jit(ndl.jit(ndl.grad(loss))),
        ndl.jit(lambda x: ndl.grad(inner)(x)),
    )
    for f in wrapped:
        assert f(x).tolist() == [4.0, 8.0]
    k = 1.0
    for f in wrapped:
        assert f(x).tolist() == [2.0, 4.0]


class Plain:
    """An object that is no module."""

    def __init__(self):
        self.k = 2.0
        self.w = ndl.ones(2)
        self.calls = 0

    @ndl.jit
    def apply(self, x):
        self.calls += 1
        return x * self.k * self.w


def test_attributes_of_the_object_of_a_method():
    plain = Plain()
    assert plain.apply(x).tolist() == [2.0, 4.0]
    plain.k = 3.0
    assert plain.apply(x).tolist() == [3.0, 6.0]
    plain.w = ndl.full((2,), 2.0)
    assert plain.apply(x).tolist() == [6.0, 12.0]
    plain.calls = 100  # the function's own: it assigns it
    plain.apply(x)
    assert plain.apply.cache_info().misses == 3


def test_attributes_of_an_object_that_is_called():
    class Scaled:
        def __init__(self):
            self.k = 2.0

        def __call__(self, x):
            return x * self.k

    scaled = Scaled()
    f, g = ndl.jit(scaled), ndl.jit(lambda x: scaled(x))
    assert f(x).tolist() == g(x).tolist() == [2.0, 4.0]
    scaled.k = 3.0
    assert f(x).tolist() == g(x).tolist() == [3.0, 6.0]


def test_attributes_of_others_with_the_same_name():
    class Plain:
        def __init__(self):
            self.sum = 0  # not the one of tensors
            self.k = ndl.ones(2)

        @ndl.jit
        def apply(self, x):
            return (x * self.k).sum()

    plain = Plain()
    for plain.sum in range(3):
        assert plain.apply(x).item() == 3.0
    assert plain.apply.cache_info().misses == 1


def test_what_a_function_assigns_itself_is_its_own_affair():
    count = 0

    @ndl.jit
    def f(x):
        nonlocal count
        count += 1
        return x * 2

    f(x)
    count = 7
    f(x)
    assert count == 7 and f.cache_info().misses == 1


def test_what_a_function_adds_to_and_uses_is_right_in_every_call():
    count, size = 0, 0

    @ndl.jit
    def f(x):
        nonlocal count
        count += 1
        return x * count

    @ndl.jit
    def g(x):
        nonlocal size
        size = x.shape[0]
        return x * size

    assert [f(x).tolist()[0] for _ in range(3)] == [1.0, 2.0, 3.0]
    assert [g(ndl.ones(n)).sum().item() for n in (2, 3, 2, 3)] == [4.0, 9.0, 4.0, 9.0]
    assert g.cache_info().misses == 2


def test_functions_that_the_function_makes_are_not_kept():
    class Holder:
        pass

    @ndl.jit
    def f(x):
        h, holder = x * 2, Holder()
        holder.parts, holder.double = [h], lambda: h * holder.parts[0]
        return holder.double() + functools.partial(lambda: h)()

    assert [f(x).tolist() for _ in range(3)] == [[6.0, 20.0]] * 3
    assert f.cache_info().misses == 1


def helper(x):
    return x * scale


def test_functions_that_are_called_by_name():
    global scale
    cached, compiled = functools.lru_cache(helper), ndl.jit(helper)
    functions = [
        ndl.jit(lambda x: helper(x)),
        ndl.jit(lambda x: cached.__wrapped__(x)),
        ndl.jit(lambda x: compiled(x)),
        ndl.jit(lambda x: functools.partial(helper, x)()),
        ndl.jit(functools.partial(lambda f, x: f(x), helper)),
    ]
    for scale in (2.0, 3.0):
        assert [f(x).tolist() for f in functions] == [[scale, 2 * scale]] * len(functions)


def test_names_that_come_and_go():
    f = ndl.jit(lambda x: x * later if x.shape == (2,) else x)  # noqa: F821
    assert f(ndl.ones(3)).shape == (3,)
    with pytest.raises(NameError):
        f(x)
    globals()["later"] = 2.0
    try:
        assert f(x).tolist() == [2.0, 4.0]
    finally:
        del globals()["later"]
    with pytest.raises(NameError):
        f(x)


def test_the_warning_names_the_variable():
    k = 0
    f = ndl.jit(lambda x: x * k)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(9):
            k += 1
            f(x)
    assert "traced 9 times: k, which it uses from outside, is 9 instead of 8." in str(
        caught[0].message
    )
