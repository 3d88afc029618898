"""Runs that fail in the middle: what they say, and what they leave behind."""

import pickle
import re

import numpy as np
import pytest

import needle as ndl
from needle import nn

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
CASES = [(name, wrong) for name in USES for wrong in (99, -7)]


@pytest.mark.parametrize(("name", "wrong"), CASES + [(name, 1.5) for name in TAKE_FLOATS])
def test_an_index_out_of_range_is_told_as_in_eager_mode(name, wrong):
    use, ids = USES[name], ndl.tensor([0, wrong])
    told = str(failure(use, ids))
    for compiled in (ndl.jit(use), ndl.jit(use, fuse=False)):
        message, place = str(failure(compiled, ids)).split("\n")
        assert message == told
        assert re.search(r"test_failing.py:\d+: .*(ids|\[i\])", place)


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
