"""What compiled functions ask of their state: who holds an array, and who its memory."""

import weakref

import pytest

import needle as ndl
from needle import _native


def tensors_and_references(n=3):
    tensors = [ndl.zeros(4) for _ in range(n)]
    return tensors, [weakref.ref(tensor.cached_data) for tensor in tensors]


def test_changed_places_sees_other_data_and_other_wishes():
    tensors, references = tensors_and_references()
    wanted = [False] * 3
    assert _native.changed_places(tensors, references, wanted) == []
    tensors[1].requires_grad = True
    assert _native.changed_places(tensors, references, wanted) == [1]
    tensors[2].data = ndl.ones(4)
    assert _native.changed_places(tensors, references, wanted) == [1, 2]
    assert _native.changed_places(tensors, references, [None] * 3) == [2]


def test_changed_places_sees_other_gradients():
    w = ndl.ones(3, requires_grad=True)
    w.grad = ndl.zeros(3)
    references = [weakref.ref(w.grad.cached_data)]
    assert _native.changed_places([(w, True)], references, [None]) == []
    w.grad = None
    assert _native.changed_places([(w, True)], references, [None]) == [0]


def test_take_memory_leaves_homes_of_memory_that_others_have():
    tensors, _ = tensors_and_references()
    seen = tensors[1].detach()  # another tensor with the same array or memory
    buffers = [None] * 4
    assert _native.take_memory(tensors, [None, 3, None], [2, 1, None], buffers) == [1]
    memory = [tensor.cached_data._handle for tensor in tensors]
    assert buffers[0] is buffers[1] is None
    assert buffers[2] is memory[0] and buffers[3] is memory[1]
    assert seen.shape == (4,)


def layout(x):
    a = x.cached_data
    return a.shape, a.strides, a.offset, a.dtype, a.device, a.size


def test_take_gradients_takes_only_what_is_alone_and_fits():
    w = ndl.ones(3, requires_grad=True)
    w.grad = ndl.zeros(3)
    fitting, buffers = (0, w, *layout(w)), [None]
    assert _native.take_gradients([fitting], buffers) == []
    assert buffers.pop() is w.grad.cached_data._handle
    assert _native.take_gradients([(0, w, *layout(ndl.zeros(4)))], [None]) == [0]
    held = w.grad
    assert _native.take_gradients([fitting], [None]) == [0]
    w.grad = held.detach()
    assert _native.take_gradients([fitting], [None]) == [0]
    del held
    assert _native.take_gradients([fitting], [None]) == []


def test_a_gradient_with_a_history_is_not_taken():
    w = ndl.ones(3, requires_grad=True)
    w.grad = w * 2.0
    assert _native.take_gradients([(0, w, *layout(w))], [None]) == [0]
    assert _native.take_memory([(w, True)], [None], [0], [None]) == [0]


TENSOR = ndl.zeros(1)
BAD = [
    (_native.changed_places, ([1], [2], [True])),
    (_native.changed_places, ((), [], [])),
    (_native.changed_places, ([ndl.zeros(1)], [], [])),
    (_native.changed_places, ([ndl.zeros(1)], [1], [False])),
    (_native.take_memory, ([TENSOR], [5], [None], [None])),
    (_native.take_memory, ([TENSOR], [None], [7], [None])),
    (_native.take_memory, ([TENSOR], ["a"], [None], [None])),
    (_native.take_memory, ([TENSOR], [], [None], [None])),
    (_native.take_memory, ([(TENSOR, True)], [0], [None], [None])),
    (_native.take_memory, ([1], [0], [None], [None])),
    (_native.take_memory, ([(1, True)], [0], [None], [None])),
    (_native.take_gradients, ([(0, 1)], [None])),
    (_native.take_gradients, ([(0, *range(7))], [None])),
    (_native.take_gradients, ([],)),
]


@pytest.mark.parametrize("function, arguments", BAD)
def test_wrong_arguments_are_errors(function, arguments):
    with pytest.raises((TypeError, ValueError)):
        function(*arguments)
