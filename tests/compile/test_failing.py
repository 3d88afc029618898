"""Runs that fail in the middle: what they say, and what they leave behind."""

import pickle
import re

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.ndarray import random

F = nn.functional
TABLE = ndl.tensor(np.arange(15.0).reshape(5, 3))


def failure(function, *args):
    with pytest.raises(IndexError) as caught:
        function(*args)
    return caught.value


def scanned(ids):
    return ndl.scan(lambda total, i: (total + TABLE[i], total), ndl.zeros(3), ids)


def written(ids):
    y = TABLE * 2
    y[ids] = 1.0
    return y


USES = {
    "getitem": lambda ids: TABLE[ids],
    "setitem": written,
    "two axes": lambda ids: TABLE[0, ids],
    "gather": lambda ids: TABLE.gather(1, ids.expand_dims(0)),
    "take_along_axis": lambda ids: ndl.take_along_axis(TABLE, ids.expand_dims(0), 1),
    "index_select": lambda ids: ndl.index_select(TABLE, 0, ids),
    "scatter": lambda ids: TABLE.scatter(1, ids.expand_dims(0), 1.0),
    "scatter_add": lambda ids: TABLE.scatter_add(1, ids.expand_dims(0), ndl.ones(1, 2)),
    "index_add": lambda ids: ndl.index_add(TABLE, 0, ids, ndl.ones(2, 3)),
    "one_hot": lambda ids: ndl.one_hot(5, ids),
    "F.one_hot": lambda ids: F.one_hot(ids, 5),
    "embedding": lambda ids: F.embedding(ids, TABLE),
    "cross_entropy": lambda ids: F.cross_entropy(TABLE[:2], ids),
    "label_smoothing": lambda ids: F.cross_entropy(TABLE[:2], ids, label_smoothing=0.1),
    "nll_loss": lambda ids: F.nll_loss(TABLE[:2], ids),
    "scan": scanned,
}


TAKE_FLOATS = ("one_hot", "F.one_hot", "embedding", "cross_entropy", "label_smoothing", "nll_loss")
FROM_ZERO = ("gather", "scatter", "scatter_add", "index_select", "index_add")  # as in PyTorch
CASES = [(name, wrong) for name in USES for wrong in (99, -7, 1 << 62, -(1 << 63))]
CASES += [(name, -1) for name in FROM_ZERO + TAKE_FLOATS[1:]]


@pytest.mark.parametrize(("name", "wrong"), CASES + [(name, 1.5) for name in TAKE_FLOATS])
def test_an_index_out_of_range_is_told_as_in_eager_mode(name, wrong):
    use, ids = USES[name], ndl.tensor([0, wrong])
    told = str(failure(use, ids))
    assert wrong == 1.5 or f" {wrong}" in told
    for compiled in (ndl.jit(use), ndl.jit(use, fuse=False)):
        message, place = str(failure(compiled, ids)).split("\n")
        assert message == told
        assert re.search(r"test_failing.py:\d+: .*(ids|\[i\])", place)


def test_a_gradient_that_needs_no_elements_names_the_lookup():
    table = ndl.ones(5, 3, requires_grad=True)

    @ndl.jit
    def gradient(ids):
        rows = F.embedding(ids, table)
        rows.sum().backward()
        return table.grad

    message, place = str(failure(gradient, ndl.tensor([0, -1]))).split("\n")
    assert message.startswith("[embedding] expected ids from 0 to 4, got -1;")
    assert place.endswith("rows = F.embedding(ids, table)")


def test_of_another_size_of_a_dynamic_axis():
    f = ndl.jit(lambda ids: TABLE[ids] * 2, dynamic=0)
    f(ndl.tensor([0, 1, 2]))
    error = failure(f, ndl.tensor([0, 1, 2, 8]))
    assert str(error).startswith("[getitem] index 8 is out") and "TABLE[ids] * 2" in str(error)
    assert f.cache_info().misses == 1


def test_of_constant_indices_and_of_a_device_that_is_no_native_one():
    there = ndl.tensor(TABLE.numpy(), device=ndl.cpu_numpy())
    constant = ndl.jit(lambda: ndl.ones(5)[ndl.tensor([1, 6])])
    for f, args in ((constant, ()), (ndl.jit(lambda ids: there[ids]), (there[0].long() + 6,))):
        assert str(failure(f, *args)).startswith("[getitem] index 6 is out of bounds for axis 0")
        assert "\n" in str(failure(f, *args))


def test_a_profiled_run_and_one_of_the_second_tier_say_the_same():
    f = ndl.jit(lambda x, ids: (x.exp() * 2 + 1, TABLE[ids]))
    x, ids = ndl.ones(4), ndl.tensor([7])
    told = str(failure(f, x, ids))
    assert told.startswith("[getitem] index 7") and str(failure(f.profile, x, ids)) == told
    assert str(pickle.loads(pickle.dumps(failure(f, x, ids)))) == told


class Checked(ndl.autograd.TensorOp):
    """y = x, whose elements must not be negative"""

    def compute(self, a):
        if (a.numpy() < 0).any():
            raise KeyError("negative")
        return ndl.tensor(a.numpy()).realize_cached_data()


def test_an_error_of_the_users_own_operator_stays_and_has_the_line_as_a_note():
    f = ndl.jit(lambda x: Checked()(x * 2) + 1)
    with pytest.warns(RuntimeWarning, match="runs as Python"):
        f(ndl.ones(3))
    with pytest.raises(KeyError) as caught:
        f(-ndl.ones(3))
    assert caught.value.args == ("negative",)
    assert "Checked()(x * 2) + 1" in caught.value.__notes__[0]


# What is left ------------------------------------------------------------------------------------

RIGHT, WRONG = ndl.tensor([0, 1]), ndl.tensor([0, 9])


def test_state_that_was_computed_before_the_failure_is_not_updated():
    w = ndl.zeros(3)

    @ndl.jit
    def count(ids):
        w.data = w.detach() + 1.0
        return TABLE[ids]

    place = id(w.cached_data)
    count(RIGHT)
    assert id(w.cached_data) == place  # its new data was put there at the end
    failure(count, WRONG)
    assert w.tolist() == [1.0] * 3
    count(RIGHT)
    assert w.tolist() == [2.0] * 3


def test_state_that_several_updates_read_is_right_after_a_failure():
    a, b = ndl.zeros(3), ndl.ones(3)

    @ndl.jit
    def swap(ids):
        a.data, b.data = b.detach() * 2.0, a.detach()
        return TABLE[ids]

    swap(RIGHT)
    failure(swap, WRONG)
    assert (a.tolist(), b.tolist()) == ([2.0] * 3, [0.0] * 3)
    swap(RIGHT)
    assert (a.tolist(), b.tolist()) == ([0.0] * 3, [2.0] * 3)


def test_gradients_that_were_computed_before_the_failure_are_not_given():
    w = ndl.ones(3, requires_grad=True)

    @ndl.jit
    def step(x, ids):
        w.grad = None
        (w * x).sum().backward()
        return TABLE[ids]

    for scale in (1.0, 2.0):  # the second gradient may be where the first one was
        step(ndl.full((3,), scale), RIGHT)
    failure(step, ndl.full((3,), 5.0), WRONG)
    assert w.grad.tolist() == [2.0] * 3


def test_an_operator_in_python_that_raises_leaves_state_too():
    w = ndl.zeros(3)

    def count(x):
        w.data = w.detach() + x
        return Checked()(x)

    with pytest.warns(RuntimeWarning, match="runs as Python"):
        step = ndl.jit(count)
        step(ndl.ones(3))
    with pytest.raises(KeyError):
        step(-ndl.ones(3))
    assert w.tolist() == [1.0] * 3


def test_training_goes_on_after_a_batch_that_was_wrong():
    def losses(batches, compiled):
        ndl.manual_seed(0)
        model = nn.Sequential(nn.Embedding(5, 3), nn.Dropout(0.5), nn.Linear(3, 2))
        optimizer = ndl.optim.Adam(model.parameters(), lr=0.1)

        def step(ids):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids), ids)
            loss.backward()
            optimizer.step()
            return loss

        step = ndl.jit(step, fuse=False) if compiled else step
        for ids in batches:
            if ids is WRONG:
                failure(step, ids)
            else:
                yield step(ids).item()

    right = [*losses([RIGHT] * 4, compiled=False)]
    assert [*losses([WRONG, RIGHT, RIGHT, WRONG, RIGHT, WRONG, RIGHT], compiled=True)] == right


@pytest.mark.parametrize("seed", [ndl.manual_seed, np.random.seed])
def test_random_numbers_of_a_run_that_failed_are_drawn_again(seed, monkeypatch):
    if seed is np.random.seed:
        monkeypatch.setattr(random, "_default", random.NumpyGenerator())

    def draw(ids):
        return ndl.rand(2) + TABLE[ids, 0]

    seed(3)
    expected = [draw(RIGHT).tolist() for _ in range(2)]
    seed(3)
    compiled = ndl.jit(draw)
    first = compiled(RIGHT).tolist()
    failure(compiled, WRONG)
    assert [first, compiled(RIGHT).tolist()] == expected


def test_tensors_that_a_failed_call_left_behind_say_so():
    kept = []

    @ndl.jit
    def keep(x, ids):
        kept.append(x * 2)
        return TABLE[ids]

    failure(keep, ndl.ones(3), WRONG)
    (left,) = kept
    for use in (lambda: left + 1, left.numpy, lambda: str(left), lambda: left.sum().item()):
        with pytest.raises(TypeError, match="was made while a function was traced, and has no"):
            use()
    with pytest.raises(ndl.TraceError, match=r"(?s)kept by a call that failed.*\n.*left \+ x"):
        ndl.jit(lambda x: left + x)(ndl.ones(3))
    assert keep(ndl.ones(3), RIGHT).shape == (2, 3) and kept[1].tolist() == [2.0] * 3


def test_the_state_of_numpys_generator_is_noted_only_if_a_call_may_fail(monkeypatch):
    monkeypatch.setattr(random, "_default", random.NumpyGenerator())
    safe, unsafe = ndl.jit(lambda: ndl.rand(2)), ndl.jit(lambda ids: ndl.rand(2) + TABLE[ids, 0])
    safe()
    unsafe(RIGHT)
    assert safe.program.binding.host_states == []
    assert len(unsafe.program.binding.host_states) == 1


def test_gradients_that_add_up_are_not_changed_by_a_failure():
    w = ndl.ones(3, requires_grad=True)
    ndl.optim.SGD([w], lr=0.1).zero_grad()  # from now on, gradients add up
    w.grad = ndl.zeros(3)

    @ndl.jit
    def add(ids):
        (w * 2.0).sum().backward(create_graph=False)
        return TABLE[ids]

    place = id(w.grad.cached_data)
    add(RIGHT)
    assert id(w.grad.cached_data) == place  # the sum was put there at the end
    failure(add, WRONG)
    assert w.grad.tolist() == [2.0] * 3
    add(RIGHT)
    assert w.grad.tolist() == [4.0] * 3


@pytest.mark.parametrize("when", ["in the run", "in the trace"])
def test_an_optimizer_survives_a_failed_call_in_which_its_state_changed(when):
    # Without a gradient of `late`, the count of steps splits: it is a new tensor, which the failed
    # call never fills.
    early, late = nn.Parameter(ndl.ones(3)), nn.Parameter(ndl.ones(3))
    optimizer = ndl.optim.Adam([early, late], lr=0.1)

    @ndl.jit
    def step(ids, both, wrong=False):
        optimizer.zero_grad()
        picked = (early * late if both else early)[ids]
        picked.sum().backward()
        optimizer.step()
        if wrong:
            raise IndexError("wrong")
        return picked

    ids = ndl.tensor([0, 1])
    step(ids, True)
    before = optimizer.state_dict()["state"]
    failure(step, *((ndl.tensor([0, 7]), False) if when == "in the run" else (ids, False, True)))
    after = optimizer.state_dict()["state"]
    for i, values in before.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value.numpy(), after[i][name].numpy())
    step(ids, True)
    step(ids, False)
    counts = [state["step"].item() for state in optimizer.state_dict()["state"].values()]
    assert counts == [3, 2]
