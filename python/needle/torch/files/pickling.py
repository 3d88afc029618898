"""Pickles of tensors and containers: those that PyTorch writes, and those that it reads.

Reading calls nothing but what is listed here: a pickle can name any function, this one may not.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import IO, Any, ClassVar

import numpy as np

from ...backend import cpu
from ...dtype import DType
from ...ndarray import functions as F
from ...ndarray.array import NDArray, from_numpy, make_view
from ..core import dtypes
from ..core.device import Size, device
from ..core.dtypes import ENGINE, dtype as FaceDtype, face_dtype
from ..core.tensor import Parameter, Tensor, make_node, wrap

STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "ByteStorage": "uint8", "CharStorage": "int8",
    "ShortStorage": "int16", "IntStorage": "int32", "LongStorage": "int64", "BoolStorage": "bool",
}  # fmt: skip
CLASS_OF = {dtype: name for name, dtype in STORAGES.items()}


def to_bytes(data: NDArray) -> bytes:
    """The elements of a row, as they lie in memory."""
    if data.dtype == "bfloat16":
        wide = F.cast(data, "float32").numpy()
        return (wide.view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    return data.numpy().tobytes()


def from_bytes(raw: bytes, dtype: DType) -> NDArray:
    """A row of elements of these bytes."""
    array = np.frombuffer(raw, dtype.storage)
    if dtype == "bfloat16":
        wide = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return from_numpy(wide, dtype, cpu())
    return F.copy(from_numpy(array, dtype, cpu()))


# Writing ------------------------------------------------------------------------------------------


class Named:
    """Something that a pickle names: a function or class of PyTorch."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __call__(self, *args: object) -> None:
        """Pickles check that what they name can be called."""


REBUILD_TENSOR = Named("torch._utils", "_rebuild_tensor_v2")
REBUILD_PARAMETER = Named("torch._utils", "_rebuild_parameter")
SIZE, DEVICE = Named("torch", "Size"), Named("torch", "device")


class Storage:
    """The memory of a tensor, and its number in the file."""

    def __init__(self, data: NDArray, key: str):
        self.data, self.key = data, key


PythonPickler: Any = pickle._Pickler  # whose ways of writing can be replaced


class Writer(PythonPickler):  # type: ignore[misc]
    """Writes tensors as PyTorch does; memory goes into other entries of the file."""

    def __init__(self, file: IO[bytes], protocol: int, legacy: bool):
        super().__init__(file, protocol)
        self.legacy = legacy
        self.storages: dict[int, Storage] = {}

    def persistent_id(self, obj: object) -> object:
        if not isinstance(obj, Storage):
            return None
        kind = Named("torch", CLASS_OF[str.__str__(obj.data.dtype)])
        found = ("storage", kind, obj.key, "cpu", obj.data.size)
        return (*found, None) if self.legacy else found

    def storage_of(self, data: NDArray) -> Storage:
        handle = data._handle
        if id(handle) not in self.storages:
            row = make_view((handle.size,), (1,), 0, data.dtype, data.device, handle)
            self.storages[id(handle)] = Storage(row, str(len(self.storages)))
        return self.storages[id(handle)]

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Parameter):
            return REBUILD_PARAMETER, (wrap(obj.cached_data), obj.requires_grad, OrderedDict())
        if isinstance(obj, Tensor):
            data = obj.realize_cached_data()
            place = (data.offset, tuple(data.shape), tuple(data.strides))
            fields: Any = (self.storage_of(data), *place, obj.requires_grad, OrderedDict())
            return REBUILD_TENSOR, fields
        if isinstance(obj, Size):
            return SIZE, (tuple(obj),)
        if isinstance(obj, device):
            return DEVICE, (str(obj),)
        return NotImplemented

    def save_named(self, obj: Named, *rest: object) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_dtype(self, obj: FaceDtype, *rest: object) -> None:
        self.write(pickle.GLOBAL + f"torch\n{str.__str__(obj)}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[dict[Any, Any]] = {
        **PythonPickler.dispatch,
        Named: save_named,
        FaceDtype: save_dtype,
    }


# Reading ------------------------------------------------------------------------------------------


class StorageKind:
    """The type of elements that a storage's class stands for."""

    def __init__(self, dtype: DType):
        self.dtype = dtype


def rebuild_tensor(
    storage: NDArray,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool = False,
    *rest: object,
) -> Tensor:
    """A tensor that shows a part of memory."""
    shape, strides = tuple(map(int, size)), tuple(map(int, stride))
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    outside = 0 not in shape and not 0 <= last < storage.size
    if outside or min(strides, default=0) < 0 or min(shape, default=0) < 0 or offset < 0:
        raise pickle.UnpicklingError(
            f"[load] a tensor of shape {shape} and strides {strides} does not fit into its storage "
            f"of {storage.size} elements."
        )
    view = make_view(shape, strides, offset, storage.dtype, storage.device, storage._handle)
    return wrap(view, requires_grad)


def rebuild_parameter(data: Tensor, requires_grad: bool, *rest: object) -> Parameter:
    """A parameter around a tensor's memory."""
    return make_node(Parameter, None, [], data.cached_data, bool(requires_grad))


def _numpy_scalar(dtype: Any, raw: bytes) -> Any:
    return np.frombuffer(raw, dtype)[0]


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode(encoding)


def _numpy_dtype(text: Any, *rest: object) -> Any:
    found = np.dtype(text)
    if found.hasobject:
        raise pickle.UnpicklingError("[load] arrays of objects are not read.")
    return found


KNOWN: dict[tuple[str, str], Callable[..., Any] | type] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("collections", "Counter"): Counter,
    ("collections", "deque"): deque,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("_codecs", "encode"): _encode,
    **{(module, "scalar"): _numpy_scalar
       for module in ("numpy.core.multiarray", "numpy._core.multiarray")},
    ("numpy", "dtype"): _numpy_dtype,
}  # fmt: skip
CALLED = {("builtins", "list"): list, ("builtins", "dict"): dict, ("builtins", "tuple"): tuple,
          ("builtins", "int"): int, ("builtins", "float"): float, ("builtins", "bool"): bool,
          ("builtins", "str"): str}  # fmt: skip


class Reader(pickle.Unpickler):
    """Reads tensors, containers and numbers, and refuses everything else."""

    def __init__(self, file: IO[bytes], storage: Callable[..., NDArray], encoding: str = "utf-8"):
        super().__init__(file, encoding=encoding)
        self.storage = storage

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle may name."""
        found = {**KNOWN, **CALLED}.get((module, name))
        if found is not None:
            return found
        if module in ("torch", "torch.storage") and name in STORAGES:
            return StorageKind(ENGINE[STORAGES[name]])
        if module == "torch" and name in {**ENGINE, **dtypes.ALIASES}:
            return face_dtype(dtypes.in_engine(name))
        raise pickle.UnpicklingError(
            f"[load] expected tensors, containers and numbers, got {module}.{name}: loading it "
            "would run code of the file. Save a state_dict (torch.save(model.state_dict(), path))."
        )

    def persistent_load(self, saved: Any) -> NDArray:
        """The memory that a tensor names."""
        if not isinstance(saved, tuple) or len(saved) < 5 or saved[0] != "storage":
            raise pickle.UnpicklingError("[load] expected a storage, got something else.")
        return self.storage(*saved[1:])
