"""DataLoader: batches of a dataset as tensors, in order or shuffled, now or ahead of time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice, repeat, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config
from ..autograd import Tensor
from ..dtype import dtype_of
from ..init import tensor
from ..ndarray.random import RandomSource
from ..system import saved
from .dataset import Dataset, IterableDataset, collate, permutation
from .order import SEQUENTIAL, Array, Pass, cut, numbers_of
from .sampler import RandomSampler
from .workers import Job, Workers, in_order, stopped

if TYPE_CHECKING:
    from ..types import DeviceLike
    from .dataset import Rows

__all__ = ["DataLoader"]


class DataLoader:
    """Batches of a dataset: sequences of tensors without gradient.

    shuffle          draw np.random.permutation(n) at the start of each pass (the course's rule)
    generator        a needle.Generator that draws this permutation instead
    sampler          indices to use instead: RandomSampler(n, seed), or any iterable of numbers,
                     which are taken as they are needed: it may have no end
    batch_sampler    lists of indices, one for each batch, instead of all of these
    drop_last        leave out a short last batch
    collate          make a batch from a list of items, instead of stacking them; also collate_fn
    device           where the tensors go
    num_workers      how many threads load batches in the background, in the same order
    prefetch_factor  how many batches per worker they are ahead: 2 if not given
    worker_init_fn   called in each thread with its number, before it loads anything
    persistent_workers  keep the threads until the next pass, and do not init them again
    pin_memory       for PyTorch's scripts, and changes nothing
    prefetch         how many batches one thread fetches ahead, without workers

    Workers call `dataset[i]`, several at the same time, and the collate function. If these draw
    random numbers from a generator that they share (NumPy's global one), which of them gets which
    number is a matter of time. Datasets that load in two steps (all in this package: see `Dataset`)
    draw in the consumer's thread: with a seed they give the same batches as without workers. A
    stream is read by one thread, whatever the number of workers.
    """

    def __init__(
        self,
        dataset: Rows | IterableDataset,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Iterable[int]] | None = None,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        prefetch: int = 0,
        device: DeviceLike | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        worker_init_fn: Callable[[int], Any] | None = None,
        pin_memory: bool = False,
        generator: RandomSource | None = None,
    ):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"[DataLoader] expected batch_size >= 1, got {batch_size!r}.")
        for name, choice in (("shuffle", shuffle), ("drop_last", drop_last)):
            if isinstance(choice, str) or choice not in (None, False, True):  # "False" is true
                raise TypeError(f"[DataLoader] expected True or False as {name}, got {choice!r}.")
        if shuffle and sampler is not None:
            raise ValueError("[DataLoader] expected shuffle or a sampler, got both.")
        if batch_sampler is not None and (batch_size, shuffle, sampler, drop_last) != (
            1, False, None, False,
        ):  # fmt: skip
            raise ValueError(
                "[DataLoader] a batch_sampler takes the place of batch_size, shuffle, sampler and "
                "drop_last; leave these out."
            )
        is_ordered = shuffle or sampler is not None or batch_sampler is not None
        if is_ordered and isinstance(dataset, IterableDataset):
            raise ValueError("[DataLoader] shuffle and sampler need numbered items, got a stream.")
        if collate is not None and collate_fn is not None:
            raise TypeError("[DataLoader] give one of collate and collate_fn, got both.")
        if not isinstance(prefetch, int) or prefetch < 0:
            raise ValueError(f"[DataLoader] expected prefetch >= 0, got {prefetch!r}.")
        _check_workers(num_workers, prefetch_factor, persistent_workers, prefetch)
        self.dataset: Any = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.collate = collate or collate_fn
        self.prefetch = prefetch
        self.device = device
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor or 2
        self.persistent_workers = persistent_workers
        self.worker_init_fn = worker_init_fn
        self.pin_memory = pin_memory
        self._workers: Workers | None = None  # persistent ones
        self._pass: Pass | None = None  # the one that began last, or that was loaded
        self._resume = False

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        n = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        is_stream = isinstance(self.dataset, IterableDataset)
        if self._pass is None or not self._resume:
            self._pass = Pass(None) if is_stream else self._begin()
        self._resume = False
        return self._run(self._pass, self._stream if is_stream else self._batches)

    def _run(self, current: Pass, batches: Callable[[Pass], Iterator[object]]) -> Iterator[object]:
        for raw in batches(current):
            batch = self._to_tensors(raw)
            current.gave()
            yield batch
        if self._pass is current:
            self._pass = None  # between passes

    def _begin(self) -> Pass:
        if self.batch_sampler is not None:
            drawn = iter(self.batch_sampler)
            return Pass(map(numbers_of, drawn))
        order: Any = self.sampler
        if order is None:
            n = len(self.dataset)
            order = permutation(n, self.generator) if self.shuffle else range(n)
        is_sequential = self.sampler is None and not self.shuffle
        return Pass(cut(order, self.batch_size, self.drop_last), is_sequential=is_sequential)

    def _batches(self, current: Pass) -> Iterator[object]:
        dataset, parts = self.dataset, current.draw()
        if self.collate is None and isinstance(dataset, Dataset) and dataset.in_two_steps:
            if not self.num_workers and not self.prefetch:
                fetched: Iterator[object] = map(self._fetch, parts)
            else:
                fetched = self._in_background(partial(self._fetch, p) for p in parts)
            return map(self._finish, fetched)
        if not self.num_workers:
            return map(self._load, parts)
        return self._in_background(partial(self._load, part) for part in parts)

    def _fetch(self, indices: Array, job: Job | None = None) -> object:
        try:
            return self.dataset.fetch(indices)
        except StopIteration as error:
            raise stopped("the dataset's fetch") from error

    def _finish(self, raw: object) -> object:
        try:
            return self.dataset.finish(raw)
        except StopIteration as error:
            raise stopped("the dataset's finish") from error

    def _load(self, indices: Array, job: Job | None = None) -> object:
        """The items one by one, collated; None if the job was cancelled on the way."""
        items = []
        for i in map(int, indices):
            if job is not None and job.cancelled:
                return None
            try:
                items.append(self.dataset[i])
            except StopIteration as error:
                raise stopped(f"dataset[{i}]") from error
        return self._collated(items)

    def _collated(self, items: list[object]) -> object:
        try:
            return (self.collate or collate)(items)
        except StopIteration as error:
            raise stopped("the collate function") from error

    def _in_background(self, calls: Iterable[Callable[[Job], object]]) -> Iterator[object]:
        if not self.num_workers:
            return in_order(calls, Workers(1), self.prefetch)
        depth = self.num_workers * self.prefetch_factor
        if not self.persistent_workers:
            return in_order(calls, Workers(self.num_workers, self.worker_init_fn), depth)
        if self._workers is None or self._workers.process != os.getpid():
            self._workers = Workers(self.num_workers, self.worker_init_fn)
        return in_order(calls, self._workers, depth, close=False)

    def _stream(self, current: Pass) -> Iterator[object]:
        source: Iterator[object] = islice(self.dataset, current.position * self.batch_size, None)
        if self.prefetch:
            source = _read_ahead(source, Workers(1), self.prefetch * self.batch_size)
        batches = self._cut(source)
        if self.num_workers:  # a stream has one reader
            workers = Workers(1, self.worker_init_fn)
            return _read_ahead(batches, workers, self.num_workers * self.prefetch_factor)
        return batches

    def _cut(self, source: Iterator[object]) -> Iterator[object]:
        items: list[object] = []
        for item in source:
            items.append(item)
            if len(items) == self.batch_size:
                yield self._collated(items)
                items = []
        if items and not self.drop_last:
            yield self._collated(items)

    def _to_tensors(self, batch: object) -> object:
        if isinstance(batch, dict):
            return {key: self._to_tensors(value) for key, value in batch.items()}
        if isinstance(batch, (tuple, list)):
            return tuple(self._to_tensors(value) for value in batch)
        if isinstance(batch, Tensor):
            constant = batch.detach()
            return constant if self.device is None else constant.to(self.device)
        if batch is None or isinstance(batch, str):
            return batch
        array = np.asarray(batch)
        if config.BACKEND == "np":
            return Tensor(array, requires_grad=False)
        # float64 data feeds float32 parameters; labels keep their integers.
        dtype = "float32" if array.dtype == np.float64 else dtype_of(array.dtype)
        return tensor(array, dtype=dtype, device=self.device)

    # Position -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position of the current pass: enough to continue with the next batch.

        Between passes there is no order; the next pass draws its own. The rest of an order that a
        sampler draws is drawn now."""
        current = self._pass or Pass(None)
        order: Any = None
        if current.has_order and not current.is_sequential:
            left = [part.tolist() for part in current.remaining()]
            order = left if self.batch_sampler is not None else [i for part in left for i in part]
        elif current.has_order:
            order = SEQUENTIAL
        epoch = getattr(self.sampler, "epoch", None)  # of a RandomSampler
        position = current.position
        return {"order": order, "start": position, "position": position, "epoch": epoch}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Let the next pass continue from a saved position, in the saved order."""
        kinds = {"order": _order, "position": saved.whole, "epoch": _epoch}
        order, position, epoch = saved.entries("DataLoader", state, kinds)
        (start,) = saved.entries("DataLoader", {"start": 0, **state}, {"start": saved.whole})
        is_stream = isinstance(self.dataset, IterableDataset)
        if isinstance(order, list) and not is_stream:
            _check_order(order, len(self.dataset))
        is_sequential = order == SEQUENTIAL
        batches: Any = None
        if is_sequential:
            left = range(position * self.batch_size, len(self.dataset))
            batches, start = cut(left, self.batch_size, self.drop_last), position
        elif order is not None and order and isinstance(order[0], list):
            batches = (np.asarray(part, np.int64) for part in order)
        elif order is not None:
            batches = cut(np.asarray(order, np.int64), self.batch_size, self.drop_last)
        if batches is not None:
            batches = islice(batches, max(position - start, 0), None)
        self._pass = Pass(batches, position, is_sequential)
        self._resume = batches is not None or is_stream
        if isinstance(self.sampler, RandomSampler) and epoch is not None:
            self.sampler.epoch = epoch


def _order(value: object) -> object:
    """a list of whole numbers, or of lists of them"""
    if value is None or value == SEQUENTIAL:
        return value
    for part in saved.items(value):
        for number in part if isinstance(part, list) else (part,):
            saved.whole(number)
    return value


def _epoch(value: object) -> int | None:
    """a whole number >= 0"""
    return None if value is None else saved.whole(value)


def _check_order(order: list[int] | list[list[int]], size: int) -> None:
    highest = max(
        (i for part in order for i in (part if isinstance(part, list) else (part,))), default=-1
    )
    if highest >= size:
        raise ValueError(
            f"[load_state_dict] DataLoader expected an order of its {size} items, got one with "
            f"item {highest}; is it another dataset's?"
        )


def _read_ahead(source: Iterator[object], workers: Workers, depth: int) -> Iterator[object]:
    """The same items, read by a pool of one thread."""
    end = object()
    return takewhile(
        lambda item: item is not end,
        in_order(repeat(lambda job: next(source, end)), workers, depth),
    )


def _check_workers(
    count: int, prefetch_factor: int | None, persistent: bool, prefetch: int
) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"[DataLoader] expected num_workers >= 0, got {count!r}.")
    ahead = 1 if prefetch_factor is None else prefetch_factor
    if not isinstance(ahead, int) or ahead < 1:
        raise ValueError(f"[DataLoader] expected prefetch_factor >= 1, got {prefetch_factor!r}.")
    if count and prefetch:
        raise ValueError("[DataLoader] expected num_workers or prefetch, got both.")
    if not count and (persistent or prefetch_factor is not None):
        name = "persistent_workers" if persistent else "prefetch_factor"
        raise ValueError(f"[DataLoader] {name} needs num_workers > 0, got 0.")
