"""Loaders give PyTorch's order for the same seed; workers give what one process gives."""

from __future__ import annotations

from typing import Any

import pytest

import needle.torch as ours

theirs = pytest.importorskip("torch")


def orders(torch: Any) -> list[Any]:
    data, found = torch.utils.data, []
    torch.manual_seed(5)
    dataset = data.TensorDataset(torch.arange(23))
    loaders = [
        data.DataLoader(dataset, batch_size=4, shuffle=True),
        data.DataLoader(dataset, batch_size=4, shuffle=True, drop_last=True),
        data.DataLoader(dataset, sampler=data.RandomSampler(dataset, True, 40), batch_size=7),
        data.DataLoader(dataset, sampler=data.SubsetRandomSampler(range(9)), batch_size=2),
        data.DataLoader(
            dataset, shuffle=True, batch_size=5, generator=torch.Generator().manual_seed(3)
        ),
        data.DataLoader(
            dataset, sampler=data.DistributedSampler(dataset, 3, 1, seed=4), batch_size=3
        ),
    ]
    for loader in loaders:
        for _ in range(2):
            found.append([batch.tolist() for (batch,) in loader])
        found.append(len(loader))
    for lengths in ([20, 3], [0.5, 0.3, 0.2]):
        found.append([subset.indices for subset in data.random_split(dataset, lengths)])
    found.append(torch.rand(2).tolist())  # as many numbers were drawn
    return found


def test_orders() -> None:
    assert orders(ours) == orders(theirs)


class Squares(ours.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 11

    def __getitem__(self, i: int) -> dict[str, Any]:
        if i == 99:
            raise ValueError("no such square")
        return {"x": ours.tensor([float(i)]), "y": i * i, "name": str(i)}


def test_workers() -> None:
    data = ours.utils.data
    for workers in (1, 2):
        plain = list(data.DataLoader(Squares(), batch_size=3))
        loaded = list(data.DataLoader(Squares(), batch_size=3, num_workers=workers))
        assert len(plain) == len(loaded) == 4
        for a, b in zip(plain, loaded, strict=True):
            assert ours.equal(a["x"], b["x"]) and ours.equal(a["y"], b["y"])
            assert a["name"] == b["name"]


def test_errors_of_workers() -> None:
    loader = ours.utils.data.DataLoader(Squares(), sampler=[0, 99], num_workers=1)
    with pytest.raises(ValueError, match="no such square"):
        list(loader)


class Stream(ours.utils.data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Any:
        info = ours.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 10, step))


def test_streams() -> None:
    data = ours.utils.data
    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=4)] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9]
    ]  # fmt: skip
    found = [b.tolist() for b in data.DataLoader(Stream(), batch_size=2, num_workers=2)]
    assert sorted(i for batch in found for i in batch) == list(range(10))


@pytest.mark.parametrize(
    "options", [{"shuffle": True, "sampler": [0]}, {"batch_size": 0}, {"num_workers": -1}]
)
def test_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ours.utils.data.DataLoader(Squares(), **options)
