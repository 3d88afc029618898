"""Data that comes with the package. README.md in this folder names its source and licence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["digits"]

Array = np.ndarray[Any, Any]

TEST_EVERY = 5  # images 0, 5, 10, ... are the test set: 360 of 1,797
BRIGHTEST = 16  # pixels are stored as 0 to 16


def digits(split: str = "all") -> tuple[Array, Array]:
    """Handwritten digits: x (n, 64) float32 in [0, 1], row-major 8 x 8 images, and y (n,) int64.

    `split` is "train" (1,437 images), "test" (360) or "all" (1,797).

    >>> x, y = digits("train")
    >>> x.shape, y[:6].tolist()
    ((1437, 64), [1, 2, 3, 4, 6, 7])
    """
    with np.load(Path(__file__).with_name("digits.npz")) as stored:
        images, labels = stored["images"], stored["labels"]
    x = images.reshape(len(images), -1).astype(np.float32) / np.float32(BRIGHTEST)
    y = labels.astype(np.int64)
    if split == "all":
        return x, y
    if split not in ("train", "test"):
        raise ValueError(f"[digits] expected split 'all', 'train' or 'test', got {split!r}.")
    chosen = (np.arange(len(y)) % TEST_EVERY == 0) == (split == "test")
    return x[chosen], y[chosen]
