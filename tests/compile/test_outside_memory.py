"""Memory from outside of a compiled function: it stays what it was, however it is reached."""

import numpy as np
import pytest

import needle as ndl
from needle.compiler.errors import TraceError


def _broadcast():
    s = ndl.zeros(2)
    return s, ndl.broadcast_to(s, (2, 2))


def test_reading_a_broadcast_view_leaves_it_a_view():
    s, e = _broadcast()
    before = e.realize_cached_data()
    f = ndl.jit(lambda x: e + x)
    f(ndl.zeros(2))
    assert e.realize_cached_data() is before
    s[0] = 6.0
    assert e.tolist() == f(ndl.zeros(2)).tolist() == [[6, 0], [6, 0]]
    assert f.cache_info().misses == 1


def test_a_broadcast_view_shows_what_the_function_writes():
    s, e = _broadcast()

    @ndl.jit
    def f(x):
        before = e + x
        s[0] = 6.0
        return before, e + x

    for expected in ([[0, 0], [0, 0]], [[6, 0], [6, 0]]):
        before, after = f(ndl.zeros(2))
        assert before.tolist() == expected and after.tolist() == [[6, 0], [6, 0]]
        assert e.tolist() == [[6, 0], [6, 0]]


def test_a_view_of_an_argument_that_is_written_is_refused():
    s, e = _broadcast()

    @ndl.jit
    def f(s, x):
        s[0] = 6.0
        return e + x

    with pytest.raises(TraceError, match="also known to the function"):
        f(s, ndl.zeros(2))
    assert s.tolist() == [0, 0]


def test_a_broadcast_view_may_be_replaced():
    _, e = _broadcast()

    @ndl.jit
    def f():
        e.data = e + 1

    for k in range(3):
        f()
        assert e.tolist() == [[k + 1] * 2] * 2


def test_a_broadcast_view_may_not_be_written():
    _, e = _broadcast()

    @ndl.jit
    def f():
        e[0] = 1.0

    with pytest.raises(ValueError, match="broadcast"):
        f()


# Arrays that no tensor holds ---------------------------------------------------------------------


def test_an_array_from_outside_is_read_where_it_is():
    array = ndl.zeros(3).realize_cached_data()
    f = ndl.jit(lambda x: array * 2 + x.realize_cached_data())
    assert f(ndl.ones(3)).numpy().tolist() == [1, 1, 1]
    array[0] = 7.0
    assert f(ndl.ones(3)).numpy().tolist() == [15, 1, 1]
    assert f.cache_info().misses == 1


def test_an_array_from_outside_is_written_where_it_is():
    array = ndl.zeros(3).realize_cached_data()

    @ndl.jit
    def f(x):
        before = array + 0
        array[0] = x.sum().realize_cached_data()
        return before

    assert f(ndl.ones(3)).numpy().tolist() == [0, 0, 0]
    assert array.numpy().tolist() == [3, 0, 0]
    assert f(ndl.ones(3) * 2).numpy().tolist() == [3, 0, 0]
    assert array.numpy().tolist() == [6, 0, 0]


@pytest.mark.parametrize("is_array_first", [True, False])
def test_an_array_and_a_tensor_with_one_memory(is_array_first):
    tensor = ndl.zeros(3)
    array = tensor.realize_cached_data()

    @ndl.jit
    def f(x):
        first = array + 0 if is_array_first else 0
        tensor[0] = 5.0
        middle = array + x.realize_cached_data()
        array[1] = 6.0
        return first, middle, tensor + x

    _, middle, last = f(ndl.ones(3))
    assert middle.numpy().tolist() == [6, 1, 1] and last.tolist() == [6, 7, 1]
    assert tensor.tolist() == array.numpy().tolist() == [5, 6, 0]
    tensor.data = ndl.zeros(3)  # now the array is alone
    _, middle, last = f(ndl.ones(3))
    assert middle.numpy().tolist() == [6, 7, 1] and last.tolist() == [6, 1, 1]


# Memory that NumPy or DLPack knows ---------------------------------------------------------------


def test_two_buffers_of_one_numpy_array_are_refused_if_one_is_written():
    numbers = np.zeros(4, np.float32)
    a, b = ndl.from_numpy(numbers[:3]), ndl.from_numpy(numbers[1:])
    read = ndl.jit(lambda: a + b)
    assert read().tolist() == [0, 0, 0]

    def f():
        a[1] = 5.0
        return b + 1

    with pytest.raises(TraceError, match="shares memory, by way of NumPy"):
        ndl.jit(f)()
    assert not numbers.any()
    b.data = b.clone()
    assert ndl.jit(f)().tolist() == [1, 1, 1] and numbers.tolist() == [0, 5, 0, 0]


def test_buffers_that_come_to_share_memory_are_refused():
    numbers = np.zeros(3, np.float32)
    a, b = ndl.from_numpy(numbers), ndl.zeros(3)

    @ndl.jit
    def f():
        a[1] = 5.0
        return b + 1

    assert f().tolist() == [1, 1, 1]
    b.data = ndl.from_numpy(numbers)
    with pytest.raises(TraceError, match="shares memory, by way of NumPy"):
        f()


def test_separate_parts_of_one_numpy_array_are_apart():
    numbers = np.zeros(4, np.float32)
    a, b = ndl.from_numpy(numbers[:2]), ndl.from_numpy(numbers[2:])

    @ndl.jit
    def f():
        a[1] = 5.0
        return b + 1

    assert f().tolist() == [1, 1] and numbers.tolist() == [0, 5, 0, 0]


@pytest.mark.parametrize("as_tensor", [True, False])
def test_an_argument_with_the_memory_of_a_written_state_is_refused(as_tensor):
    numbers = np.zeros(3, np.float32)
    state = ndl.from_numpy(numbers)

    @ndl.jit
    def f(x):
        state[0] = 5.0
        return x + 1

    with pytest.raises(TraceError, match="also known to the function"):
        f(ndl.from_numpy(numbers) if as_tensor else numbers)
    assert not numbers.any()
