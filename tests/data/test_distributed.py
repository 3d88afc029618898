"""The items of each rank."""

import pytest

from needle.data import DataLoader, DistributedSampler


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_ranks_share_all_items(ranks: int, drop_last: bool) -> None:
    parts = [
        list(DistributedSampler(range(10), ranks, r, seed=3, drop_last=drop_last))
        for r in range(ranks)
    ]
    assert len({len(part) for part in parts}) == 1
    items = [i for part in parts for i in part]
    assert len(set(items)) == (len(items) if drop_last else 10)
    assert len(items) == (10 - 10 % ranks if drop_last else -(-10 // ranks) * ranks)


def test_epochs_have_their_orders() -> None:
    sampler = DistributedSampler(range(50), 2, 1)
    first = list(sampler)
    assert first == list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)
    assert list(DistributedSampler(range(6), 3, 1, shuffle=False)) == [1, 4]


def test_in_a_loader_without_ranks() -> None:
    loader = DataLoader(list(range(4)), 2, sampler=DistributedSampler(range(4), shuffle=False))
    assert [x.numpy().tolist() for x in loader] == [[0, 1], [2, 3]]


def test_a_rank_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="expected a rank from 0 to 1, got 2"):
        DistributedSampler(range(4), 2, 2)
