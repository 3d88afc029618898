"""DataLoader: batches of a dataset as tensors, in order or shuffled, now or ahead of time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import config
from ..autograd import Tensor
from ..dtype import dtype_of
from ..init import tensor
from .dataset import Dataset, IterableDataset, collate

Array = np.ndarray[Any, Any]


class RandomSampler:
    """A new order for every epoch, from a seed of its own: it draws nothing from NumPy's state."""

    def __init__(self, length: int, seed: int = 0):
        self.length = length
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.length)
        self.epoch += 1
        return iter(order.tolist())


@dataclass
class _Pass:
    """One way through a dataset: the items in their order (None: a stream), and batches given."""

    order: Array | None
    position: int = 0


class DataLoader:
    """Batches of a dataset: sequences of tensors without gradient.

    shuffle       draw np.random.permutation(n) at the start of each pass (the course's rule)
    sampler       indices to use instead: RandomSampler(n, seed), or any iterable of numbers
    drop_last     leave out a short last batch
    collate       make a batch from a list of items, instead of stacking them; also collate_fn
    prefetch      how many batches a background thread reads ahead; transforms and their random
                  draws still happen when a batch is asked for, in the same order as without
    device        where the tensors go
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        sampler: Iterable[int] | None = None,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        prefetch: int = 0,
        device: Any = None,
    ):
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"[DataLoader] expected batch_size >= 1, got {batch_size!r}.")
        if shuffle and sampler is not None:
            raise ValueError("[DataLoader] expected shuffle or a sampler, got both.")
        if (shuffle or sampler is not None) and isinstance(dataset, IterableDataset):
            raise ValueError("[DataLoader] shuffle and sampler need numbered items, got a stream.")
        if collate is not None and collate_fn is not None:
            raise TypeError("[DataLoader] give one of collate and collate_fn, got both.")
        if prefetch < 0:
            raise ValueError(f"[DataLoader] expected prefetch >= 0, got {prefetch}.")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.sampler = sampler
        self.drop_last = drop_last
        self.collate = collate or collate_fn
        self.prefetch = prefetch
        self.device = device
        self._pass: _Pass | None = None  # the one that began last, or that was loaded
        self._resume = False

    def __len__(self) -> int:
        n = len(self.sampler) if hasattr(self.sampler, "__len__") else len(self.dataset)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        is_stream = isinstance(self.dataset, IterableDataset)
        if self._pass is None or not self._resume:
            self._pass = _Pass(None if is_stream else self._draw_order())
        self._resume = False
        return self._run(self._pass, self._stream if is_stream else self._batches)

    def _run(self, current: _Pass, batches: Callable[[_Pass], Iterator[Any]]) -> Iterator[Any]:
        for raw in batches(current):
            batch = self._to_tensors(raw)
            current.position += 1
            yield batch
        if self._pass is current:
            self._pass = None  # between passes

    def _draw_order(self) -> Array:
        if self.sampler is not None:
            return np.fromiter(self.sampler, np.int64)
        n = len(self.dataset)
        return np.random.permutation(n) if self.shuffle else np.arange(n)

    def _batches(self, current: _Pass) -> Iterator[Any]:
        size, order = self.batch_size, current.order
        assert order is not None
        whole = len(order) - len(order) % size if self.drop_last else len(order)
        parts = [order[i : i + size] for i in range(current.position * size, whole, size)]
        fetched = map(self._fetch, parts)
        return map(self._finish, _ahead(fetched, self.prefetch) if self.prefetch else fetched)

    def _fetch(self, indices: Array) -> Any:
        return self.dataset.fetch(indices) if self._by_batch else indices

    def _finish(self, raw: Any) -> Any:
        if self._by_batch:
            return self.dataset.finish(raw)
        items = [self.dataset[int(i)] for i in raw]
        return (self.collate or collate)(items)

    @property
    def _by_batch(self) -> bool:
        return self.collate is None and isinstance(self.dataset, Dataset)

    def _stream(self, current: _Pass) -> Iterator[Any]:
        items: list[Any] = []
        source = islice(self.dataset, current.position * self.batch_size, None)
        for item in _ahead(source, self.prefetch * self.batch_size) if self.prefetch else source:
            items.append(item)
            if len(items) == self.batch_size:
                yield (self.collate or collate)(items)
                items = []
        if items and not self.drop_last:
            yield (self.collate or collate)(items)

    def _to_tensors(self, batch: Any) -> Any:
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
        """Where the current pass stands: enough to go on with the very next batch.

        Between passes there is no order; the next pass draws its own."""
        current = self._pass or _Pass(None)
        order = None if current.order is None else current.order.tolist()
        epoch = getattr(self.sampler, "epoch", None)  # of a RandomSampler
        return {"order": order, "position": current.position, "epoch": epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass goes on from a saved position, in the saved order."""
        order = None if state["order"] is None else np.asarray(state["order"], np.int64)
        self._pass = _Pass(order, int(state["position"]))
        self._resume = order is not None or isinstance(self.dataset, IterableDataset)
        if isinstance(self.sampler, RandomSampler) and state["epoch"] is not None:
            self.sampler.epoch = int(state["epoch"])


class _Failed:
    """An error of the background thread, on its way to the consumer."""

    def __init__(self, error: BaseException):
        self.error = error


def _ahead(source: Iterator[Any], depth: int) -> Iterator[Any]:
    """The same items, read by a thread that stays at most `depth` ahead."""
    done = object()
    stop = threading.Event()
    items: queue.Queue[Any] = queue.Queue(maxsize=depth)

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                return items.put(item, timeout=0.1)
            except queue.Full:
                continue

    def read() -> None:
        try:
            for item in source:
                put(item)
                if stop.is_set():
                    return
            put(done)
        except BaseException as error:
            put(_Failed(error))

    threading.Thread(target=read, name="needle-prefetch", daemon=True).start()
    try:
        while (item := items.get()) is not done:
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        stop.set()
