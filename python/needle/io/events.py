"""TensorBoard event files: scalars over steps, written by hand.

A file is a sequence of records, each

    8 bytes  length, little-endian      4 bytes  masked CRC-32C of the length
    data                                4 bytes  masked CRC-32C of the data

where data is an `Event` message in the protocol buffers encoding: every field is a key
(number * 8 + wire type) and a value; wire type 0 is a varint, 1 eight bytes, 2 a length and so many
bytes, 5 four bytes. The fields that are used:

    Event       1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
    Summary     1 value (repeated)
    Value       1 tag string, 2 simple_value float, 4 image, 5 histogram, 8 tensor, 9 metadata
    Image       1 height, 2 width, 3 channels, 4 PNG
    Histogram   1 min, 2 max, 3 num, 4 sum, 5 sum of squares, 6 edges, 7 counts: doubles
    SessionLog  1 status (1 = start)
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, lowest bit first


def _crc_of_byte(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (CASTAGNOLI if value & 1 else 0)
    return value


CRC_TABLE = [_crc_of_byte(value) for value in range(256)]


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """Turned and shifted, since data that contains its own checksum is a special case for CRCs."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Data with its length and checksums."""
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked(crc32c(data)))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _bytes_field(number: int, data: bytes) -> bytes:
    return _varint(number * 8 + 2) + _varint(len(data)) + data


def _int_field(number: int, value: int) -> bytes:
    return _varint(number * 8) + _varint(value)


def event(wall_time: float, step: int, body: bytes) -> bytes:
    """An Event with a time, a step and one more field."""
    return _varint(1 * 8 + 1) + struct.pack("<d", wall_time) + _int_field(2, step) + body


def scalars_event(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """An Event with one value for each tag."""
    values = (scalar(tag, value) for tag, value in scalars.items())
    summary = b"".join(_bytes_field(1, value) for value in values)
    return event(wall_time, step, _bytes_field(5, summary))


def scalar(tag: str, value: float) -> bytes:
    """A Value that is a number."""
    return _bytes_field(1, tag.encode()) + _varint(2 * 8 + 5) + struct.pack("<f", value)


def _doubles(number: int, values: Sequence[float]) -> bytes:
    return _bytes_field(number, struct.pack(f"<{len(values)}d", *values))


def _double(number: int, value: float) -> bytes:
    return _varint(number * 8 + 1) + struct.pack("<d", value)


def histogram(tag: str, edges: Sequence[float], counts: Sequence[float], sums: Moments) -> bytes:
    """A Value that counts; edges[i] is where the values of counts[i] end."""
    body = b"".join(_double(number, value) for number, value in enumerate(sums, 1))
    return _bytes_field(1, tag.encode()) + _bytes_field(
        5, body + _doubles(6, edges) + _doubles(7, counts)
    )


def picture(tag: str, height: int, width: int, channels: int, png: bytes) -> bytes:
    """A Value that is a picture."""
    sizes = _int_field(1, height) + _int_field(2, width) + _int_field(3, channels)
    return _bytes_field(1, tag.encode()) + _bytes_field(4, sizes + _bytes_field(4, png))


def words(tag: str, text: str) -> bytes:
    """A Value that is text: a tensor of one string, for TensorBoard's plugin `text`."""
    metadata = _bytes_field(1, _bytes_field(1, b"text"))
    shape = _bytes_field(2, _bytes_field(2, _int_field(1, 1)))
    tensor = _int_field(1, 7) + shape + _bytes_field(8, text.encode())
    return _bytes_field(1, tag.encode()) + _bytes_field(9, metadata) + _bytes_field(8, tensor)


class Moments(NamedTuple):
    """What a histogram says of all its values."""

    least: float
    largest: float
    number: float
    total: float
    squares: float


class EventWriter:
    """A new event file in a folder, for a run that starts or resumes after `first_step`."""

    def __init__(self, folder: Path, first_step: int = 0, suffix: str = ""):
        now = time.time()
        # TensorBoard orders files by this name.
        self.path = folder / f"events.out.tfevents.{now:.6f}.{os.getpid()}.needle{suffix}"
        start = [event(now, 0, _bytes_field(3, b"brain.Event:2"))]
        if first_step:  # TensorBoard forgets what an interrupted run wrote from here on
            start.append(event(now, first_step, _bytes_field(7, _int_field(1, 1))))
        self.path.write_bytes(b"".join(map(record, start)))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append values at a step."""
        with self.path.open("ab") as file:
            file.write(record(scalars_event(time.time(), step, scalars)))

    def add_value(self, step: int, value: bytes, wall_time: float | None = None) -> None:
        """Append one Value of any kind at a step."""
        body = _bytes_field(5, _bytes_field(1, value))
        with self.path.open("ab") as file:
            file.write(record(event(time.time() if wall_time is None else wall_time, step, body)))
