"""Samplers: the orders in which a loader takes items.

Random ones draw from NumPy's global generator, or from the one given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ndarray.random import RandomSource
from .dataset import permutation

if TYPE_CHECKING:
    from ..types import NumpyArray, TensorLike

__all__ = [
    "Sampler", "SequentialSampler", "RandomSampler", "SubsetRandomSampler",
    "WeightedRandomSampler", "BatchSampler",
]  # fmt: skip


class Sampler:
    """Numbers of items: subclasses define `__iter__`, and `__len__` if they know it."""

    def __init__(self, data_source: object = None):
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"[{type(self).__name__}] define __iter__(self).")


class SequentialSampler(Sampler):
    """0, 1, ... of a dataset."""

    data_source: Sized

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """A new order for every epoch.

    RandomSampler(length, seed) has a seed of its own, and draws nothing from NumPy's state.
    RandomSampler(dataset) is PyTorch's: with replacement, num_samples items that may repeat, drawn
    as they are needed."""

    def __init__(
        self,
        data_source: int | Sized,
        seed: int | None = None,
        *,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: RandomSource | None = None,
    ):
        super().__init__(data_source)
        if isinstance(seed, bool):
            raise TypeError(
                "[RandomSampler] expected a seed after the dataset, got a bool; give replacement= "
                "by name."
            )
        is_length = isinstance(data_source, int)
        if generator is not None and (is_length or seed is not None):
            raise ValueError("[RandomSampler] expected a seed or a generator, got both.")
        self.length = data_source if isinstance(data_source, int) else len(data_source)
        self.seed = 0 if seed is None and is_length else seed
        self.epoch = 0
        self.replacement = _choice("RandomSampler", "replacement", replacement)
        self.num_samples = self.length if num_samples is None else num_samples
        self.generator = generator
        if num_samples is not None:
            _positive("RandomSampler", "num_samples", num_samples)
        if not replacement and self.num_samples > self.length:
            raise ValueError(
                f"[RandomSampler] expected num_samples up to {self.length}, got "
                f"{self.num_samples}; more need replacement=True."
            )
        if replacement and self.num_samples and not self.length:
            raise ValueError("[RandomSampler] expected items to draw from, got none.")

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        own = None
        if self.seed is not None:
            own = np.random.default_rng((self.seed, self.epoch))
            self.epoch += 1
        if self.replacement:
            return self._with_replacement(own)
        order = (
            permutation(self.length, self.generator)
            if own is None
            else own.permutation(self.length)
        )
        return iter(order[: self.num_samples].tolist())

    def _with_replacement(self, own: np.random.Generator | None) -> Iterator[int]:
        for even in _uniform_blocks(self.num_samples, own or self.generator):
            yield from (even * self.length).astype(np.int64).tolist()


class SubsetRandomSampler(Sampler):
    """The given items, in a new order for every epoch."""

    def __init__(self, indices: Sequence[int], generator: RandomSource | None = None):
        super().__init__()
        self.indices = indices
        self.generator = generator

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return (int(self.indices[i]) for i in permutation(len(self.indices), self.generator))


class WeightedRandomSampler(Sampler):
    """num_samples items, drawn by weights that need not sum to 1."""

    def __init__(
        self,
        weights: TensorLike,
        num_samples: int,
        replacement: bool = True,
        generator: RandomSource | None = None,
    ):
        super().__init__()
        self.weights = np.asarray(weights, np.float64)
        self.num_samples = _positive("WeightedRandomSampler", "num_samples", num_samples)
        self.replacement = _choice("WeightedRandomSampler", "replacement", replacement)
        self.generator = generator
        possible = np.count_nonzero(self.weights > 0)
        is_weight = np.isfinite(self.weights).all() and (self.weights >= 0).all()
        if not is_weight or self.weights.ndim != 1:
            raise ValueError(
                "[WeightedRandomSampler] expected a list of finite weights >= 0, got shape "
                f"{self.weights.shape}, from {self.weights.min()} to {self.weights.max()}."
            )
        if possible < (1 if replacement else num_samples):
            raise ValueError(
                f"[WeightedRandomSampler] expected {1 if replacement else num_samples} weights "
                f"above 0, got {possible}."
            )

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            return self._with_replacement()
        with np.errstate(divide="ignore"):  # the first of exponential times, at rates of weights
            times = -np.log1p(-_uniform(len(self.weights), self.generator)) / self.weights
        return iter(np.argsort(times)[: self.num_samples].tolist())

    def _with_replacement(self) -> Iterator[int]:
        ends = np.cumsum(self.weights)
        last = np.flatnonzero(self.weights)[-1]  # rounding may lead beyond it
        for even in _uniform_blocks(self.num_samples, self.generator):
            found = np.searchsorted(ends, even * ends[-1], "right")
            yield from np.minimum(found, last).tolist()


class BatchSampler(Sampler):
    """Lists of batch_size numbers from another sampler."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False):
        super().__init__()
        self.sampler = sampler
        self.batch_size = _positive("BatchSampler", "batch_size", batch_size)
        self.drop_last = _choice("BatchSampler", "drop_last", drop_last)

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for i in self.sampler:
            batch.append(i)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


# Numbers that are drawn at once: 0.5 MB of them.
BLOCK = 1 << 16


def _uniform_blocks(
    n: int, generator: RandomSource | np.random.Generator | None
) -> Iterator[NumpyArray]:
    """n numbers that are even in [0, 1), a block of them when the last one is used up."""
    for start in range(0, n, BLOCK):
        yield _uniform(min(BLOCK, n - start), generator)


def _uniform(n: int, generator: RandomSource | np.random.Generator | None) -> NumpyArray:
    """n numbers that are even in [0, 1), in float64."""
    if generator is None:
        return np.random.rand(n)
    if isinstance(generator, np.random.Generator):
        return generator.random(n)
    return np.asarray(generator.uniform((n,), 0.0, 1.0, "float64").numpy())


def _positive(sampler: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"[{sampler}] expected a whole number >= 1 as {name}, got {value!r:.60}.")
    return int(value)


def _choice(sampler: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"[{sampler}] expected True or False as {name}, got {value!r:.60}.")
    return value
