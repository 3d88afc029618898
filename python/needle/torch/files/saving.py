"""`torch.save` and `torch.load`: PyTorch's two file formats.

The zip format has the pickle in `archive/data.pkl` and the memory of each tensor in an entry of its
own; the legacy format has several pickles in a row and the memory behind them.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from ...ndarray.array import NDArray
from ..core.device import device, place
from .pickling import Reader, StorageKind, Writer, from_bytes, to_bytes

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
ALIGNMENT = 64  # of the memory in a zip file
File = str | os.PathLike[str] | IO[bytes]


@contextmanager
def _opened(file: File, mode: str) -> Iterator[Any]:
    if isinstance(file, (str, os.PathLike)):
        with open(file, mode) as opened:
            yield opened
    else:
        yield file


# Writing ------------------------------------------------------------------------------------------


def save(
    obj: object,
    f: File,
    pickle_module: object = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors, and containers of them, so that PyTorch reads them."""
    if pickle_module is not pickle:
        raise ValueError("[save] expected pickle_module=pickle; others are not supported.")
    with _opened(f, "wb") as file:
        if _use_new_zipfile_serialization:
            _save_zip(obj, file, pickle_protocol, _name_of(f))
        else:
            _save_legacy(obj, file, pickle_protocol)


def _name_of(f: File) -> str:
    """The folder inside of a zip file: the file's own name."""
    if isinstance(f, (str, os.PathLike)):
        return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    return "archive"


def _save_zip(obj: object, file: IO[bytes], protocol: int, name: str) -> None:
    pickled = io.BytesIO()
    writer = Writer(pickled, protocol, legacy=False)
    writer.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _put(archive, file, f"{name}/data.pkl", pickled.getvalue())
        _put(archive, file, f"{name}/.format_version", b"1")
        _put(archive, file, f"{name}/.storage_alignment", str(ALIGNMENT).encode())
        _put(archive, file, f"{name}/byteorder", sys.byteorder.encode())
        for storage in writer.storages.values():
            _put(archive, file, f"{name}/data/{storage.key}", to_bytes(storage.data))
        _put(archive, file, f"{name}/version", b"3\n")


def _put(archive: zipfile.ZipFile, file: IO[bytes], name: str, content: bytes) -> None:
    """An entry whose content begins at a multiple of the alignment: `FB` fields fill the gap."""
    entry = zipfile.ZipInfo(name)
    start = archive.fp.tell() + 30 + len(name.encode()) + 4  # type: ignore[union-attr]
    gap = -start % ALIGNMENT
    entry.extra = b"FB" + struct.pack("<H", gap) + b"Z" * gap
    archive.writestr(entry, content)


def _save_legacy(obj: object, file: IO[bytes], protocol: int) -> None:
    system = {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little",
              "type_sizes": {"short": 2, "int": 4, "long": 4}}  # fmt: skip
    for head in (MAGIC, PROTOCOL, system):
        pickle.dump(head, file, protocol=protocol)
    writer = Writer(file, protocol, legacy=True)
    writer.dump(obj)
    storages = sorted(writer.storages.values(), key=lambda s: s.key)
    pickle.dump([s.key for s in storages], file, protocol=protocol)
    for storage in storages:
        file.write(struct.pack("<q", storage.data.size))
        file.write(to_bytes(storage.data))


# Reading ------------------------------------------------------------------------------------------


def load(
    f: File,
    map_location: Any = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what PyTorch, or `save`, has written: tensors, containers and numbers alone."""
    if weights_only is False:
        raise pickle.UnpicklingError(
            "[load] expected weights_only=True: without it, a file may run any code. Save a "
            "state_dict, which needs no code."
        )
    if pickle_module not in (None, pickle):
        raise ValueError("[load] expected no pickle_module; pickles are read by a restricted one.")
    _check_place(map_location)
    encoding = pickle_load_args.get("encoding", "utf-8")
    with _opened(f, "rb") as file:
        start = file.tell()
        is_zip = file.read(4) == b"PK\x03\x04"
        file.seek(start)
        return _load_zip(file, encoding) if is_zip else _load_legacy(file, encoding)


def _check_place(map_location: Any) -> None:
    """Tensors can be put on the CPU alone."""
    if map_location is None or callable(map_location):
        return
    places = map_location.values() if isinstance(map_location, dict) else [map_location]
    for where in places:
        place(device(where))


def _load_zip(file: IO[bytes], encoding: str) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        main = next((n for n in names if n.endswith("/data.pkl")), None)
        if main is None:
            raise RuntimeError("[load] expected a file of torch.save, got another zip file.")
        root = main.removesuffix("data.pkl")
        order = f"{root}byteorder"
        if order in names and archive.read(order).decode() != sys.byteorder:
            raise RuntimeError("[load] the file has the other byte order.")
        known: dict[str, NDArray] = {}

        def storage(kind: StorageKind, key: str, location: str, size: int) -> NDArray:
            if key not in known:
                known[key] = from_bytes(archive.read(f"{root}data/{key}"), kind.dtype)
            return known[key]

        return Reader(io.BytesIO(archive.read(main)), storage, encoding).load()


def _load_legacy(file: IO[bytes], encoding: str) -> Any:
    def plain() -> Any:
        return Reader(file, _no_storage).load()

    try:
        is_known = plain() == MAGIC and plain() == PROTOCOL
    except (pickle.UnpicklingError, EOFError, ValueError):
        is_known = False
    if not is_known:
        raise RuntimeError("[load] expected a file of torch.save, got something else.")
    plain()  # the writer's system
    return _Pending(file, encoding).load()


class _Pending:
    """The memory comes behind the tensors: they are read twice, first to learn what follows."""

    def __init__(self, file: IO[bytes], encoding: str):
        self.file, self.encoding = file, encoding
        self.kinds: dict[str, StorageKind] = {}

    def load(self) -> Any:
        start = self.file.tell()
        self._read(self._note)
        keys = Reader(self.file, _no_storage).load()
        found = {key: self._memory(key) for key in keys}
        end = self.file.tell()
        self.file.seek(start)
        result = self._read(lambda kind, key, *rest: found[key])
        self.file.seek(end)
        return result

    def _read(self, storage: Callable[..., NDArray]) -> Any:
        return Reader(self.file, storage, self.encoding).load()

    def _note(
        self, kind: StorageKind, key: str, location: str, size: int, *view: object
    ) -> NDArray:
        self.kinds[key] = kind
        return from_bytes(bytes(size * kind.dtype.itemsize), kind.dtype)

    def _memory(self, key: str) -> NDArray:
        kind = self.kinds[key]
        (size,) = struct.unpack("<q", self.file.read(8))
        return from_bytes(self.file.read(size * kind.dtype.itemsize), kind.dtype)


def _no_storage(*saved: object) -> NDArray:
    raise pickle.UnpicklingError("[load] expected no storage here.")
