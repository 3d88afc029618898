"""Sequences: kernel calls on placeholders are noted, and run on whatever memory the slots get."""

import threading

import numpy as np
import pytest

from needle import _native

from .helpers import Array, array, blank, compact

X = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)


def placeholder(sequence, slot, shape, dtype="float32", offset=0, written=True):
    size = int(np.prod(shape))
    handle = sequence.placeholder(slot, offset, size, dtype, written)
    return Array(handle, shape, compact(shape))


def softmax_sequence():
    """softmax(x) over rows: slot 0 is x, slot 1 memory between the calls, slot 2 the result."""
    sequence = _native.Sequence()
    x = placeholder(sequence, 0, (5, 7), written=False)
    e = placeholder(sequence, 1, (5, 7))
    total = placeholder(sequence, 1, (5, 1), offset=256)
    out = placeholder(sequence, 2, (5, 7))
    sequence.start()
    try:
        _native.unary("exp", e, x)
        _native.reduce("sum", total, e)
        _native.binary("divide", out, e, total)
        _native.binary("multiply", out, out, 2.0)
    finally:
        sequence.stop()
    return sequence


def softmax(x):
    e = np.exp(x)
    return 2 * e / e.sum(1, keepdims=True)


def test_calls_are_noted_not_run_and_run_in_order():
    sequence = softmax_sequence()
    assert len(sequence) == 4
    for scale in (1, -0.5):
        x, out = array(scale * X), blank((5, 7))
        sequence.run([x._handle, _native.empty(512, "uint8"), out._handle])
        np.testing.assert_allclose(out.numpy(), softmax(scale * X), rtol=1e-5)


def test_timed_runs_give_one_time_per_call():
    out = blank((5, 7))
    memory = [array(X)._handle, _native.empty(512, "uint8"), out._handle]
    seconds = softmax_sequence().run_timed(memory)
    assert len(seconds) == 4 and min(seconds) >= 0
    np.testing.assert_allclose(out.numpy(), softmax(X), rtol=1e-5)


def test_a_run_cannot_be_inside_itself():
    sequence = _native.Sequence()
    x = placeholder(sequence, 0, (3,))
    memory = [blank((3,))._handle]
    depth = []

    def again(buffers):
        depth.append(len(buffers))
        if len(depth) == 1:
            with pytest.raises(RuntimeError, match="is running"):
                sequence.run(memory)

    sequence.start()
    try:
        _native.run_python(again, (x,), ())
    finally:
        sequence.stop()
    for _ in range(2):
        sequence.run(memory)
    assert depth == [1, 1]


def test_memory_of_a_slot_is_checked():
    sequence = softmax_sequence()
    x, between, out = array(X)._handle, _native.empty(512, "uint8"), blank((5, 7))._handle
    with pytest.raises(ValueError, match="expected a list of 3 buffers"):
        sequence.run([x, between])
    with pytest.raises(ValueError, match="expected 276 bytes in slot 1, got 200"):
        sequence.run([x, _native.empty(200, "uint8"), out])
    with pytest.raises(TypeError, match="not on this device"):
        sequence.run([x, between, "out"])
    with pytest.raises(ValueError, match="no place"):
        sequence.placeholder(0, 0, 2**60, "float32", True)


def test_placeholders_for_reading_are_not_written():
    sequence = _native.Sequence()
    x = placeholder(sequence, 0, (5, 7), written=False)
    sequence.start()
    try:
        with pytest.raises(ValueError, match="read-only"):
            _native.fill(x, 1.0)
    finally:
        sequence.stop()


def test_placeholders_have_no_memory_outside():
    sequence = _native.Sequence()
    x = placeholder(sequence, 0, (5, 7))
    with pytest.raises(TypeError, match="stands for a slot"):
        _native.fill(x, 1.0)
    with pytest.raises(TypeError, match="stands for a slot"):
        _native.to_numpy(x)
    sequence.start()
    try:
        with pytest.raises(ValueError, match="cannot be part"):
            _native.to_numpy(x)
        with pytest.raises(ValueError, match="cannot be part"):
            _native.nonzero(x)
    finally:
        sequence.stop()


def test_an_index_outside_raises():
    sequence = _native.Sequence()
    table, index = placeholder(sequence, 0, (5, 7)), placeholder(sequence, 1, (2,), "int64")
    out = placeholder(sequence, 2, (2, 7))
    sequence.start()
    _native.gather(out, table, (index,))
    sequence.stop()
    result = blank((2, 7))
    rows = array(np.array([4, -5]))
    sequence.run([array(X)._handle, rows._handle, result._handle])
    np.testing.assert_array_equal(result.numpy(), X[[4, 0]])
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis of size 5"):
        sequence.run([array(X)._handle, array(np.array([0, 5]))._handle, result._handle])


def test_random_numbers_follow_their_counter():
    sequence = _native.Sequence()
    out, counter = placeholder(sequence, 0, (100,)), placeholder(sequence, 1, (2,), "int64")
    sequence.start()
    _native.random_from("normal", out, counter)
    sequence.stop()
    for seed, offset in ((3, 0), (7, 12)):
        drawn, expected = blank((100,)), blank((100,))
        sequence.run([drawn._handle, array(np.array([seed, offset]))._handle])
        _native.random("normal", expected, seed, offset)
        np.testing.assert_array_equal(drawn.numpy(), expected.numpy())


def test_recording_belongs_to_one_thread():
    sequence = _native.Sequence()
    x, out = array(X), blank((5, 7))
    sequence.start()
    try:
        with pytest.raises(ValueError, match="records one already"):
            _native.Sequence().start()
        other = threading.Thread(target=_native.copy, args=(out, x))
        other.start()
        other.join()
    finally:
        sequence.stop()
    np.testing.assert_array_equal(out.numpy(), X)
    assert len(sequence) == 0


def test_threads_may_run_one_sequence_at_once():
    sequence = softmax_sequence()
    results = {}

    def work(scale):
        for _ in range(50):
            out = blank((5, 7))
            sequence.run([array(scale * X)._handle, _native.empty(512, "uint8"), out._handle])
            results.setdefault(scale, []).append(out.numpy())

    threads = [threading.Thread(target=work, args=(s,)) for s in (1.0, 0.5, -1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scale, found in results.items():
        for out in found:
            np.testing.assert_allclose(out, softmax(scale * X), rtol=1e-5)


def lanes_sequence():
    """Slot 0 is x; slots 1 and 2 get 2 exp(x) and -x, each by calls of a lane of its own."""
    sequence = _native.Sequence()
    x = placeholder(sequence, 0, (5, 7), written=False)
    y, z = (placeholder(sequence, slot, (5, 7)) for slot in (1, 2))
    sequence.start()
    try:
        _native.unary("exp", y, x)
        _native.unary("negative", z, x)
        _native.binary("multiply", y, y, 2.0)
    finally:
        sequence.stop()
    return sequence


@pytest.mark.parametrize("timed", [False, True])
def test_lanes_run_side_by_side(timed):
    sequence = lanes_sequence()
    sequence.side_by_side([[0, 2], [1]])
    for _ in range(100):
        y, z = blank((5, 7)), blank((5, 7))
        buffers = [array(X)._handle, y._handle, z._handle]
        if timed:
            assert len(sequence.run_timed(buffers)) == 3
        else:
            sequence.run(buffers)
        np.testing.assert_allclose(y.numpy(), 2 * np.exp(X), rtol=1e-5)
        np.testing.assert_array_equal(z.numpy(), -X)


@pytest.mark.parametrize("lanes", [[], [[]], [[2, 0], [1]], [[0], [2]], [[0, 1], [1]], [[2], [3]]])
def test_what_is_no_lanes_is_refused(lanes):
    with pytest.raises(ValueError, match="not lanes"):
        lanes_sequence().side_by_side(lanes)


def test_lanes_come_one_after_the_other():
    sequence = lanes_sequence()
    sequence.side_by_side([[0], [1]])
    with pytest.raises(ValueError, match="not lanes"):
        sequence.side_by_side([[1], [2]])


@pytest.mark.parametrize("step, start", [(1, 0), (6, 0), (4, 1)])
def test_a_loop_refuses_memory_that_its_elements_cannot_lie_in(step, start):
    body = _native.Sequence()
    x = placeholder(body, 0, (4,))
    body.start()
    try:
        _native.fill(x, 1.0)
    finally:
        body.stop()
    memory = Array(blank((65,), "uint8")._handle, (64,), (1,), start)
    with pytest.raises(ValueError, match="no memory of its size at every step"):
        _native.run_loop(body, 3, False, ((-1, 0, step, 0),), (), (memory,), ())


def test_a_placeholder_lies_at_a_multiple_of_its_elements():
    with pytest.raises(ValueError, match="at byte 2 of slot 0"):
        _native.Sequence().placeholder(0, 2, 4, "float32", True)
