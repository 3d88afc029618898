"""CIFAR-10: 32 x 32 colour images of ten classes, in Python's own file format."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .dataset import Images
from .files import Array, check_labels, existing

if TYPE_CHECKING:
    from ..types import PathLike
    from .dataset import Positions, Transform

__all__ = ["CIFAR10Dataset"]

IMAGE_BYTES = 3 * 32 * 32

# All that these files need: arrays of bytes. Nothing else is ever constructed.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    """Reads dictionaries, lists and NumPy arrays, and refuses every other object."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ALLOWED:
            raise ValueError(f"[data] the file wants to construct {module}.{name}: refused.")
        return super().find_class(module, name)


def read_batch(path: Path) -> tuple[Array, Array]:
    """(n, 3072) uint8 pixels and (n,) labels of one file."""
    contents = existing(path, "cifar10").read_bytes()
    try:
        batch = _ArraysOnly(io.BytesIO(contents), encoding="bytes").load()
        pixels = np.asarray(batch[b"data"])
        labels = np.asarray(batch[b"labels"], np.int64)
    except ValueError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise ValueError(f"[data] {path} is not a CIFAR-10 batch: {error!r}.") from None
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), IMAGE_BYTES):
        raise ValueError(
            f"[data] {path}: expected uint8 pixels ({len(labels)}, {IMAGE_BYTES}), got "
            f"{pixels.dtype} {pixels.shape}."
        )
    if labels.size and labels.min() < 0:
        raise ValueError(f"[data] {path}: labels must not be negative.")
    check_labels(labels, 10, path)
    return pixels, labels


class CIFAR10Dataset(Images):
    """(image, label): image (3, 32, 32) float32 in [0, 1]; `X` and `y` hold all of them.

    Transforms see (32, 32, 3)."""

    def __init__(
        self,
        base_folder: PathLike,
        train: bool,
        p: float = 0.5,
        transforms: Sequence[Transform] | None = None,
    ):
        super().__init__(transforms)
        self.p = p
        names = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
        parts = [read_batch(Path(base_folder) / name) for name in names]
        pixels = np.concatenate([part[0] for part in parts])
        self.y = np.concatenate([part[1] for part in parts])
        self.X = pixels.reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)

    def __len__(self) -> int:
        return len(self.y)

    def transformed(self, image: Array) -> Any:
        return self.apply_transforms(image.transpose(1, 2, 0)).transpose(2, 0, 1)

    def fetch(self, indices: Positions) -> tuple[Array, Array]:
        return self.X[indices], self.y[indices]
