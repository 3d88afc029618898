"""save and load: nested dicts, lists and tuples of tensors and plain values, in one file.

Tensors go into a safetensors file under their path ("model.0.weight"); the nesting and everything
that is not a tensor is JSON in the file's metadata. No pickle: loading never runs code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import Tensor
from . import formats, safetensors

if TYPE_CHECKING:
    from ..types import DeviceLike, NumpyArray, PathLike

__all__ = ["save", "load"]

TENSOR = "__tensor__"  # {"__tensor__": name} stands for a tensor in the JSON
TUPLE = "__tuple__"
KEYS = "__int_keys__"  # a dict with whole numbers as keys
DICT = "__dict__"  # a dict whose only key is one of these words
MARKS = (TENSOR, TUPLE, KEYS, DICT)
STRUCTURE = "needle"  # the metadata entry that holds the JSON


def _encode(value: object, path: str, tensors: dict[str, Tensor | NumpyArray]) -> object:
    if isinstance(value, (Tensor, np.ndarray)):
        while path in tensors or path == safetensors.METADATA:  # {"a.b": x, "a": {"b": y}}
            path += "_"
        tensors[path] = value
        return {TENSOR: path}
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        inner = {str(k): _encode(v, f"{prefix}{k}", tensors) for k, v in value.items()}
        if value and all(type(k) is int for k in value):
            return {KEYS: inner}
        if not all(isinstance(k, str) for k in value):
            raise TypeError(f"[save] keys must be text or whole numbers, got {list(value)[:5]}.")
        return {DICT: inner} if len(inner) == 1 and inner.keys() < set(MARKS) else inner
    if isinstance(value, (list, tuple)):
        prefix = f"{path}." if path else ""
        items = [_encode(v, f"{prefix}{i}", tensors) for i, v in enumerate(value)]
        return {TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"[save] expected tensors, numbers, text, None and nestings of them, got "
        f"{type(value).__name__} at {path!r}; save its state_dict() instead."
    )


def _decode(value: Any, tensors: dict[str, Tensor]) -> object:
    if isinstance(value, list):
        return [_decode(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TENSOR}:
        return tensors[value[TENSOR]]
    if value.keys() == {TUPLE}:
        return tuple(_decode(v, tensors) for v in value[TUPLE])
    if value.keys() == {KEYS}:
        return {int(k): _decode(v, tensors) for k, v in value[KEYS].items()}
    if value.keys() == {DICT}:
        value = value[DICT]
    return {k: _decode(v, tensors) for k, v in value.items()}


def save(obj: object, path: PathLike) -> None:
    """Write tensors and plain values, nested as they are; a file at `path` is replaced whole.

    A dict of tensors, such as a state_dict, is an ordinary safetensors file. Names that promise
    another format, such as x.npz, are refused."""
    formats.refuse_suffix(Path(path), formats.SUFFIXES, "save", ".ndl or .safetensors")
    tensors: dict[str, Tensor | NumpyArray] = {}
    structure = _encode(obj, "", tensors)
    safetensors.write_file(path, tensors, {STRUCTURE: json.dumps(structure)})


def load(
    path: PathLike, map_location: DeviceLike | None = None, *, weights_only: bool = True
) -> Any:
    """What `save` wrote; of any other safetensors file, a dict of its tensors.

    map_location is the device of the tensors. weights_only is for PyTorch's scripts, and changes
    nothing: no file can run code."""
    tensors, metadata = safetensors.read(path)
    if map_location is not None:
        tensors = {name: tensor.to(map_location) for name, tensor in tensors.items()}
    if STRUCTURE not in metadata:
        return tensors
    try:
        return _decode(json.loads(metadata[STRUCTURE]), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"[load] {path}: the structure is damaged: {error!r}.") from None
