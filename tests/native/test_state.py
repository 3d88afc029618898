"""What compiled functions ask of their state: who holds an array, and who its memory."""

import pytest

import needle as ndl
from needle import _native


def lists(n=3):
    tensors = [ndl.zeros(4) for _ in range(n)]
    return tensors, [t.cached_data for t in tensors]


def test_hold_arrays_sees_other_data_and_other_wishes():
    tensors, arrays = lists()
    wanted = [False] * 3
    assert _native.hold_arrays(tensors, arrays, wanted)
    tensors[1].requires_grad = True
    assert not _native.hold_arrays(tensors, arrays, wanted)
    tensors[1].requires_grad = False
    tensors[2].data = ndl.ones(4)
    assert not _native.hold_arrays(tensors, arrays, wanted)


def test_take_homes_leaves_memory_that_others_have():
    tensors, arrays = lists()
    seen = tensors[1].detach()  # another tensor with the same array or memory
    homes = [(slot, place, 1) for slot, place in enumerate((2, 1, 0))]
    buffers = [None] * 3
    assert _native.take_homes(homes, arrays, buffers) == [1]
    assert buffers[0] is arrays[2]._handle and buffers[1] is None
    assert seen.shape == (4,)


def test_take_gradients_takes_only_what_it_was_given():
    w = ndl.ones(3, requires_grad=True)
    w.sum().backward(create_graph=False)
    w.grad = ndl.zeros(3)
    given, buffers = [w.grad], [None]
    assert _native.take_gradients([(0, w)], given, buffers) == []
    assert buffers[0] is w.grad.cached_data._handle
    assert _native.take_gradients([(0, w)], [None], [None]) == [0]
    held = w.grad
    assert _native.take_gradients([(0, w)], given, [None]) == [0]
    assert held is w.grad


BAD = [
    (_native.hold_arrays, ([1], [2], [True])),
    (_native.hold_arrays, ((), [], [])),
    (_native.hold_arrays, ([ndl.zeros(1)], [], [])),
    (_native.take_homes, ([(0, 5, 1)], [], [None])),
    (_native.take_homes, ([(0,)], [], [None])),
    (_native.take_homes, ([("a", "b", "c")], [], [None])),
    (_native.take_homes, ([(0, 0, "c")], [ndl.zeros(1).cached_data], [None])),
    (_native.take_gradients, ([(0, 1)], [], [None])),
    (_native.take_gradients, ([], [])),
]


@pytest.mark.parametrize("function, arguments", BAD)
def test_wrong_arguments_are_errors(function, arguments):
    with pytest.raises((TypeError, ValueError)):
        function(*arguments)
