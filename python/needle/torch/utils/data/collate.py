"""Items of a dataset as a batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from .... import torch

__all__ = ["default_collate", "default_convert"]


def default_convert(data: Any) -> Any:
    """NumPy's arrays as tensors, in containers, too."""
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else torch.as_tensor(data)
    if isinstance(data, Mapping):
        return type(data)({key: default_convert(value) for key, value in data.items()})  # type: ignore[call-arg]
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(value) for value in data]
    return data


def default_collate(batch: Any) -> Any:
    """Items stacked: tensors, numbers and arrays, in tuples, lists and dictionaries."""
    first = batch[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in "SUO":
            raise TypeError(
                "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
                f"lists; found {first.dtype}"
            )
        return torch.stack([torch.as_tensor(item) for item in batch], 0)
    if isinstance(first, np.generic) and first.dtype.kind not in "SUO":
        return torch.as_tensor(np.asarray(batch))
    if isinstance(first, bool):
        return torch.tensor(batch)
    if isinstance(first, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _mapping(first, batch)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(part) for part in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        if isinstance(first, (tuple, MutableSequence)):
            return parts if isinstance(first, (tuple, list)) else type(first)(parts)  # type: ignore[call-arg]
        return parts
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def _mapping(first: Any, batch: Any) -> Any:
    collated = {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, MutableMapping):
        found = copy.copy(first)
        found.update(collated)
        return found
    try:
        return type(first)(collated)
    except TypeError:
        return collated
