"""DataLoader: batches of a dataset, loaded here or by worker processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from .collate import default_collate as default_collate, default_convert as default_convert
from .dataset import IterableDataset
from .sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    draw_seed,
)
from .worker import END, Worker, WorkerInfo, get_worker_info as get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


class _Endless(Sampler[None]):
    """For streams, which have their own order."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Batches of a dataset."""

    _multiprocessing_context: Any = None

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
        generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let "
                "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if not in_order and num_workers:
            raise NotImplementedError("[torch.utils.data.DataLoader] in_order=False is missing.")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._is_stream = isinstance(dataset, IterableDataset)
        self._check(shuffle, sampler, batch_sampler, batch_size, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            if self._is_stream:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if batch_sampler is not None else default_convert
        self.collate_fn = collate_fn
        self._workers: list[Worker] | None = None

    def _check(
        self, shuffle: Any, sampler: Any, batch_sampler: Any, batch_size: Any, drop_last: bool
    ) -> None:
        if self._is_stream:
            for name, given in (
                ("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler),
            ):  # fmt: skip
                if given not in (None, False):
                    raise ValueError(
                        "DataLoader with IterableDataset: expected unspecified "
                        f"{name} option, but got {name}={given}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last
        ):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and batch_sampler is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """What gives the order of each batch, or of each item."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if self._is_stream:
            length = len(self.dataset)
            if self.batch_size is None:
                return length
            full, rest = divmod(length, self.batch_size)
            return full + (1 if rest and not self.drop_last else 0)
        return len(self._index_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=2,
            )
        orders = iter(self._index_sampler)
        seed = draw_seed(self.generator)
        if self.num_workers == 0:
            return _Batches(self._here(orders))
        return _Batches(self._by_workers(orders, seed))

    # Loading ------------------------------------------------------------------------------------

    def _fetch(self) -> Callable[[Any], Any]:
        """A function from an order to a batch; END when a stream has no more."""
        dataset, collate, is_batch = self.dataset, self.collate_fn, self.batch_sampler is not None
        if not self._is_stream:

            def by_index(order: Any) -> Any:
                if not is_batch:
                    return collate(dataset[order])
                if callable(getattr(dataset, "__getitems__", None)):
                    return collate(dataset.__getitems__(order))
                return collate([dataset[i] for i in order])

            return by_index
        stream, drop_last = iter(dataset), self.drop_last

        def in_order(order: Any) -> Any:
            if not is_batch:
                item = next(stream, END)
                return item if item is END else collate(item)
            items = list(islice(stream, len(order)))
            if not items or (drop_last and len(items) < len(order)):
                return END
            return collate(items)

        return in_order

    def _here(self, orders: Iterator[Any]) -> Iterator[Any]:
        load = self._fetch()
        for order in orders:
            batch = load(order)
            if batch is END:
                return
            yield batch

    def _start(self, seed: int) -> list[Worker]:
        n, init, context = self.num_workers, self.worker_init_fn, self.multiprocessing_context
        infos = [WorkerInfo(i, n, seed + i, self.dataset) for i in range(n)]
        return [Worker(info, self._fetch, init, context) for info in infos]

    def _by_workers(self, orders: Iterator[Any], seed: int) -> Iterator[Any]:
        """Batches in order; each worker has prefetch_factor orders ahead."""
        workers = self._workers or self._start(seed)
        keeps = self.persistent_workers and not self._is_stream
        self._workers = workers if keeps else None
        asked: list[Worker] = []
        live = list(workers)
        ahead = (self.prefetch_factor or 1) * len(workers)
        turn = 0

        def ask() -> None:
            nonlocal turn
            if live and (order := next(orders, END)) is not END:
                worker = live[turn % len(live)]
                turn += 1
                worker.ask(order)
                asked.append(worker)

        try:
            for _ in range(ahead):
                ask()
            while asked:
                worker = asked.pop(0)
                batch = worker.take(self.timeout)
                if isinstance(batch, str) and batch == END and self._is_stream:
                    if worker in live:
                        turn = live.index(worker) if turn else 0
                        live.remove(worker)
                else:
                    ask()
                    yield batch
        finally:
            if not keeps:
                for worker in workers:
                    worker.stop()
            elif asked:  # a pass that was left early: its batches are not for the next one
                for worker in asked:
                    worker.take(self.timeout)


class _Batches(Iterator[Any]):
    """The batches of one pass."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __next__(self) -> Any:
        return next(self._batches)


_BaseDataLoaderIter = _Batches
