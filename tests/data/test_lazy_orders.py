"""Orders are drawn as they are needed, however long they are; and what a pass must not swallow."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import needle as ndl
from needle.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    NDArrayDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    order as orders,
)

HUGE = 10**10
MODES = [{}, {"num_workers": 2}, {"num_workers": 1, "prefetch_factor": 4}]


class Numbers(Dataset):
    """Item i is i, one by one."""

    def __init__(self, n: int, stops_at: int | None = None):
        super().__init__()
        self.n, self.stops_at = n, stops_at

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i):
        if i == self.stops_at:
            return next(iter(()))  # as in a reader of files that has come to its end
        return i


def first(loader, count):
    return [batch.tolist() for batch in itertools.islice(loader, count)]


def test_samplers_of_any_length_draw_as_they_are_asked():
    np.random.seed(0)
    tracemalloc.start()
    for sampler in (
        RandomSampler(range(5), replacement=True, num_samples=HUGE),
        RandomSampler(5, 3, replacement=True, num_samples=HUGE),
        RandomSampler(range(5), replacement=True, num_samples=HUGE, generator=ndl.Generator(1)),
        WeightedRandomSampler([1.0, 2.0, 0.0, 1.0], HUGE),
        SequentialSampler(range(HUGE)),
        BatchSampler(SequentialSampler(range(HUGE)), 2),
    ):
        assert len(sampler) == HUGE // (2 if isinstance(sampler, BatchSampler) else 1)
        assert len(list(itertools.islice(sampler, 100))) == 100
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.parametrize("options", MODES)
def test_loaders_of_any_length(options):
    assert first(DataLoader(Numbers(HUGE), 3, **options), 2) == [[0, 1, 2], [3, 4, 5]]
    assert first(DataLoader(Numbers(9), 2, sampler=itertools.count(4), **options), 2) == [
        [4, 5], [6, 7],
    ]  # fmt: skip
    endless = ([i, i + 1] for i in itertools.count())
    loader = DataLoader(Numbers(9), batch_sampler=endless, **options)
    assert first(loader, 2) == [[0, 1], [1, 2]]
    some = RandomSampler(range(9), replacement=True, num_samples=HUGE)
    assert all(
        0 <= i < 9 for batch in first(DataLoader(Numbers(9), 4, sampler=some), 3) for i in batch
    )


def test_blocks_draw_what_one_call_draws(monkeypatch):
    """The numbers after np.random.seed do not depend on how many are drawn at once."""
    made = []
    for block in (1 << 16, 7):
        monkeypatch.setattr("needle.data.sampler.BLOCK", block)
        np.random.seed(5)
        made.append(
            [
                list(RandomSampler(range(50), replacement=True, num_samples=100)),
                list(WeightedRandomSampler(range(1, 9), 40)),
                list(RandomSampler(50, 2, replacement=True, num_samples=30)),
                list(
                    RandomSampler(
                        range(9), replacement=True, num_samples=20, generator=ndl.Generator(2)
                    )
                ),
            ]
        )
    assert made[0] == made[1]
    np.random.seed(5)
    assert made[0][0] == (np.random.rand(100) * 50).astype(int).tolist()


def test_a_sampler_without_a_length():
    loader = DataLoader(Numbers(100), 4, sampler=(i for i in range(10)))
    with pytest.raises(TypeError, match="has no len"):
        len(loader)  # not that of the dataset
    assert first(loader, 9) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


class Alternating(Sampler):
    """Draws from NumPy's generator for each number, as PyTorch's users write samplers."""

    def __iter__(self):
        for _ in range(12):
            yield int(np.random.randint(9))


@pytest.mark.parametrize("options", [*MODES, {"prefetch": 3}])
@pytest.mark.parametrize(
    "how",
    [
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 4, "sampler": Alternating()},
        {"batch_size": 4, "sampler": RandomSampler(30, 3)},
        {"batch_size": 5, "sampler": RandomSampler(range(30), replacement=True, num_samples=22)},
        {"batch_sampler": BatchSampler(Alternating(), 5)},
    ],
)
@pytest.mark.parametrize("given", [0, 1, 2])
def test_a_pass_continues_from_a_saved_position(options, how, given):
    data = NDArrayDataset(np.arange(30)) if "prefetch" in options else Numbers(30)
    np.random.seed(1)
    loader = DataLoader(data, **how, **options)
    batches = iter(loader)
    for _ in range(given):
        next(batches)
    state = loader.state_dict()
    assert state["position"] == given
    other = DataLoader(data, **how, **options)
    other.load_state_dict(state)

    def numbers(rest):
        found = [batch if isinstance(batch, ndl.Tensor) else batch[0] for batch in rest]
        return [batch.tolist() for batch in found]

    left, continued = numbers(batches), numbers(other)
    assert left and continued == left


def test_a_state_of_an_earlier_version():
    """Its order is that of the whole pass."""
    loader = DataLoader(Numbers(6), 2)
    loader.load_state_dict({"order": [5, 4, 3, 2, 1, 0], "position": 1, "epoch": None})
    assert first(loader, 9) == [[3, 2], [1, 0]]
    loader = DataLoader(Numbers(6), batch_sampler=[])
    loader.load_state_dict({"order": [[5], [4, 3], [2]], "position": 2, "epoch": None})
    assert first(loader, 9) == [[2]]


def test_an_order_without_an_end_is_not_saved(monkeypatch):
    monkeypatch.setattr(orders, "MOST_SAVED", 1000)
    loader = DataLoader(Numbers(9), 2, sampler=itertools.cycle(range(9)))
    batches = iter(loader)
    next(batches)
    with pytest.raises(ValueError, match=r"\[DataLoader\] expected at most 1000 items left"):
        loader.state_dict()
    assert next(batches).tolist() == [2, 3]  # nothing was lost
    whole = DataLoader(Numbers(HUGE), 2)
    next(iter(whole))
    assert whole.state_dict()["order"] == "sequential"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": 1}, "DataLoader expected a state with order, position, epoch, got a"),
        (None, "DataLoader expected a dict of its state, got NoneType"),
        ({"order": None, "position": "x", "epoch": None}, "'position' to be a whole number"),
        ({"order": [1], "position": -1, "epoch": None}, "'position' to be a whole number"),
        ({"order": "abc", "position": 0, "epoch": None}, "'order' to be a list of whole numbers"),
        ({"order": [1.5], "position": 0, "epoch": None}, "'order' to be a list of whole numbers"),
        ({"order": [[1], [-2]], "position": 0, "epoch": None}, "'order' to be a list of whole"),
        ({"order": [99], "position": 0, "epoch": None}, "order of its 9 items, got one with item"),
        ({"order": [1], "position": 0, "epoch": "one"}, "'epoch' to be a whole number"),
    ],
)  # fmt: skip
def test_foreign_states(state, words):
    loader = DataLoader(Numbers(9), 5)
    with pytest.raises((TypeError, ValueError), match=words):
        loader.load_state_dict(state)
    assert first(loader, 9) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


# StopIteration -----------------------------------------------------------------------------------


class TwoSteps(Numbers):
    def __init__(self, where: str):
        super().__init__(6)
        self.where = where

    def fetch(self, indices):
        return next(iter(())) if self.where == "fetch" and 2 in indices else indices

    def finish(self, raw):
        return next(iter(())) if self.where == "finish" and 2 in raw else raw


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def stop(items):
    return next(iter(())) if 2 in items else np.asarray(items)


STOPS = [
    (lambda: Numbers(6, stops_at=2), {}, r"dataset\[2\]"),
    (lambda: TwoSteps("fetch"), {}, "the dataset's fetch"),
    (lambda: TwoSteps("finish"), {}, "the dataset's finish"),
    (lambda: Numbers(6), {"collate_fn": stop}, "the collate function"),
    (lambda: Stream(), {"collate_fn": stop}, "the collate function"),
]


@pytest.mark.parametrize(("dataset", "options", "told"), STOPS)
@pytest.mark.parametrize("mode", [*MODES, {"prefetch": 2}])
def test_stop_iteration_does_not_end_a_pass(dataset, options, told, mode):
    batches = iter(DataLoader(dataset(), 2, **options, **mode))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=rf"\[DataLoader\] {told} raised StopIteration, which"):
        list(batches)


def test_stop_iteration_in_worker_init_fn():
    loader = DataLoader(Numbers(6), 2, num_workers=1, worker_init_fn=lambda _: next(iter(())))
    with pytest.raises(RuntimeError, match=r"\[DataLoader\] worker_init_fn raised StopIteration"):
        list(loader)


def test_a_stream_that_ends_ends():
    assert [batch.tolist() for batch in DataLoader(Stream(), 4)] == [[0, 1, 2, 3], [4, 5]]


# Samplers' arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda n: RandomSampler(range(3), num_samples=n),
            ValueError,
            "a whole number >= 1 as num",
        ),
        (lambda n: WeightedRandomSampler([1, 2], n), ValueError, "a whole number >= 1 as num_sam"),
        (lambda n: BatchSampler(range(3), n), ValueError, "a whole number >= 1 as batch_size"),
        (lambda n: DataLoader(range(3), n), ValueError, "expected batch_size >= 1"),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_numbers_of_samples(make, error, words, value):
    with pytest.raises(error, match=words):
        make(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: RandomSampler(range(3), replacement=c),
        lambda c: WeightedRandomSampler([1, 2], 2, c),
        lambda c: BatchSampler(range(3), 2, c),
    ],
)
@pytest.mark.parametrize("value", [1, None, "False"])
def test_choices(make, value):
    with pytest.raises(TypeError, match="expected True or False as"):
        make(value)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: DataLoader(range(9), sampler=[1.5]), TypeError, "whole numbers of a sampler"),
        (lambda: DataLoader(range(9), sampler=["1"]), TypeError, "whole numbers of a sampler"),
        (lambda: DataLoader(range(9), batch_sampler=[[0.5]]), TypeError, "whole numbers of a samp"),
        (lambda: DataLoader(Subset(range(9), [1.5])), TypeError, r"\[Subset\] expected whole numb"),
        (lambda: DataLoader(Subset(range(9), [True])), TypeError, r"\[Subset\] expected whole num"),
        (lambda: DataLoader(range(9), shuffle="False"), TypeError, "True or False as shuffle"),
        (lambda: DataLoader(range(9), shuffle=2), TypeError, "True or False as shuffle, got 2"),
        (lambda: DataLoader(range(9), drop_last="no"), TypeError, "True or False as drop_last"),
        (lambda: DataLoader(range(9), prefetch=1.5), ValueError, "expected prefetch >= 0, got 1.5"),
        (lambda: DataLoader(range(9), num_workers=True), ValueError, "expected num_workers >= 0"),
        (
            lambda: DataLoader(range(9), num_workers=1, prefetch_factor=1.5),
            ValueError,
            "expected prefetch_factor >= 1, got 1.5",
        ),
    ],
)
def test_other_arguments(make, error, words):
    """A fraction was cut to a whole number, and "False" is true."""
    with pytest.raises(error, match=words):
        list(make())


def test_numbers_of_other_kinds():
    for numbers in ([np.int64(3), 1], ndl.tensor([3, 1]), np.array([3, 1], np.uint8)):
        assert first(DataLoader(Numbers(9), 2, sampler=numbers), 3) == [[3, 1]]


def test_no_argument_of_a_random_sampler_is_ignored():
    assert len(list(RandomSampler(5, replacement=True, num_samples=10))) == 10
    assert list(RandomSampler(range(9), 4)) == list(RandomSampler(9, 4))
    with pytest.raises(TypeError, match="give replacement= by name"):
        RandomSampler(range(5), True)  # PyTorch's second argument
    with pytest.raises(ValueError, match="expected a seed or a generator, got both"):
        RandomSampler(5, generator=ndl.Generator(1))
    with pytest.raises(ValueError, match="expected items to draw from, got none"):
        RandomSampler([], replacement=True, num_samples=3)
    assert list(RandomSampler([])) == []


def test_weights_that_round():
    """The last weights are 0, and are never drawn."""

    class Ones:
        def uniform(self, shape, low, high, dtype):
            return ndl.full(shape, 1.0 - 2.0**-53, dtype=dtype)

    weights = [0.1] * 10 + [0.0] * 3
    drawn = set(WeightedRandomSampler(weights, 5, generator=Ones()))
    assert drawn == {9}


def test_a_range_with_steps_is_an_order():
    loader = DataLoader(NDArrayDataset(np.arange(20)), batch_size=3, sampler=range(1, 20, 4))
    assert [batch[0].numpy().tolist() for batch in loader] == [[1, 5, 9], [13, 17]]
