"""Lazy mode: the same values, and shapes and dtypes without computing anything."""

import numpy as np
import pytest

import needle as ndl
from needle import autograd

from .record import Arguments, results
from .records import RECORDS
from .test_forward import base_dtype


@pytest.fixture
def lazy(monkeypatch):
    monkeypatch.setattr(autograd, "LAZY_MODE", True)


def eager_results(record, call):
    args, kwargs = Arguments(record, call, base_dtype(record)).tensors()
    return results(record(*args, **kwargs))


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_lazy_equals_eager(record, monkeypatch):
    for call in record.calls:
        monkeypatch.setattr(autograd, "LAZY_MODE", False)
        expected = eager_results(record, call)
        monkeypatch.setattr(autograd, "LAZY_MODE", True)
        args, kwargs = Arguments(record, call, base_dtype(record)).tensors()
        found = results(record(*args, **kwargs))
        for ours, theirs in zip(found, expected, strict=True):
            pending = ours.cached_data is None
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, f"{record}{call}"
            if pending and not record.data_dependent:
                assert ours.cached_data is None, f"{record}{call} computed for its shape"
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), f"{record}{call}")


@pytest.mark.parametrize("record", [r for r in RECORDS if r.differentiable], ids=str)
def test_lazy_gradients_equal_eager_ones(record, monkeypatch):
    found = []
    for mode in (False, True):
        monkeypatch.setattr(autograd, "LAZY_MODE", mode)
        args, kwargs = Arguments(record, record.calls[0]).tensors(requires_grad=True)
        results(record(*args, **kwargs))[0].backward()
        sources = [x for a in args for x in (a if isinstance(a, list) else [a])]
        tensors = [x for x in sources if isinstance(x, ndl.Tensor) and x.grad is not None]
        found.append([x.grad.numpy() for x in tensors])
    assert len(found[0]) == len(found[1]) > 0
    for eager, late in zip(*found, strict=True):
        np.testing.assert_array_equal(eager, late)


def test_only_what_is_asked_for_is_computed(lazy):
    x = ndl.Tensor([1.0, 2.0])
    used, unused = x * 2 + 1, (x - 1).exp()
    assert used.cached_data is None and unused.shape == (2,)
    assert used.numpy().tolist() == [3.0, 5.0]
    assert unused.cached_data is None
