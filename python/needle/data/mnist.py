"""MNIST and Fashion-MNIST: 28 x 28 grey images of ten classes, as gzipped IDX files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .dataset import Images
from .files import Array, check_labels, read_idx

if TYPE_CHECKING:
    from ..types import PathLike
    from .dataset import Positions, Transform

__all__ = ["MNISTDataset", "MNIST", "FashionMNIST"]

IMAGES, LABELS = 2051, 2049  # magic numbers
FILES = {
    True: ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    False: ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}


class MNISTDataset(Images):
    """(image, label): image (28, 28, 1) float32 in [0, 1] after the transforms, label uint8.

    Slices and index arrays give (n, 28, 28, 1) and (n,)."""

    source = "mnist"

    def __init__(
        self,
        image_filename: PathLike,
        label_filename: PathLike,
        transforms: Sequence[Transform] | None = None,
    ):
        super().__init__(transforms)
        pixels = read_idx(image_filename, IMAGES, 3, self.source)
        self.labels = read_idx(label_filename, LABELS, 1, self.source)
        if len(pixels) != len(self.labels):
            raise ValueError(
                f"[data] {image_filename} has {len(pixels)} images, {label_filename} "
                f"{len(self.labels)} labels."
            )
        check_labels(self.labels, 10, label_filename)
        self.images = (pixels.astype(np.float32) / np.float32(255))[..., None]

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, indices: Positions) -> tuple[Array, Array]:
        return self.images[indices], self.labels[indices]


class MNIST(MNISTDataset):
    """The training or test images in a folder."""

    def __init__(
        self, folder: PathLike, train: bool = True, transforms: Sequence[Transform] | None = None
    ):
        images, labels = (Path(folder) / name for name in FILES[train])
        super().__init__(images, labels, transforms)


class FashionMNIST(MNIST):
    """Zalando's articles of clothing in MNIST's format."""

    source = "fashion-mnist"

    def __init__(
        self,
        folder: PathLike = "/usr/share/datasets/fashion-mnist",
        train: bool = True,
        transforms: Sequence[Transform] | None = None,
    ):
        super().__init__(folder, train, transforms)
