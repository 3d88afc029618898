"""Checksums in the metadata of needle's own files: damage is noticed, and its place is named.

    "needle.checksums": {"tensors": {"weight": "1c291ca3"}, "metadata": {"needle": "8a2e5b90"}}

A checksum is CRC-32, which notices every flipped bit, and all damage within four bytes. That of a
tensor is over its name, type and shape as well as its bytes, and not over its place in the file: a
program that stores the same tensors in another order, with the same metadata, leaves it valid.
Files without checksums, such as other programs', are read unchecked.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..types import NumpyArray

CHECKSUMS = "needle.checksums"
OWN = ("needle", "needle.program")  # entries of our own files: what `save` and `export` write


def of_tensor(name: str, code: str, shape: Iterable[int], array: NumpyArray) -> str:
    """The checksum of a tensor: of what the header says about it, then of its bytes."""
    described = json.dumps([name, code, list(shape)]).encode()
    return f"{zlib.crc32(raw_bytes(array), zlib.crc32(described)):08x}"


def _of_text(name: str, text: object) -> str:
    return f"{zlib.crc32(json.dumps([name, text]).encode()):08x}"


def raw_bytes(array: NumpyArray) -> memoryview:
    """The memory of an array in C order, as it lies there."""
    return array.reshape(-1).view(np.uint8).data


def entry(tensors: dict[str, str], metadata: Mapping[str, str]) -> str:
    """The text of the metadata's entry for checksums, given the tensors' own."""
    texts = {name: _of_text(name, text) for name, text in metadata.items()}
    return json.dumps({"tensors": tensors, "metadata": texts})


def stored(metadata: dict[str, Any], names: Iterable[str], path: Path) -> dict[str, str]:
    """Take the checksums out of a file's metadata, and check the rest of it and the tensors' names.
    Returns the tensors' checksums by name; an empty dict if the file has none."""
    text = metadata.pop(CHECKSUMS, None)
    if text is None:
        if len(metadata) > 1 and any(name in metadata for name in OWN):
            raise damaged(path, "the name of an entry of the metadata")
        return {}
    try:
        found = json.loads(text)
        tensors, texts = found["tensors"], found["metadata"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise damaged(path, "the list of checksums") from None
    if not isinstance(tensors, dict) or not isinstance(texts, dict):
        raise damaged(path, "the list of checksums")
    for what, expected, present in (
        ("tensors", tensors, set(names)),
        ("metadata", texts, set(metadata)),
    ):
        if expected.keys() != present:
            different = sorted(expected.keys() ^ present)[:3]
            raise damaged(path, f"the names of the {what}, such as {', '.join(different)},")
    for name, value in metadata.items():
        if _of_text(name, value) != texts[name]:
            raise damaged(path, f"the entry {name!r} of the metadata")
    return tensors


def damaged(path: Path, what: str) -> ValueError:
    """The error about a part of a file that is not as it was saved."""
    return ValueError(
        f"[load] {path}: {what} is not as it was saved (the checksum differs); the file is "
        "damaged, load another copy of it."
    )
