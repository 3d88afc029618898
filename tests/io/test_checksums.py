"""Damage to a file is noticed, wherever it is, and the tensor is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.io import safetensors
from needle.io.checksums import CHECKSUMS

STATE = {
    "weight": ndl.tensor(np.arange(12.0).reshape(3, 4), dtype="float32"),
    "mask": ndl.tensor([True, False]),
    "half": ndl.ones(5, dtype="bfloat16"),
    "values": {"step": 100, "rate": 1e-3, "name": "größe", "on": True},
}


def header_of(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), 8 + length


def with_header(content, header):
    _, start = header_of(content)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[start:]


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "x.ndl"
    ndl.save(STATE, path)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(ValueError, match=r"\[load\] .*x\.ndl"):
            ndl.load(path)


def test_the_damaged_tensor_is_named(tmp_path):
    path = tmp_path / "last.ndl"
    model = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 50))
    checkpoint = ndl.Checkpoint(path, model=model)
    checkpoint.save(step=1)
    whole = path.read_bytes()
    header, start = header_of(whole)
    rng = np.random.default_rng(0)
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        for bit in rng.integers(8 * (start + begin), 8 * (start + end), 10):
            path.write_bytes(flipped(whole, int(bit)))
            with pytest.raises(ValueError, match=rf"last\.ndl: tensor '{name}' is not as it was"):
                checkpoint.load()
    path.write_bytes(whole)
    assert checkpoint.load() == {"step": 1}


def test_exported_programs_too(tmp_path):
    model = nn.Linear(3, 2)
    path = ndl.export(lambda x: model(x), ndl.ones(1, 3), path=tmp_path / "m.needle")
    whole = path.read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(whole), 300):
        path.write_bytes(flipped(whole, int(bit)))
        with pytest.raises(ValueError, match=r"\[load(_exported)?\] .*m\.needle"):
            ndl.load_exported(path)


def test_tensors_that_change_places_are_noticed(tmp_path):
    path = tmp_path / "x"
    ndl.save({"a": ndl.ones(4), "b": ndl.zeros(4)}, path)
    header, _ = header_of(path.read_bytes())
    a, b = header["a"], header["b"]
    path.write_bytes(with_header(path.read_bytes(), {**header, "a": b, "b": a}))
    with pytest.raises(ValueError, match="tensor 'a' is not as it was saved"):
        ndl.load(path)


def test_another_order_in_the_file_is_no_damage(tmp_path):
    """As other programs write it when they keep the metadata."""
    path = tmp_path / "x"
    ndl.save({"a": ndl.ones(4), "b": ndl.zeros(2)}, path)
    content = path.read_bytes()
    header, start = header_of(content)
    header["a"]["data_offsets"], header["b"]["data_offsets"] = [8, 24], [0, 8]
    data = content[start + 16 :] + content[start : start + 16]
    path.write_bytes(with_header(content[:start] + data, dict(reversed(header.items()))))
    loaded = ndl.load(path)
    assert loaded["a"].tolist() == [1] * 4 and loaded["b"].tolist() == [0] * 2


def test_files_without_checksums_load(tmp_path):
    path = tmp_path / "x"
    ndl.save(STATE, path)
    content = path.read_bytes()
    header, _ = header_of(content)
    del header["__metadata__"][CHECKSUMS]
    path.write_bytes(with_header(content, header))
    assert ndl.load(path)["values"] == STATE["values"]
    del header["__metadata__"]
    path.write_bytes(with_header(content, header))
    np.testing.assert_array_equal(ndl.load(path)["weight"].numpy(), STATE["weight"].numpy())


@pytest.mark.parametrize(
    "text", ["5", "[]", "{", '{"tensors": 1, "metadata": {}}', '{"tensors": {}}', "[" * 100_000]
)
def test_hostile_lists_of_checksums(tmp_path, text):
    with (tmp_path / "x").open("wb") as file:
        safetensors.write(file, {}, {"needle": "1"})
    content = (tmp_path / "x").read_bytes()
    header, _ = header_of(content)
    header["__metadata__"][CHECKSUMS] = text
    (tmp_path / "x").write_bytes(with_header(content, header))
    with pytest.raises(ValueError, match=r"\[load\] .*the list of checksums is not as"):
        ndl.load(tmp_path / "x")
