"""Every way to change a container leaves one truth: what is registered is what runs, in order."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn


class Add(nn.Module):
    """x, n: so that the order in which modules run can be read from the result."""

    def __init__(self, n):
        self.n = n

    def forward(self, x):
        return [*x, self.n]


def names(module):
    return [name for name, _ in module.named_children()]


def numbers(module):
    return [child.n for _, child in module.named_children()]


def check(container):
    """Children, items, iteration, attributes, state and forward agree."""
    children = dict(container.named_children())
    if isinstance(container, nn.ModuleDict):
        assert dict(container.items()) == children and [*container] == [*container.keys()]
        assert [container[name] for name in container] == [*container.values()]
    else:
        assert [*container] == [*children.values()]
        assert [container[i] for i in range(len(container))] == [*container]
    assert len(container) == len(children)
    for name, child in children.items():
        assert getattr(container, name) is child and container.get_submodule(name) is child
    if isinstance(container, nn.Sequential):
        assert container([]) == [m.n for m in container] == [m.n for m in container.modules]
    for made in (copy.deepcopy(container), pickle.loads(pickle.dumps(container))):
        assert names(made) == names(container) and numbers(made) == numbers(container)


# What is in the programs -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.ModuleDict, nn.ModuleList, nn.Sequential])
@pytest.mark.parametrize("how", ["add_module", "register_module", "setattr"])
def test_modules_added_by_name(kind, how):
    container = kind()
    for i, name in enumerate(("0", "a", "b")):
        (setattr if how == "setattr" else getattr(kind, how))(container, name, Add(i))
        check(container)
    assert names(container) == ["0", "a", "b"] and numbers(container) == [0, 1, 2]
    (setattr if how == "setattr" else getattr(kind, how))(container, "a", Add(9))
    assert names(container) == ["0", "a", "b"] and numbers(container) == [0, 9, 2]
    check(container)


def test_a_sequential_with_layers_as_attributes():
    class Model(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(2, 4), nn.ReLU())
            self.scale = nn.Parameter(ndl.ones(1))
            self.label = "head"
            self.fc = nn.Linear(4, 3)

    model = Model()
    assert names(model) == ["0", "1", "fc"] and model.label == "head"
    x = ndl.randn(5, 2)
    expected = model.fc(model[1](model[0](x))).numpy()
    assert model(x).shape == (5, 3) and (model(x).numpy() == expected).all()
    assert {"fc.weight", "0.weight", "scale"} < set(model.state_dict())
    model.fc = nn.Linear(4, 7)
    assert model(x).shape == (5, 7) and len(model) == 3


def test_attributes_before_the_constructor_of_the_base():
    class Model(nn.Sequential):
        def __init__(self):
            self.first = Add(1)
            super().__init__(Add(2))

    assert Model()([]) == [1, 2] and names(Model()) == ["first", "0"]


@pytest.mark.filterwarnings("ignore:.*has been traced:RuntimeWarning")
def test_a_compiled_function_sees_each_change():
    scale = {1: nn.Identity(), 2: nn.LeakyReLU(2.0), 3: nn.LeakyReLU(3.0)}  # of negative numbers
    chain, table, rows = nn.Sequential(), nn.ModuleDict(), nn.ModuleList()
    x = -ndl.ones(1)

    def run(x):
        for module in (chain, *table.values(), *rows):
            x = module(x)
        return x

    step = ndl.jit(run)
    assert step(x).item() == -1
    changes = [
        lambda: chain.append(scale[2]), lambda: setattr(chain, "a", scale[3]),
        lambda: table.update(a=scale[2]), lambda: rows.extend([scale[3]] * 2), lambda: rows.pop(),
        lambda: chain.insert(0, scale[2]) if names(chain) == ["0"] else chain.pop(0),
        lambda: delattr(table, "a"), lambda: table.setdefault("b", scale[2]),
        lambda: rows.__setitem__(0, scale[1]), lambda: table.clear(),
    ]  # fmt: skip
    for change in changes:
        change()
        assert step(x).item() == run(x).item()


# Against PyTorch ---------------------------------------------------------------------------------

torch = pytest.importorskip("torch")


class TorchAdd(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return [*x, self.n]


def at(container, i):
    return i % len(container) if len(container) else 0


LIST_ACTIONS = {
    "append": lambda c, make, i: c.append(make()),
    "extend": lambda c, make, i: c.extend([make(), make()]),
    "iadd": lambda c, make, i: c.__iadd__(c[:0].append(make())),
    "insert": lambda c, make, i: c.insert(at(c, i), make()),
    "pop": lambda c, make, i: c.pop(at(c, i)) if len(c) else None,
    "del": lambda c, make, i: c.__delitem__(at(c, i)) if len(c) else None,
    "del last": lambda c, make, i: c.__delitem__(-1) if len(c) else None,
    "del slice": lambda c, make, i: c.__delitem__(slice(at(c, i), None, 2)),
    "set": lambda c, make, i: c.__setitem__(at(c, i), make()) if len(c) else None,
    "setattr": lambda c, make, i: setattr(c, str(at(c, i)), make()) if len(c) else None,
    "replace": lambda c, make, i: c.add_module(str(at(c, i)), make()) if len(c) else None,
}
DICT_ACTIONS = {
    "set": lambda c, make, i: c.__setitem__("abc"[i % 3], make()),
    "setattr": lambda c, make, i: setattr(c, "abc"[i % 3], make()),
    "add": lambda c, make, i: c.add_module("abc"[i % 3], make()),
    "update": lambda c, make, i: c.update({"abc"[i % 3]: make(), "d": make()}),
    "pairs": lambda c, make, i: c.update([("abc"[i % 3], make())]),
    "del": lambda c, make, i: c.__delitem__([*c][i % len(c)]) if len(c) else None,
    "delattr": lambda c, make, i: delattr(c, [*c][i % len(c)]) if len(c) else None,
    "pop": lambda c, make, i: c.pop([*c][i % len(c)]) if len(c) else None,
    "clear": lambda c, make, i: c.clear() if i == 0 else None,
}


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_random_changes_as_in_pytorch(data):
    name = data.draw(st.sampled_from(["Sequential", "ModuleList", "ModuleDict"]))
    ours, theirs = getattr(nn, name)(), getattr(torch.nn, name)()
    actions = DICT_ACTIONS if name == "ModuleDict" else LIST_ACTIONS
    counts = {Add: iter(range(99)), TorchAdd: iter(range(99))}
    plan = st.lists(st.tuples(st.sampled_from(sorted(actions)), st.integers(0, 9)), max_size=8)
    for action, i in data.draw(plan):
        for container, kind in ((ours, Add), (theirs, TorchAdd)):
            actions[action](container, lambda kind=kind: kind(next(counts[kind])), i)
        assert names(ours) == [n for n, _ in theirs.named_children()], action
        assert numbers(ours) == [m.n for _, m in theirs.named_children()], action
        check(ours)


# Edges -------------------------------------------------------------------------------------------


def test_sequential_arithmetic_and_parts():
    chain = nn.Sequential(Add(0), Add(1))
    assert (chain + nn.Sequential(Add(2)))([]) == [0, 1, 2]
    assert (chain * 2)([]) == (2 * chain)([]) == [0, 1, 0, 1]
    chain += [Add(5)]
    assert chain([]) == [0, 1, 5] and chain[1:]([]) == [1, 5] and type(chain[:1]) is nn.Sequential
    assert type(nn.ParameterList([ndl.ones(1)])[:1]) is nn.ParameterList

    class Mine(nn.Sequential):
        def __init__(self, wide):
            super().__init__(Add(wide))

    assert type(Mine(3)[:]) is nn.Sequential and Mine(3)[:]([]) == [3]
    chain[0:2] = [Add(7)]
    assert chain([]) == [7, 5] and names(chain) == ["0", "1"]


def test_appending_never_replaces():
    """PyTorch names what is appended by the number of modules, which may be taken."""
    chain = nn.Sequential(Add(0))
    chain.add_module("2", Add(1))
    chain.append(Add(2))
    assert chain([]) == [0, 1, 2] and names(chain) == ["0", "2", "3"]


def test_names_of_its_own():
    chain = nn.Sequential(OrderedDict(a=Add(0), b=Add(1)))
    with pytest.raises(ValueError, match=r"\[Sequential\] insert expected modules without names"):
        chain.insert(0, Add(2))
    chain.modules = (Add(4), Add(5))  # the course's attribute
    assert chain([]) == [4, 5] and names(chain) == ["a", "b"]
    chain.modules = [Add(6)]
    assert chain([]) == [6] and names(chain) == ["0"]
    del chain[0]
    assert len(chain) == 0 and not chain and chain([]) == []


def test_quantized_containers_keep_their_names():
    model = nn.Sequential(OrderedDict(fc=nn.Linear(32, 32), act=nn.ReLU(), out=nn.Linear(32, 4)))
    assert names(nn.quantize(model)) == ["fc", "act", "out"]
    assert model.fc is model[0] and type(model.out).__name__ == "QuantizedLinear"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: nn.ModuleList([5]),
            TypeError,
            r"\[ModuleList\] expected a module as '0', got int",
        ),
        (lambda: nn.ModuleList([nn.ReLU]), TypeError, "got ReLU; make one of it"),
        (lambda: nn.ModuleDict({"a": 5}), TypeError, r"\[ModuleDict\] expected a module as 'a'"),
        (lambda: nn.ModuleDict({"a": ndl.relu}), TypeError, "expected a module as 'a', got funct"),
        (lambda: nn.ModuleDict({"a.b": Add(1)}), ValueError, "a name without dots, got 'a.b'"),
        (lambda: nn.ModuleDict({5: Add(1)}), ValueError, "a name without dots, got 5"),
        (lambda: nn.ModuleDict({"": Add(1)}), ValueError, "a name without dots, got ''"),
        (lambda: nn.ModuleDict({"keys": Add(1)}), ValueError, "has an attribute 'keys' of another"),
        (lambda: nn.ModuleDict({"training": Add(1)}), ValueError, "has an attribute 'training'"),
        (
            lambda: nn.ModuleDict(5),
            TypeError,
            r"\[ModuleDict\] expected names and modules, got int",
        ),
        (
            lambda: nn.ModuleList(5),
            TypeError,
            r"\[ModuleList\] expected a list of modules, got int",
        ),
        (lambda: nn.Sequential(5), TypeError, r"\[Sequential\] expected modules or functions"),
        (lambda: nn.Sequential(None), TypeError, "expected modules or functions, got NoneType"),
        (lambda: nn.Sequential(nn.ReLU), TypeError, "got the class ReLU; make one of it"),
        (
            lambda: setattr(nn.Sequential(Add(1)), "0", 5),
            TypeError,
            "expected modules or functions",
        ),
        (lambda: setattr(nn.Sequential(), "forward", Add(1)), ValueError, "has an attribute 'forw"),
        (lambda: nn.ModuleList([Add(1)])[1], IndexError, "out of range"),
        (lambda: nn.ModuleList([Add(1)])["0"], TypeError, "cannot be interpreted as an integer"),
        (lambda: nn.Sequential(Add(1)).pop(3), IndexError, "out of range"),
        (lambda: delattr(nn.Sequential(Add(1)), "1"), AttributeError, "1"),
        (lambda: nn.ModuleDict().pop("a"), KeyError, "a"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_change_that_is_refused_changes_nothing():
    for container in (nn.Sequential(Add(1)), nn.ModuleList([Add(1)]), nn.ModuleDict({"0": Add(1)})):
        for change in (
            lambda c: setattr(c, "0", 5),
            lambda c: c.__setitem__("0" if isinstance(c, nn.ModuleDict) else 0, 5),
            lambda c: c.add_module("x.y", Add(1)),
        ):
            with pytest.raises((TypeError, ValueError)):
                change(container)
            assert numbers(container) == [1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m: m.add_module("q", 5),
            TypeError,
            r"\[Linear\] expected a Module as 'q', got int",
        ),
        (lambda m: m.add_module("a.b", Add(1)), ValueError, "a name without dots, got 'a.b'"),
        (lambda m: m.add_module("forward", Add(1)), ValueError, "has an attribute 'forward'"),
        (lambda m: m.add_module("weight", Add(1)), ValueError, "has an attribute 'weight'"),
        (
            lambda m: m.register_parameter("q", ndl.ones(1)),
            TypeError,
            "a Parameter as 'q', got Ten",
        ),
        (lambda m: m.register_parameter("q", 5), TypeError, "a Parameter as 'q', got int"),
        (lambda m: m.register_parameter("", None), ValueError, "a name without dots, got ''"),
        (lambda m: m.register_buffer("q", np.ones(2)), TypeError, "a Tensor as 'q', got ndarray"),
        (lambda m: m.register_buffer("train", ndl.ones(2)), ValueError, "has an attribute 'train'"),
    ],
)
def test_registering_by_name(call, error, words):
    model = nn.Linear(2, 2)
    with pytest.raises(error, match=words):
        call(model)
    assert names(model) == [] and len(model.parameters()) == 2


def test_registered_parts():
    model = nn.Module()
    model.register_module("a", Add(1))
    model.add_module("a", Add(2))  # again
    model.register_parameter("p", None)
    model.register_parameter("p", nn.Parameter(ndl.ones(2)))
    model.register_buffer("b", nn.Parameter(ndl.ones(3)))
    assert model.a.n == 2 and [n for n, _ in model.named_parameters()] == ["p"]
    assert [n for n, _ in model.named_buffers()] == ["b"]


# Parameters --------------------------------------------------------------------------------------


def test_parameter_containers():
    rows = nn.ParameterList([ndl.ones(1), ndl.ones(2)])
    rows.insert(0, ndl.ones(3))
    rows += [ndl.ones(4)]
    rows[1] = ndl.zeros(5)
    last = rows.pop()
    assert [p.shape for p in rows] == [(3,), (5,), (2,)] and last.shape == (4,)
    assert rows[0] in rows and last not in rows
    assert [n for n, _ in rows.named_parameters()] == ["0", "1", "2"]
    rows.x = nn.Parameter(ndl.ones(6))
    assert len(rows) == 4 and rows[-1] is rows.x
    assert all(isinstance(p, nn.Parameter) for p in rows)

    table = nn.ParameterDict({"a": ndl.ones(1)})
    table.update({"b": ndl.ones(2)}, c=ndl.ones(3))
    table.d = nn.Parameter(ndl.ones(4))
    assert [*table] == [n for n, _ in table.named_parameters()] == ["a", "b", "c", "d"]
    assert table.pop("b").shape == (2,) and table.get("b") is None
    del table["a"]
    table.setdefault("e", ndl.ones(5))
    assert {n: p.shape for n, p in table.items()} == {"c": (3,), "d": (4,), "e": (5,)}
    assert all(isinstance(p, nn.Parameter) for p in table.values())
    assert table == table and hash(table) != hash(nn.ParameterDict())
    optimizer = ndl.optim.SGD(table.parameters(), lr=1.0)
    sum(p.sum() for p in table.values()).backward()
    optimizer.step()
    assert all((p.numpy() == 0).all() for p in table.values())
