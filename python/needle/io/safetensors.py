"""The safetensors file format: a JSON header, then the bytes of every tensor.

    8 bytes  length of the header, little-endian
    header   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
    data     offsets count from here; tensors lie one after the other, without gaps

Nothing in such a file is code, and everything in it is checked before a tensor is made.
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .. import config
from ..autograd import Tensor
from ..backend import default_device
from ..dtype import DType, dtype_of
from ..ndarray.array import from_device, from_numpy as array_from_numpy

CODES: dict[str, str] = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
NAMES = {name: code for code, name in CODES.items()}
LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"  # the entry of the header that is no tensor


def _stored(tensor: Any) -> tuple[DType, np.ndarray[Any, Any]]:
    """A tensor's dtype and its elements in storage form, C order, little-endian."""
    data = tensor.realize_cached_data() if isinstance(tensor, Tensor) else np.asarray(tensor)
    if isinstance(data, np.ndarray):
        dtype = dtype_of(data.dtype)
        return dtype, np.asarray(data, dtype.storage, order="C")
    return data.dtype, np.asarray(from_device(data), order="C")


def write(file: BinaryIO, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write tensors and string metadata to an open file."""
    stored = {name: _stored(tensor) for name, tensor in tensors.items()}
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    begin = 0
    for name, (dtype, array) in stored.items():
        end = begin + array.nbytes
        shape = list(np.shape(array))
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, array in stored.values():
        file.write(array.tobytes())


def read(path: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file."""
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        header, start = _read_header(file, size, path)
        metadata = header.pop(METADATA, {})
        tensors = {}
        for name, entry in header.items():
            dtype, shape, begin, count = _checked(name, entry, size - start, path)
            file.seek(start + begin)
            array = np.fromfile(file, dtype.storage, count).reshape(shape)
            tensors[name] = _tensor(array, dtype)
    return tensors, metadata


def _read_header(file: BinaryIO, size: int, path: Path) -> tuple[dict[str, Any], int]:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        hint = " It looks like torch.save's: write it with safetensors.torch.save_file there."
        raise ValueError(
            f"[load] {path} is not a safetensors file, or it was cut off."
            + hint * first.startswith((b"PK\x03\x04", b"\x80\x02"))
        )
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"[load] {path}: the header is damaged: {error}.") from None
    if not isinstance(header, dict) or not isinstance(header.get(METADATA, {}), dict):
        raise ValueError(f"[load] {path}: the header is damaged: it must be a JSON object.")
    return header, 8 + length


def _checked(name: str, entry: Any, room: int, path: Path) -> tuple[DType, list[int], int, int]:
    """dtype, shape, begin and number of elements of one entry, or an error about it."""
    try:
        code, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        known = code in CODES
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"[load] {path}: the entry of {name!r} is damaged.") from None
    if not known:
        raise ValueError(f"[load] {path}: {name!r} has dtype {code}, which needle has not.")
    dtype = dtype_of(CODES[code])
    if not whole or end - begin != math.prod(shape) * dtype.itemsize or end > room:
        raise ValueError(
            f"[load] {path}: {name!r} of shape {shape} and dtype {code} does not fit its place "
            f"{begin} to {end} in {room} bytes of data; the file is damaged or was cut off."
        )
    return dtype, shape, begin, math.prod(shape)


def _tensor(array: np.ndarray[Any, Any], dtype: DType) -> Tensor:
    if config.BACKEND == "np":
        return Tensor(array, requires_grad=False)
    data = array_from_numpy(array, dtype, default_device(), as_bits=True)
    return Tensor.make_const(data)


def remove_unfinished(path: Path) -> None:
    """Delete what processes that were killed while writing `path` left beside it."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        leftover.unlink(missing_ok=True)


def write_atomically(path: Any, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write beside the target, to the disk itself, then rename: never half a file at `path`."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            write(file, tensors, metadata)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)
