"""TensorBoard event files, read back by a parser that shares no code with the writer."""

from __future__ import annotations

import json
import struct

import pytest

from needle.io.events import EventWriter, crc32c


def slow_crc32c(data: bytes) -> int:
    """Polynomial division, bit by bit, highest power first, on reflected bits."""
    remainder = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            top = remainder & 1 ^ (byte >> bit & 1)
            remainder = remainder >> 1 ^ (0x82F63B78 if top else 0)
    return remainder ^ 0xFFFFFFFF


def unmasked(value: int) -> int:
    rotated = (value - 0xA282EAD8) % 2**32
    return (rotated >> 17 | rotated << 15) % 2**32


def records(contents: bytes):
    at = 0
    while at < len(contents):
        length, check = struct.unpack_from("<QI", contents, at)
        assert unmasked(check) == slow_crc32c(contents[at : at + 8])
        data = contents[at + 12 : at + 12 + length]
        (check,) = struct.unpack_from("<I", contents, at + 12 + length)
        assert unmasked(check) == slow_crc32c(data)
        yield data
        at += 16 + length


def fields(message: bytes) -> dict[int, list]:
    """Field number -> values: numbers, or bytes of what is inside."""
    at, found = 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key % 8
        if kind == 0:
            value = varint()
        elif kind == 2:
            size = varint()
            value, at = message[at : at + size], at + size
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[kind]
            (value,), at = struct.unpack_from(form, message, at), at + size
        found.setdefault(key // 8, []).append(value)
    return found


def scalars(event: bytes) -> tuple[int, dict[str, float]]:
    parsed = fields(event)
    values = [fields(v) for v in fields(parsed[5][0])[1]]
    return parsed[2][0], {v[1][0].decode(): v[2][0] for v in values}


def test_checksum():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert crc32c(b"") == 0
    data = bytes(range(256)) * 3
    assert crc32c(data) == slow_crc32c(data)


def test_what_is_written_is_read(tmp_path):
    writer = EventWriter(tmp_path)
    writer.add(0, {"train/loss": 0.5})
    writer.add(300, {"train/loss": -1.25, "lr": float("inf")})
    version, first, second = records(writer.path.read_bytes())
    assert fields(version)[3] == [b"brain.Event:2"]
    assert fields(version)[1][0] > 1.6e9
    assert scalars(first) == (0, {"train/loss": 0.5})
    assert scalars(second) == (300, {"train/loss": -1.25, "lr": float("inf")})


def test_a_resumed_run_says_from_where(tmp_path):
    _, start = records(EventWriter(tmp_path, first_step=70).path.read_bytes())
    assert fields(start)[2] == [70]
    assert fields(fields(start)[7][0]) == {1: [1]}


def test_a_run_writes_its_records(digits_run):
    folder, _ = digits_run
    contents = min(folder.glob("events.out.tfevents.*")).read_bytes()
    _, *events = records(contents)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(events) == len(lines) == 3
    for event, line in zip(events, lines, strict=True):
        step, values = scalars(event)
        assert step == line["step"]
        assert values["validation/loss"] == pytest.approx(line["val_loss"], rel=1e-6)
        assert values["train/accuracy"] == pytest.approx(line["train_accuracy"], rel=1e-6)


def test_tensorboard_reads_it(digits_run):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(digits_run[0]))
    events.Reload()
    assert {"train/loss", "validation/accuracy", "lr"} <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("train/loss")] == [10, 20, 30]
