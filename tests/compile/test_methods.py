"""`jit` on methods: whose programs are called, and when they are made."""

import copy

import pytest

import needle as ndl

ONE = ndl.tensor([1.0])


class Base:
    def __init__(self, scale=1.0):
        self.scale = scale
        self.traces = 0

    @ndl.jit
    def apply(self, x):
        self.traces += 1
        return x * self.scale + 1

    @ndl.jit
    def __call__(self, x):
        self.traces += 1
        return x * self.scale

    @ndl.jit
    def __hidden(self, x):
        self.traces += 1
        return x - self.scale

    def hidden(self, x):
        return self.__hidden(x)


class Derived(Base):
    @ndl.jit
    def apply(self, x):
        return super().apply(x) * 10


def test_an_overridden_method_is_called_through_super_only():
    derived = Derived()
    assert [derived.apply(ONE).item() for _ in range(3)] == [20.0, 20.0, 20.0]
    assert [super(Derived, derived).apply(ONE).item() for _ in range(2)] == [2.0, 2.0]
    assert derived.apply(ONE).item() == 20.0


@pytest.mark.parametrize("name", ["apply", "__call__", "hidden"])
def test_a_method_is_traced_once(name):
    model = Base(2.0)
    called = [(model(ONE) if name == "__call__" else getattr(model, name)(ONE)) for _ in range(3)]
    assert model.traces == 1
    assert {x.item() for x in called} == {{"apply": 3.0, "__call__": 2.0, "hidden": -1.0}[name]}


def test_a_shallow_copy_has_programs_of_its_own():
    model = Base(2.0)
    assert model.apply(ONE).item() == 3.0
    other = copy.copy(model)
    other.scale = 5.0
    assert (other.apply(ONE).item(), model.apply(ONE).item()) == (6.0, 3.0)
    assert model.apply.cache_info().misses == other.apply.cache_info().misses == 1


def test_objects_without_a_dict_are_fixed_arguments():
    class Slots:
        __slots__ = ("scale",)

        def __init__(self, scale):
            self.scale = scale

        @ndl.jit
        def apply(self, x):
            return x * self.scale

    two, three = Slots(2.0), Slots(3.0)
    assert [m.apply(ONE).item() for m in (two, three, two)] == [2.0, 3.0, 2.0]
    assert two.apply.cache_info() == (1, 2, 128, 2, 0)


def test_methods_of_classes():
    class Model:
        scale = 2.0

        @classmethod
        @ndl.jit
        def of_class(cls, x):
            return x * cls.scale

        @staticmethod
        @ndl.jit
        def of_none(x):
            return x + 1

    class Other(Model):
        scale = 3.0

    assert [c.of_class(ONE).item() for c in (Model, Other, Model)] == [2.0, 3.0, 2.0]
    assert Model().of_class(ONE).item() == Model.of_none(ONE).item() == Model().of_none(ONE).item()
