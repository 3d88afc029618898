"""Files of other formats: known by name when writing, by their first bytes when reading."""

from __future__ import annotations

import zipfile
from pathlib import Path

_SAFETENSORS = "safetensors.torch.save_file there writes what needle reads"
_NUMPY = "numpy.load reads it, and ndl.save(dict(numpy.load(path)), ...) writes it for needle"
_UNPACK = "unpack it first"
_WEIGHTS = "store its weights as safetensors"

# What the name of a file promises.
SUFFIXES: dict[str, str] = {
    ".onnx": "ONNX", ".pb": "TensorFlow", ".tflite": "TensorFlow Lite", ".keras": "Keras",
    ".h5": "HDF5", ".hdf5": "HDF5", ".npz": "NumPy", ".npy": "NumPy", ".gguf": "GGUF",
    ".ggml": "GGML", ".mlmodel": "Core ML", ".mlpackage": "Core ML", ".engine": "TensorRT",
    ".pkl": "pickle", ".pickle": "pickle", ".joblib": "joblib", ".msgpack": "MessagePack",
    ".mat": "MATLAB", ".parquet": "Parquet", ".zip": "zip", ".tar": "tar", ".gz": "gzip",
    ".ort": "ONNX Runtime", ".trt": "TensorRT", ".plan": "TensorRT", ".caffemodel": "Caffe",
    ".pdmodel": "PaddlePaddle", ".pdparams": "PaddlePaddle", ".mlir": "MLIR", ".bz2": "bzip2",
    ".xz": "xz", ".zst": "zstd", ".7z": "7z", ".tgz": "tar",
}  # fmt: skip
# PyTorch's programs give these names to whatever torch.save writes, and ndl.save stands for it.
TORCH_SUFFIXES = {".pt": "PyTorch", ".pth": "PyTorch", ".ckpt": "PyTorch", ".bin": "PyTorch"}
# Of a program, in place of weights alone.
PROGRAM_SUFFIXES = {
    **TORCH_SUFFIXES, ".pt2": "PyTorch", ".safetensors": "safetensors", ".h": "C headers",
    ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".cu": "CUDA", ".py": "Python", ".so": "libraries",
    ".o": "object files", ".json": "JSON", ".xml": "OpenVINO", ".ptl": "PyTorch",
    ".torchscript": "PyTorch", ".mar": "TorchServe",
}  # fmt: skip

# First bytes of a file: (where, bytes, what it is, what to do).
MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x93NUMPY", "an array of numpy.save", _NUMPY),
    (0, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", "a file of torch.save's", _SAFETENSORS),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, of Keras or h5py", _WEIGHTS),
    (0, b"GGUF", "a GGUF file, of llama.cpp", _WEIGHTS),
    (0, b"lmgg", "a GGML file, of llama.cpp", _WEIGHTS),
    (0, b"tjgg", "a GGML file, of llama.cpp", _WEIGHTS),
    (4, b"TFL3", "a TensorFlow Lite model", _WEIGHTS),
    (0, b"\x1f\x8b", "compressed by gzip", _UNPACK),
    (0, b"BZh", "compressed by bzip2", _UNPACK),
    (0, b"\xfd7zXZ\0", "compressed by xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"MATLAB 5.0", "a MATLAB file", _WEIGHTS),
    (0, b"PAR1", "a Parquet file", _WEIGHTS),
    (0, b"ARROW1", "an Arrow file", _WEIGHTS),
    (0, b"SQLite format 3\0", "an SQLite database", _WEIGHTS),
    (0, b"\x89PNG\r\n\x1a\n", "a picture", "give the path of the weights"),
    (0, b"\xff\xd8\xff", "a picture", "give the path of the weights"),
    (0, b"\x7fELF", "a program or library", "give the path of the weights"),
    (0, b"version https://git-lfs", "a pointer of Git LFS", "fetch the file: git lfs pull"),
)
SEEN = 512  # bytes of the beginning


def refuse_suffix(path: Path, others: dict[str, str], what: str, own: str) -> None:
    """Raise if the name promises a format that is not written."""
    suffix = path.suffix.lower()
    if suffix in others:
        raise ValueError(
            f"[{what}] {path} is named like a file of {others[suffix]}, which needle does not "
            f"write; choose a name that ends in {own}."
        )


def describe(first: bytes, path: Path) -> str:
    """What a file is that is no safetensors file, as the end of a sentence; "" if unknown."""
    if not first:
        return "it is empty."
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        what, instead = _zip(path)
        return f"it is {what}: {instead}."
    for start, magic, what, instead in MAGIC:
        if first[start : start + len(magic)] == magic:
            return f"it is {what}: {instead}."
    return _by_structure(first)


def _zip(path: Path) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "a zip archive that was cut off or damaged, of NumPy or torch.save's", "get it again"
    if any(name.split("/")[1:2] == ["code"] for name in names):
        return "a program of torch.jit.save's", _SAFETENSORS
    if any(name.split("/")[-1] == "archive_format" for name in names):
        return "a program of torch.export's", _SAFETENSORS
    if any(name.split("/")[-1] == "data.pkl" for name in names):
        return "a file of torch.save's", _SAFETENSORS
    if names and all(name.endswith(".npy") for name in names):
        return "arrays of numpy.savez", _NUMPY
    if "model.weights.h5" in names:
        return "a Keras model", _WEIGHTS
    return "a zip archive", _UNPACK


def _by_structure(first: bytes) -> str:
    """Formats that have no mark of their own."""
    newer = first[0] == 0x80 and len(first) > 2 and 2 <= first[1] <= 5 and first[2] != 0
    if newer or first.startswith((b"(dp", b"(lp", b"}q", b"]q", b"ccopy_reg", b"cnumpy", b"c__")):
        return "it is a pickle, which can run code: load it where it was made, and store arrays."
    # Protocol buffers: field 1 (ONNX's version) is a small number, and a further field follows.
    if first[0] == 0x08 and len(first) > 2 and first[1] < 0x20 and first[2] & 7 == 2:
        return f"it is a protocol buffer, such as an ONNX model: {_WEIGHTS}."
    try:
        text = first.decode()
    except UnicodeDecodeError as error:
        if error.start < len(first) - 3:  # not only the last character, cut through
            return ""
        text = first[: error.start].decode()
    if not all(c.isprintable() or c.isspace() for c in text):
        return ""
    start = text.lstrip().lower()
    if start.startswith(("<!doctype", "<html")):
        return "it is a web page, perhaps of a download that needs a login: get the file again."
    if start.startswith(("{", "[")):
        return "it is JSON, such as the index or settings of a model: give the path of the weights."
    return "it is text: give the path of the weights."
