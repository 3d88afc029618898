"""Datasets: things with a length and items, or things that only flow."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..ndarray.random import RandomSource
from .files import Array

if TYPE_CHECKING:
    pass

__all__ = [
    "Dataset", "IterableDataset", "NDArrayDataset", "TensorDataset", "Subset", "ConcatDataset",
    "random_split", "collate",
]  # fmt: skip

Positions = int | slice | Sequence[int] | Array
Transform = Callable[[Any], Any]


class Rows(Protocol):
    """What has a length and items: a dataset, an array, a list."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


class Dataset:
    """Items by number. Subclasses define `__getitem__` and `__len__`.

    A loader asks for items one by one, in the background when it has workers. A dataset may also
    define how a batch is loaded in two steps: `fetch(indices)` reads, in the background when the
    loader has workers or prefetches; `finish(raw)` does what is random, always in the consumer's
    thread, so that draws stay in order.
    """

    def __init__(self, transforms: Sequence[Transform] | None = None):
        self.transforms = transforms

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(f"[{type(self).__name__}] define __getitem__(self, index).")

    def __len__(self) -> int:
        raise TypeError(f"[{type(self).__name__}] define __len__(self).")

    def apply_transforms(self, x: Any) -> Any:
        """The transforms, one after the other."""
        for transform in self.transforms or ():
            x = transform(x)
        return x

    @property
    def in_two_steps(self) -> bool:
        """Does the class, or the nearest above it that says anything, define more than items?"""
        for cls in type(self).__mro__:
            if "fetch" in vars(cls) or "finish" in vars(cls):
                return cls is not Dataset
            if "__getitem__" in vars(cls):  # also one that changes the items of another dataset
                return False
        return False

    def fetch(self, indices: Array) -> Any:
        """What a batch needs from memory or disk; nothing random."""
        return indices

    def finish(self, raw: Any) -> Any:
        """The batch itself: arrays with the batch first."""
        return collate([self[int(i)] for i in raw])


class ArrayBacked(Dataset):
    """Items are rows of arrays: slices and index arrays give whole batches at once."""

    def fetch(self, indices: Positions) -> Any:
        """The rows, untransformed."""
        raise TypeError(f"[{type(self).__name__}] define fetch(self, indices).")

    def finish(self, raw: Any) -> Any:
        return raw

    def __getitem__(self, index: Positions) -> Any:
        return self.finish(self.fetch(index))


class Images(ArrayBacked):
    """(images, labels), one or several at once; every image is transformed by itself."""

    def transformed(self, image: Array) -> Any:
        """An image after the transforms."""
        return self.apply_transforms(image)

    def finish(self, raw: tuple[Array, Array]) -> tuple[Array, Array]:
        images, labels = raw
        if not self.transforms:
            return images, labels
        if images.ndim == 3:
            return self.transformed(images), labels
        return np.stack([self.transformed(image) for image in images]), labels


class IterableDataset:
    """A stream: subclasses define `__iter__`; a loader cuts it into batches."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"[{type(self).__name__}] define __iter__(self).")


class NDArrayDataset(ArrayBacked):
    """Rows of one or more arrays: item i is (a[i], b[i], ...)."""

    def __init__(self, *arrays: Rows):
        super().__init__()
        if not arrays or any(len(a) != len(arrays[0]) for a in arrays):
            raise ValueError(
                "[NDArrayDataset] expected arrays of one length, got lengths "
                f"{[len(a) for a in arrays]}."
            )
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def fetch(self, indices: Positions) -> tuple[object, ...]:
        return tuple(a[indices] for a in self.arrays)


TensorDataset = NDArrayDataset  # the name in PyTorch


class Subset(Dataset):
    """The items of a dataset at some positions, in their order."""

    def __init__(self, dataset: Rows, indices: Sequence[int] | Array):
        super().__init__()
        self.dataset: Any = dataset
        numbers = np.asarray(indices)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise TypeError(f"[Subset] expected whole numbers, got {numbers.dtype}.")
        self.indices = numbers.astype(np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.indices[index]
        return self.dataset[chosen if chosen.ndim else int(chosen)]

    @property
    def in_two_steps(self) -> bool:
        return isinstance(self.dataset, Dataset) and self.dataset.in_two_steps

    def fetch(self, indices: Array) -> object:
        return self.dataset.fetch(self.indices[indices])

    def finish(self, raw: Any) -> Any:
        return self.dataset.finish(raw)


class ConcatDataset(Dataset):
    """The items of several datasets, one dataset after the other."""

    def __init__(self, datasets: Iterable[Rows]):
        super().__init__()
        self.datasets = list(datasets)
        self.cumulative_sizes = np.cumsum([len(d) for d in self.datasets]).tolist()
        if not self.datasets:
            raise ValueError("[ConcatDataset] expected at least one dataset, got none.")

    def __len__(self) -> int:
        return int(self.cumulative_sizes[-1])

    def __getitem__(self, index: int) -> Any:
        i = index + len(self) if index < 0 else index
        if not 0 <= i < len(self):
            raise IndexError(f"[ConcatDataset] expected one of {len(self)} items, got {index}.")
        part = bisect_right(self.cumulative_sizes, i)
        return self.datasets[part][i - (self.cumulative_sizes[part - 1] if part else 0)]


def random_split(
    dataset: Rows, lengths: Sequence[float], generator: RandomSource | None = None
) -> list[Subset]:
    """A dataset cut into parts of random items; lengths are numbers of items, or shares of 1.

    What shares leave over goes to the first parts, one each. The order is drawn from NumPy's global
    generator, or from the one given."""
    n = len(dataset)
    sizes = list(lengths)
    if any(isinstance(size, float) for size in sizes) and math.isclose(math.fsum(sizes), 1):
        sizes = [math.floor(n * share) for share in sizes]
        sizes = [size + (i < n - sum(sizes)) for i, size in enumerate(sizes)]
    if sum(sizes) != n or any(not isinstance(s, (int, np.integer)) or s < 0 for s in sizes):
        raise ValueError(
            f"[random_split] expected lengths that sum to {n}, or shares that sum to 1, got "
            f"{list(lengths)}."
        )
    ends = np.cumsum(np.asarray(sizes, np.int64))[:-1]
    return [Subset(dataset, part) for part in np.split(permutation(n, generator), ends)]


def permutation(n: int, generator: RandomSource | None = None) -> Array:
    """0 .. n-1 in random order: from NumPy's global generator, or from the one given."""
    if generator is None:
        return np.random.permutation(n)
    return np.asarray(generator.permutation(n))


def collate(items: Sequence[Any]) -> Any:
    """Items stacked field by field: tuples, lists and dicts of arrays and numbers. Text stays."""
    first = items[0]
    if isinstance(first, dict):
        return {key: collate([item[key] for item in items]) for key in first}
    if isinstance(first, (tuple, list)):
        return tuple(collate(list(field)) for field in zip(*items, strict=True))
    if isinstance(first, str):
        return tuple(items)
    try:
        return np.stack([np.asarray(item) for item in items])
    except ValueError:
        shapes = sorted({np.shape(item) for item in items})
        raise ValueError(
            f"[collate] expected items of one shape, got {shapes}; crop or pad them, or give the "
            "loader a collate function."
        ) from None
