"""TensorBoard event files: scalars over steps, written by hand.

A file is a sequence of records, each

    8 bytes  length, little-endian      4 bytes  masked CRC-32C of the length
    data                                4 bytes  masked CRC-32C of the data

where data is an `Event` message in the protocol buffers encoding: every field is a key
(number * 8 + wire type) and a value; wire type 0 is a varint, 1 eight bytes, 2 a length and so many
bytes, 5 four bytes. The fields that are used:

    Event       1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
    Summary     1 value (repeated)
    Value       1 tag string, 2 simple_value float
    SessionLog  1 status (1 = start)
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

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
    values = (
        _bytes_field(1, tag.encode()) + _varint(2 * 8 + 5) + struct.pack("<f", value)
        for tag, value in scalars.items()
    )
    summary = b"".join(_bytes_field(1, value) for value in values)
    return event(wall_time, step, _bytes_field(5, summary))


class EventWriter:
    """A new event file in a folder, for a run that starts or resumes after `first_step`."""

    def __init__(self, folder: Path, first_step: int = 0):
        now = time.time()
        # TensorBoard orders files by this name.
        self.path = folder / f"events.out.tfevents.{now:.6f}.{os.getpid()}.needle"
        start = [event(now, 0, _bytes_field(3, b"brain.Event:2"))]
        if first_step:  # TensorBoard forgets what an interrupted run wrote from here on
            start.append(event(now, first_step, _bytes_field(7, _int_field(1, 1))))
        self.path.write_bytes(b"".join(map(record, start)))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append values at a step."""
        with self.path.open("ab") as file:
            file.write(record(scalars_event(time.time(), step, scalars)))
