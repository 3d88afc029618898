"""Datasets: things with a length and items, or things that only flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Transform = Callable[[Any], Any]


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

    def fetch(self, indices: np.ndarray[Any, Any]) -> Any:
        """What a batch needs from memory or disk; nothing random."""
        return indices

    def finish(self, raw: Any) -> Any:
        """The batch itself: arrays with the batch first."""
        return collate([self[int(i)] for i in raw])


class ArrayBacked(Dataset):
    """Items are rows of arrays: slices and index arrays give whole batches at once."""

    def fetch(self, indices: Any) -> Any:
        """The rows, untransformed."""
        raise TypeError(f"[{type(self).__name__}] define fetch(self, indices).")

    def finish(self, raw: Any) -> Any:
        return raw

    def __getitem__(self, index: Any) -> Any:
        return self.finish(self.fetch(index))


class IterableDataset:
    """A stream: subclasses define `__iter__`; a loader cuts it into batches."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"[{type(self).__name__}] define __iter__(self).")


class NDArrayDataset(ArrayBacked):
    """Rows of one or more arrays: item i is (a[i], b[i], ...)."""

    def __init__(self, *arrays: Any):
        super().__init__()
        if not arrays or any(len(a) != len(arrays[0]) for a in arrays):
            raise ValueError(
                "[NDArrayDataset] expected arrays of one length, got lengths "
                f"{[len(a) for a in arrays]}."
            )
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def fetch(self, indices: Any) -> tuple[Any, ...]:
        return tuple(a[indices] for a in self.arrays)


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
