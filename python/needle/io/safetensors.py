"""The safetensors file format: a JSON header, then the bytes of every tensor.

    8 bytes  length of the header, little-endian
    header   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
    data     offsets count from here; tensors lie one after the other, without gaps

Nothing in such a file is code, and everything in it is checked before a tensor is made.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .. import config
from ..autograd import Tensor
from ..backend import default_device
from ..dtype import DType, dtype_of
from ..ndarray.array import from_device, from_numpy as array_from_numpy
from ..system.writing import open_file, replacing
from . import checksums, formats

if TYPE_CHECKING:
    from ..types import NumpyArray, PathLike

CODES: dict[str, str] = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
NAMES = {name: code for code, name in CODES.items()}
LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"  # the entry of the header that is no tensor


def _stored(tensor: Tensor | NumpyArray) -> tuple[DType, NumpyArray]:
    """A tensor's dtype and its elements in storage form, C order, little-endian."""
    data = tensor.realize_cached_data() if isinstance(tensor, Tensor) else np.asarray(tensor)
    if isinstance(data, np.ndarray):
        dtype = dtype_of(data.dtype)
        return dtype, np.asarray(data, dtype.storage, order="C")
    return data.dtype, np.asarray(from_device(data), order="C")


def write(
    file: BinaryIO, tensors: Mapping[str, Tensor | NumpyArray], metadata: Mapping[str, str]
) -> None:
    """Write tensors and string metadata to an open file; files with metadata, which are needle's
    own, also get checksums."""
    stored = {name: _stored(tensor) for name, tensor in tensors.items()}
    header: dict[str, Any] = {}
    begin = 0
    for name, (dtype, array) in stored.items():
        end = begin + array.nbytes
        shape = list(np.shape(array))
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    if metadata:
        sums = {
            name: checksums.of_tensor(name, NAMES[dtype], array.shape, array)
            for name, (dtype, array) in stored.items()
        }
        own = {checksums.CHECKSUMS: checksums.entry(sums, metadata)}
        header = {METADATA: dict(metadata) | own, **header}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, array in stored.values():
        file.write(checksums.raw_bytes(array))


def read(path: PathLike) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file; checked, if the file has checksums."""
    path = Path(path)
    with open_file(path, "load") as file:
        size = os.fstat(file.fileno()).st_size  # of this file, if another takes its place now
        header, start = _read_header(file, size, path)
        metadata = header.pop(METADATA, {})
        sums = checksums.stored(metadata, header, path)
        tensors = {}
        for name, entry in header.items():
            dtype, shape, begin, count = _checked(name, entry, size - start, path)
            file.seek(start + begin)
            array = np.fromfile(file, dtype.storage, count).reshape(shape)
            if sums and checksums.of_tensor(name, entry["dtype"], shape, array) != sums[name]:
                raise checksums.damaged(path, f"tensor {name!r}")
            tensors[name] = _tensor(array, dtype)
    return tensors, metadata


def _read_header(file: BinaryIO, size: int, path: Path) -> tuple[dict[str, Any], int]:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        raise _no_header(file, path, ", or it was cut off or damaged.")
    try:
        header = json.loads(file.read(length).decode())
    except (ValueError, RecursionError) as error:
        raise _no_header(file, path, f": the header is damaged: {error}.") from None
    if not isinstance(header, dict) or not isinstance(header.get(METADATA, {}), dict):
        raise ValueError(f"[load] {path}: the header is damaged: it must be a JSON object.")
    return header, 8 + length


def _no_header(file: BinaryIO, path: Path, otherwise: str) -> ValueError:
    """The error about a file that does not start as it should: what it is, if that is known."""
    file.seek(0)
    found = formats.describe(file.read(formats.SEEN), path)
    return ValueError(
        f"[load] {path} is not a safetensors file" + (f"; {found}" if found else otherwise)
    )


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


def _tensor(array: NumpyArray, dtype: DType) -> Tensor:
    if config.BACKEND == "np":
        return Tensor(array, requires_grad=False)
    data = array_from_numpy(array, dtype, default_device(), as_bits=True)
    return Tensor.make_const(data)


def write_file(
    path: PathLike,
    tensors: Mapping[str, Tensor | NumpyArray],
    metadata: Mapping[str, str],
    what: str = "save",
) -> None:
    """Write a whole file in the place of the one at `path`; `what` is for errors."""
    with replacing(path, what) as file:
        write(file, tensors, metadata)
