"""Files of other formats: refused by name when writing, and named when reading."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

import needle as ndl
from needle.io.formats import PROGRAM_SUFFIXES, SUFFIXES


def double(x):
    return x * 2


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".ONNX"])
def test_save_refuses_names_of_other_formats(tmp_path, suffix):
    with pytest.raises(ValueError, match=r"\[save\] .* is named like .* ends in \.ndl"):
        ndl.save({"x": ndl.ones(1)}, tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [*SUFFIXES, *PROGRAM_SUFFIXES, ".Onnx"])
def test_export_refuses_names_of_other_formats(tmp_path, suffix):
    with pytest.raises(ValueError, match=r"\[export\] .* is named like .* ends in \.needle"):
        ndl.export(double, ndl.ones(1), path=tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.ndl", "x.safetensors", "x.pt", "x.pth", "x", "x.v2", "onnx"])
def test_save_takes_other_names(tmp_path, name):
    ndl.save({"x": ndl.ones(1)}, tmp_path / name)
    assert ndl.load(tmp_path / name)["x"].tolist() == [1]


@pytest.mark.parametrize("name", ["x.needle", "x.ndl", "x", "x.v2"])
def test_export_takes_other_names(tmp_path, name):
    ndl.export(double, ndl.ones(1), path=tmp_path / name)
    assert ndl.load_exported(tmp_path / name)(ndl.ones(1)).tolist() == [2]


def in_memory(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zipped(**members):
    def write(file):
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return in_memory(write)


def tarred(file):
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"))


FOREIGN = {
    "arrays of numpy.savez": in_memory(lambda f: np.savez(f, a=np.ones(3))),
    "an array of numpy.save": in_memory(lambda f: np.save(f, np.ones(3))),
    "a pickle": pickle.dumps({"a": list(range(100))}),
    "compressed by gzip": gzip.compress(b"x" * 100),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(100),
    # ir_version 8, producer_name "pytorch"
    "such as an ONNX model": b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x8c\x01" + bytes(100),
    "a GGUF file": b"GGUF\x03\0\0\0" + bytes(100),
    "a TensorFlow Lite model": b"\x1c\0\0\0TFL3" + bytes(100),
    "a tar archive": in_memory(tarred),
    "a zip archive: unpack": zipped(**{"readme.txt": "hello"}),
    "a zip archive that was cut off": zipped(**{"a.npy": "hello"})[:-30],
    "a Keras model": zipped(**{"model.weights.h5": "", "config.json": "{}"}),
    "a file of torch.save's": zipped(**{"archive/data.pkl": "", "archive/version": "3"}),
    "a program of torch.jit.save's": zipped(**{"m/data.pkl": "", "m/code/__torch__.py": ""}),
    "a program of torch.export's": zipped(**{"m/archive_format": "pt2", "m/version": "0"}),
    "an Arrow file": b"ARROW1\0\0" + bytes(100),
    "an SQLite database": b"SQLite format 3\0" + bytes(100),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n",
    "a web page": b"\n<!DOCTYPE html><html><title>Sign in</title>" + b" " * 100,
    "JSON": json.dumps({"weight_map": {"a": "model-1.safetensors"}}, indent=2).encode(),
    "text": "Größe: 3\n".encode() * 100,
    "empty": b"",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_named_when_loaded(tmp_path, what):
    path = tmp_path / "x"
    path.write_bytes(FOREIGN[what])
    with pytest.raises(
        ValueError, match=rf"\[load\] .*x is not a safetensors file; it is .*{what}"
    ):
        ndl.load(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value", [{"a": np.ones(2)}, [1, 2, 3], np.ones(3)], ids=["dict", "list", "array"]
)
def test_pickles_of_every_protocol(tmp_path, protocol, value):
    (tmp_path / "x").write_bytes(pickle.dumps(value, protocol))
    with pytest.raises(ValueError, match="it is a pickle, which can run code"):
        ndl.load(tmp_path / "x")


def test_files_that_pytorch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.ones(2)}, tmp_path / "saved")
    torch.save({"a": torch.ones(2)}, tmp_path / "old", _use_new_zipfile_serialization=False)
    for name in ("saved", "old"):
        with pytest.raises(ValueError, match=r"it is a file of torch\.save's"):
            ndl.load(tmp_path / name)


def test_bytes_that_mean_nothing(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe\x01\x02" * 100)
    with pytest.raises(ValueError, match="is not a safetensors file, or it was cut off or damaged"):
        ndl.load(tmp_path / "x")


def test_what_is_said_about_numpys_files_is_right(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3.0))
    with pytest.raises(ValueError, match=r"ndl\.save\(dict\(numpy\.load\(path\)\), \.\.\.\)"):
        ndl.load(tmp_path / "x.npz")
    ndl.save(dict(np.load(tmp_path / "x.npz")), tmp_path / "x.ndl")
    assert ndl.load(tmp_path / "x.ndl")["a"].tolist() == [0, 1, 2]
