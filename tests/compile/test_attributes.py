"""Attributes, settings and generators of the user's that a compiled function reads: watched, or
refused by name."""

import argparse
import dataclasses
import random
import re
import threading
import types
import warnings

import pytest

import needle as ndl
from needle import nn

from . import settings

x = ndl.tensor([1.0, 2.0])


class Config:
    def __init__(self, scale=2.0, inner=None):
        self.scale, self.inner, self.untouched = scale, inner, 0
        self.options, self.numbers = {"scale": scale, "deep": [scale]}, [scale, 0.0]

    @property
    def doubled(self):
        return self.scale * 2


@dataclasses.dataclass
class Data:
    scale: float = 2.0


class Slotted:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 2.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    inner: Config


config = Config()
things = [Config(), Config()]


def through_a_global(x):
    return x * config.scale


def _set(owner, name, value):
    return lambda: setattr(owner, name, value)


def _item(owner, key, value):
    return lambda: owner.__setitem__(key, value)


def _cases():
    """A name, a function, and what makes each of its results three times as large."""
    a, b, c, d, inner = (Config() for _ in range(5))
    e, outer, name = Config(), Config(inner=inner), "scale"
    yield "attribute", lambda x: x * a.scale, _set(a, "scale", 6.0)
    yield "attribute of an attribute", lambda x: x * outer.inner.scale, _set(inner, "scale", 6.0)
    yield "global", through_a_global, _set(config, "scale", 6.0)
    yield "function that it calls", lambda x: through_a_global(x), _set(config, "scale", 6.0)
    yield "argument of a function", lambda x: (lambda q: x * q.scale)(b), _set(b, "scale", 6.0)
    yield "property", lambda x: x * c.doubled, _set(c, "scale", 6.0)
    yield "getattr", lambda x: x * getattr(d, name), _set(d, "scale", 6.0)
    yield "loop", lambda x: sum(x * t.scale for t in things[:1]), _set(things[0], "scale", 6.0)
    yield "dict", lambda x: x * e.options["scale"], _item(e.options, "scale", 6.0)
    yield "list in a dict", lambda x: x * e.options["deep"][0], _item(e.options["deep"], 0, 6.0)
    yield "list", lambda x: x * e.numbers[0], _item(e.numbers, 0, 6.0)
    options, numbers = {"scale": 2.0}, [2.0]
    yield "item of a variable", lambda x: x * options["scale"], _item(options, "scale", 6.0)
    yield "item of a list", lambda x: x * numbers[0], _item(numbers, 0, 6.0)
    yield "module", lambda x: x * settings.SCALE, _set(settings, "SCALE", 6.0)
    yield "module's function", lambda x: settings.scaled(x), _set(settings, "SCALE", 6.0)
    of_module = _item(settings.OPTIONS, "scale", 6.0)
    yield "item of a module", lambda x: x * settings.OPTIONS["scale"], of_module
    yield "class", lambda x: x * settings.Defaults.scale, _set(settings.Defaults, "scale", 6.0)
    made = settings.Defaults()
    yield "attribute of the class", lambda x: x * made.scale, _set(settings.Defaults, "scale", 6.0)
    for other in (Data(), Slotted(), argparse.Namespace(scale=2.0)):
        yield type(other).__name__, lambda x, o=other: x * o.scale, _set(other, "scale", 6.0)
    space = types.SimpleNamespace(scale=2.0)
    yield "SimpleNamespace", lambda x: x * space.scale, _set(space, "scale", 6.0)
    frozen = Frozen(Config())
    yield "frozen", lambda x: x * frozen.inner.scale, _set(frozen.inner, "scale", 6.0)


CASES = {name: (function, change) for name, function, change in _cases()}


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(settings, "SCALE", 2.0)
    monkeypatch.setattr(settings.Defaults, "scale", 2.0)
    monkeypatch.setitem(settings.OPTIONS, "scale", 2.0)
    monkeypatch.setattr(config, "scale", 2.0)
    monkeypatch.setattr(things[0], "scale", 2.0)


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_watched(name):
    function, change = CASES[name]
    f = ndl.jit(function)
    before = function(x).numpy()
    for _ in range(2):
        assert f(x).tolist() == before.tolist()
    assert f.cache_info().misses == 1
    change()
    for _ in range(2):
        assert f(x).tolist() == (before * 3).tolist() == function(x).tolist()
    assert f.cache_info().misses == 2


def test_what_is_not_read_is_not_watched():
    c = Config()
    f = ndl.jit(lambda x: x * c.scale)
    f(x)
    c.untouched, settings.OPTIONS["other"] = 5, 7.0
    f(x)
    assert f.cache_info().misses == 1


class Counter:
    eps = 0.0

    def __init__(self):
        self.n, self.log, self.h = 0, [], None


def test_what_the_function_only_adds_to_is_its_own_affair():
    c = Counter()

    @ndl.jit
    def f(x):
        c.n += 1
        return x * 2

    f(x)
    c.n = 100
    assert f(x).tolist() == [2.0, 4.0] and f.cache_info().misses == 1 and c.n == 100


def _added(x, c):
    c.n += 1
    return x * c.n


def _taken(x, c):
    n = c.n
    c.n = n + 1
    return x * n


def _logged(x, c):
    c.log.append(1.0)
    return x * sum(c.log)


@pytest.mark.parametrize("step", [_added, _taken, _logged])
def test_what_the_function_adds_to_and_uses_is_right_in_every_call_and_named(step):
    plain, compiled = Counter(), Counter()
    f = ndl.jit(lambda x: step(x, compiled))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(10):
            assert f(x).tolist() == step(x, plain).tolist()
    assert vars(plain) == vars(compiled) and len(caught) == 1
    assert re.search(r"traced 9 times: Counter.(n|log)\b", str(caught[0].message))


def test_what_is_written_first_is_not_watched():
    c = Counter()

    @ndl.jit
    def f(x):
        c.n = x.shape[0]
        return x * c.n

    for size in (2, 3, 2, 3):
        assert f(ndl.ones(size)).tolist() == [size] * size
    assert f.cache_info().misses == 2


@dataclasses.dataclass(frozen=True)
class Output:
    h: ndl.Tensor
    scale = 2.0


def test_objects_that_the_function_makes_are_not_kept():
    def f(x):
        c = Counter()
        c.h = x * 3
        out = Output(c.h + c.eps)
        return out.h * out.scale

    compiled = ndl.jit(f)
    for _ in range(3):
        assert compiled(x).tolist() == [6.0, 12.0]
    assert compiled.cache_info()[:2] == (2, 1)


@pytest.mark.parametrize("owner", [Config, nn.Module])
def test_values_are_compared_exactly(owner):
    c = owner()
    f = ndl.jit(lambda x: x * c.scale)
    for c.scale in (1, True, 1.0, 0.0, -0.0, float("nan"), float("1000.5")):
        before = f.cache_info().misses
        for _ in range(2):
            found, expected = f(x), x * c.scale
            assert found.dtype is expected.dtype
            assert str(found.tolist()) == str(expected.tolist())  # -0.0 is not 0.0
        c.scale = c.scale * 1  # an equal one
        f(x)
        assert f.cache_info().misses == before + 1


def test_methods_that_an_object_gets_or_whose_globals_change():
    class Scaled(Config):
        def apply(self, x):
            return x * settings.SCALE

        @classmethod
        def doubled_by_class(cls, x):
            return settings.scaled(x)

        def __matmul__(self, x):
            return settings.scaled(x)

    c = Scaled()
    f = ndl.jit(lambda x: (c.apply(x) + Scaled.doubled_by_class(x) + (c @ x)).sum())
    assert f(x).item() == 18.0
    settings.SCALE = 3.0
    assert f(x).item() == 27.0 and f.cache_info().misses == 2
    c.apply = lambda x: x * 0
    assert f(x).item() == 18.0
    assert f.cache_info().misses == 3


def test_objects_that_are_arguments():
    c = Config()
    f = ndl.jit(lambda x, c: x * c.scale)
    assert [f(x, c).tolist(), f(x, c).tolist()] == [[2.0, 4.0]] * 2
    c.scale = 3.0
    assert f(x, c).tolist() == [3.0, 6.0] and f.cache_info().misses == 2


def test_items_of_another_kind_of_dict():
    class Options(dict):
        __getattr__ = dict.__getitem__

    options = Options(scale=2.0)
    f = ndl.jit(lambda x: x * options.scale)
    assert f(x).tolist() == [2.0, 4.0]
    options["scale"] = 3.0
    assert f(x).tolist() == [3.0, 6.0] and f.cache_info().misses == 2


def test_tensors_in_containers_are_known_by_what_they_are():
    weights, names = [ndl.ones(2), ndl.ones(2)], {"a", "b"}
    f = ndl.jit(lambda x: x * weights[0] * weights[1] * len(names))
    assert f(x).tolist() == f(x).tolist() == [2.0, 4.0]
    weights[1] = ndl.full((2,), 3.0)
    names.add("c")
    assert f(x).tolist() == [9.0, 18.0] and f.cache_info().misses == 2


def test_a_list_that_is_only_appended_to_is_not_watched():
    log = []

    def named(name):
        @ndl.jit
        def f(x):
            log.append(name)
            return x * 2

        return f

    f, g = named("f"), named("g")
    for _ in range(3):
        f(x), g(x)
    assert log == ["f", "g"]


def test_methods_of_objects_and_models():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.data, self.drop = Data(), nn.Dropout(0.5)

        @ndl.jit
        def apply(self, x):
            return self.drop(x) * self.data.scale

        def forward(self, x):
            return self.apply(x)

    net = Net().eval()
    compiled = ndl.jit(net)
    for function in (net.apply, compiled):
        net.data.scale = 2.0
        assert function(x).tolist() == [2.0, 4.0]
        net.data.scale = 3.0
        assert function(x).tolist() == function(x).tolist() == [3.0, 6.0]
        assert function.cache_info().misses == 2
        net.train()
        assert set((function(ndl.ones(99)) / 6).tolist()) == {0.0, 1.0}
        net.eval()


def test_export_has_the_values_of_now(tmp_path):
    c = Config()
    f = ndl.jit(lambda x: x * c.scale)
    f(x)
    c.scale = 3.0
    ndl.export(f, x, path=tmp_path / "f.needle")
    assert ndl.load_exported(tmp_path / "f.needle")(x).tolist() == [3.0, 6.0]


def test_a_gradient_after_a_change_is_refused_by_name():
    c = Config()
    w = ndl.tensor([1.0, 2.0], requires_grad=True)
    loss = ndl.jit(lambda w: (w * c.scale).sum())(w)
    c.scale = 3.0
    with pytest.raises(ndl.TraceError, match=r"scale, which it uses from outside, is 3.0 instead"):
        loss.backward()


def test_other_threads_read_as_before():
    c, found = Config(), []

    @ndl.jit
    def f(x):
        thread = threading.Thread(target=lambda: found.append((c.untouched, random.Random())))
        thread.start()
        thread.join()
        return x * c.scale

    f(x)
    c.untouched = 5
    f(x)
    assert f.cache_info().misses == 1 and found[0][0] == 0


def test_classes_are_as_before():
    before = [dict(vars(kind)) for kind in (Config, Data, Slotted, Frozen)]
    c, d, s, f = Config(), Data(), Slotted(), Frozen(Config())

    def use(x):
        return x * c.scale * d.scale * s.scale * f.inner.scale

    ndl.jit(use)(x)
    with pytest.raises(ZeroDivisionError):
        ndl.jit(lambda x: use(x) / 0 * (1 / 0))(x)
    assert [dict(vars(kind)) for kind in (Config, Data, Slotted, Frozen)] == before


def test_globals_of_a_models_forward_are_watched():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()

        @property
        def scale(self):
            return settings.SCALE * self.config.scale

        def forward(self, x):
            return x * self.scale

    f = ndl.jit(Scaled())
    assert f(x).tolist() == [4.0, 8.0]
    settings.SCALE = 3.0
    assert f(x).tolist() == [6.0, 12.0]
    f._function.config.scale = 1.0
    assert f(x).tolist() == [3.0, 6.0]


def test_the_warning_names_the_attribute():
    c = Config()
    f = ndl.jit(lambda x: x * c.scale)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for c.scale in range(9):
            f(x)
    assert "scale, which it uses from outside, is 8 instead of 7." in str(caught[0].message)


class Later:
    __slots__ = ("__dict__", "__weakref__", "slot")


MAY_BE_ABSENT = {
    "getattr": (Later, lambda s: getattr(s, "late", 1.0)),
    "hasattr": (Later, lambda s: s.late if hasattr(s, "late") else 1.0),
    "vars": (Later, lambda s: vars(s).get("late", 1.0)),
    "__dict__": (Later, lambda s: s.__dict__.get("late", 1.0)),
    "slot": (Later, lambda s: getattr(s, "slot", 1.0)),
    "in a scan": (
        Later,
        lambda s: ndl.scan(lambda c, t: (c * getattr(s, "late", 1.0), t), x, x)[0][0],
    ),
    "module": (nn.Module, lambda s: getattr(s, "late", 1.0)),
}


@pytest.mark.parametrize("name", MAY_BE_ABSENT)
def test_what_was_absent_is_seen_when_it_comes(name):
    kind, read = MAY_BE_ABSENT[name]
    owner, attribute = kind(), "slot" if name == "slot" else "late"
    f = ndl.jit(lambda x: x * read(owner))
    assert f(x).tolist() == f(x).tolist() == [1.0, 2.0]
    assert f.cache_info().misses == 1
    for value in (3.0, 5.0):
        setattr(owner, attribute, value)
        assert f(x).tolist() == (x * read(owner)).tolist() != [1.0, 2.0]
    delattr(owner, attribute)
    assert f(x).tolist() == [1.0, 2.0]


def test_what_a_function_makes_when_it_is_absent_is_kept():
    """The usual cache: traced once more, then it holds."""
    owner = Later()

    def f(x):
        if not hasattr(owner, "late"):
            owner.late = 2.0
        return x * owner.late

    compiled = ndl.jit(f)
    assert [compiled(x).tolist() for _ in range(5)] == [[2.0, 4.0]] * 5
    assert compiled.cache_info().misses <= 2
