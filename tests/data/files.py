"""Small files in the formats of the real data sets."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np


def write_idx(path: Path, array: np.ndarray, magic: int) -> Path:
    """A gzipped IDX file of bytes."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(struct.pack(">I", magic) + sizes + array.tobytes()))
    return path


def write_mnist(folder: Path, n: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Training and test files of n images each; returns the training pixels and labels."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, n, dtype=np.uint8)
    for prefix in ("train", "t10k"):
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", pixels, 2051)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels, 2049)
    return pixels, labels


def write_cifar10(folder: Path, n: int = 10) -> None:
    """All six batch files of n images each."""
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        batch = {
            b"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8),
            b"labels": rng.integers(0, 10, n).tolist(),
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
