"""What compiled functions ask of their state: who holds an array, and who its memory."""

import weakref

import pytest

import needle as ndl
from needle import _native


def cells_and_references(n=3):
    cells = [(ndl.zeros(4), False) for _ in range(n)]
    return cells, [weakref.ref(tensor.cached_data) for tensor, _ in cells]


def test_changed_cells_sees_other_data_and_other_wishes():
    cells, references = cells_and_references()
    wanted = [False] * 3
    assert _native.changed_cells(cells, references, wanted) == []
    cells[1][0].requires_grad = True
    assert _native.changed_cells(cells, references, wanted) == [1]
    cells[2][0].data = ndl.ones(4)
    assert _native.changed_cells(cells, references, wanted) == [1, 2]
    assert _native.changed_cells(cells, references, [None] * 3) == [2]


def test_changed_cells_sees_other_gradients():
    w = ndl.ones(3, requires_grad=True)
    w.grad = ndl.zeros(3)
    references = [weakref.ref(w.grad.cached_data)]
    assert _native.changed_cells([(w, True)], references, [None]) == []
    w.grad = None
    assert _native.changed_cells([(w, True)], references, [None]) == [0]


def test_put_memory_puts_what_the_tensors_have():
    cells, _ = cells_and_references(2)
    buffers = [None] * 2
    _native.put_memory([(1, cells[0])], buffers)
    assert buffers[0] is None and buffers[1] is cells[0][0].cached_data._handle


def test_take_homes_leaves_memory_that_others_have():
    cells, _ = cells_and_references()
    seen = cells[1][0].detach()  # another tensor with the same array or memory
    homes = [(slot, cells[place], 1) for slot, place in enumerate((2, 1, 0))]
    buffers = [None] * 3
    assert _native.take_homes(homes, buffers) == [1]
    assert buffers[0] is cells[2][0].cached_data._handle and buffers[1] is None
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
    assert _native.take_homes([(0, (w, True), 1)], [None]) == [0]


BAD = [
    (_native.changed_cells, ([1], [2], [True])),
    (_native.changed_cells, ((), [], [])),
    (_native.changed_cells, ([(ndl.zeros(1), False)], [], [])),
    (_native.changed_cells, ([(ndl.zeros(1), False)], [1], [False])),
    (_native.put_memory, ([(5, (ndl.zeros(1), False))], [None])),
    (_native.put_memory, ([(0, (ndl.zeros(1), True))], [None])),
    (_native.put_memory, ([(0, 1)], [None])),
    (_native.take_homes, ([(0, 5, 1)], [None])),
    (_native.take_homes, ([(0,)], [None])),
    (_native.take_homes, ([("a", "b", "c")], [None])),
    (_native.take_homes, ([(0, (ndl.zeros(1), False), "c")], [None])),
    (_native.take_homes, ([(7, (ndl.zeros(1), False), 1)], [None])),
    (_native.take_gradients, ([(0, 1)], [None])),
    (_native.take_gradients, ([(0, *range(7))], [None])),
    (_native.take_gradients, ([],)),
]


@pytest.mark.parametrize("function, arguments", BAD)
def test_wrong_arguments_are_errors(function, arguments):
    with pytest.raises((TypeError, ValueError)):
        function(*arguments)
