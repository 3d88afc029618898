"""How many programs a compiled function keeps, and which."""

import gc
import pickle
import weakref

import pytest

import needle as ndl

pytestmark = pytest.mark.filterwarnings("ignore:.*has been traced")
x = ndl.tensor([1.0, 2.0])


def scaled(x, factor):
    return x * factor


def test_programs_beyond_the_bound_go_the_least_recently_used_first():
    f = ndl.jit(scaled, maxsize=3)
    programs = []
    for factor in (1, 2, 3):
        f(x, factor)
        programs.append(weakref.ref(f.program))
    f(x, 1)
    f(x, 4)  # instead of 2
    gc.collect()
    assert [p() is None for p in programs] == [False, True, False]
    assert f.cache_info() == (1, 4, 3, 3, 0)
    assert f(x, 1).tolist() == [1.0, 2.0] and f(x, 3).tolist() == [3.0, 6.0]
    assert f.cache_info().misses == 4
    assert f(x, 2).tolist() == [2.0, 4.0] and f.cache_info().misses == 5


def test_ever_new_values_keep_the_bound():
    f = ndl.jit(scaled)
    for factor in range(140):
        assert f(x, factor).tolist() == [factor, 2 * factor]
    assert f.cache_info() == (0, 140, 128, 128, 0)
    f.clear_cache()
    assert f.cache_info().currsize == 0


def test_programs_of_one_kind_of_arguments_count_too():
    state = {"w": ndl.ones(2)}
    f = ndl.jit(lambda x: x * state["w"].sum(), maxsize=2)
    for n in (2, 3, 4, 5):
        state["w"].data = ndl.ones(n)
        assert f(x).tolist() == [n, 2 * n]
    assert f.cache_info() == (0, 4, 2, 2, 0)


def test_calls_that_cannot_be_traced_leave_nothing():
    def f(x, n):
        raise KeyError(n)

    f = ndl.jit(f, maxsize=None)
    for n in range(5):
        with pytest.raises(KeyError):
            f(x, n)
    assert f.cache_info() == (0, 5, None, 0, 0) and not f._programs._items


def test_families_of_a_dynamic_axis_are_bound_too():
    f = ndl.jit(scaled, dynamic=0, maxsize=2)
    for factor in range(5):
        assert f(ndl.ones(4), factor).shape == (4,)
    assert len(f._families) == 2 and f.cache_info().currsize == 2
    assert f(ndl.ones(7), 4).shape == (7,) and f.cache_info().resized == 1


@pytest.mark.parametrize("maxsize", [0, -1, 1.5, "many"])
def test_bounds_that_are_none(maxsize):
    with pytest.raises(ValueError, match="positive whole number or None, got"):
        ndl.jit(scaled, maxsize=maxsize)


class Model:
    @ndl.jit(maxsize=1)
    def apply(self, x, factor):
        return x * factor


def test_methods_and_copies_have_the_same_bound():
    model = Model()
    for factor in (1, 2):
        model.apply(x, factor)
    assert model.apply.cache_info() == (0, 2, 1, 1, 0)
    again = pickle.loads(pickle.dumps(ndl.jit(scaled, maxsize=5)))
    assert again.cache_info().maxsize == 5
