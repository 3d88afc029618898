"""Samplers, loaders that take their batches from one, and datasets joined."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
from needle.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    NDArrayDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

DATA = NDArrayDataset(np.arange(10))


class Backwards(Sampler):
    def __iter__(self):
        return iter(range(len(self.data_source) - 1, -1, -1))

    def __len__(self):
        return len(self.data_source)


def given(loader):
    return [batch[0].tolist() for batch in loader]


def test_orders():
    assert list(SequentialSampler(DATA)) == list(range(10)) and len(SequentialSampler(DATA)) == 10
    assert given(DataLoader(DATA, 4, sampler=Backwards(DATA)))[0] == [9, 8, 7, 6]
    assert sorted(RandomSampler(DATA)) == list(range(10))
    assert sorted(SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
    some = list(RandomSampler(DATA, replacement=True, num_samples=500))
    assert len(some) == 500 and set(some) == set(range(10))
    assert len(set(RandomSampler(DATA, num_samples=4))) == 4


def test_generators_repeat():
    for make in (
        lambda g: RandomSampler(DATA, generator=g),
        lambda g: RandomSampler(DATA, replacement=True, generator=g),
        lambda g: SubsetRandomSampler(range(10), generator=g),
        lambda g: WeightedRandomSampler(range(1, 11), 7, generator=g),
        lambda g: WeightedRandomSampler(range(1, 11), 7, replacement=False, generator=g),
    ):
        assert list(make(ndl.Generator(3))) == list(make(ndl.Generator(3)))


def test_weights():
    np.random.seed(0)
    drawn = np.bincount(list(WeightedRandomSampler([1, 0, 3], 8000)), minlength=3) / 8000
    np.testing.assert_allclose(drawn, [0.25, 0, 0.75], atol=0.02)
    firsts = [next(iter(WeightedRandomSampler([1, 0, 3], 2, False))) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(firsts) / 4000, [0.25, 0, 0.75], atol=0.03)
    assert sorted(WeightedRandomSampler([1, 0, 3], 2, False)) == [0, 2]
    with pytest.raises(ValueError, match=r"\[WeightedRandomSampler\] expected 3 weights above 0"):
        WeightedRandomSampler([1, 0, 3], 3, False)
    with pytest.raises(ValueError, match=r"\[WeightedRandomSampler\] expected a list of finite"):
        WeightedRandomSampler([1, -1], 1)


def test_batches():
    sampler = BatchSampler(SequentialSampler(range(7)), 3)
    assert list(sampler) == [[0, 1, 2], [3, 4, 5], [6]] and len(sampler) == 3
    assert len(BatchSampler(SequentialSampler(range(7)), 3, drop_last=True)) == 2
    ragged = [[0, 9], [1, 2, 3], [4]]
    loader = DataLoader(DATA, batch_sampler=ragged)
    assert given(loader) == ragged and len(loader) == 3
    assert given(DataLoader(DATA, batch_sampler=ragged, num_workers=2)) == ragged
    with pytest.raises(ValueError, match=r"\[DataLoader\] a batch_sampler takes the place of"):
        DataLoader(DATA, 2, batch_sampler=ragged)


def test_a_position_among_batches_is_saved():
    ragged = [[0, 9], [1, 2, 3], [4]]
    loader = DataLoader(DATA, batch_sampler=ragged)
    batches = iter(loader)
    next(batches)
    other = DataLoader(DATA, batch_sampler=[])
    other.load_state_dict(loader.state_dict())
    assert given(other) == ragged[1:]


def test_concatenation():
    both = ConcatDataset([DATA, NDArrayDataset(np.arange(100, 103))])
    assert len(both) == 13 and both[-1][0] == 102 and both[10][0] == 100 and both[9][0] == 9
    assert given(DataLoader(both, 6))[-1] == [102]
    with pytest.raises(IndexError, match=r"\[ConcatDataset\] expected one of 13 items, got 13"):
        both[13]
    with pytest.raises(ValueError, match=r"\[ConcatDataset\] expected at least one dataset"):
        ConcatDataset([])
