"""Questions and settings of a process."""

from __future__ import annotations

from typing import Any

from ... import __version__ as engine_version
from ..._native import get_num_threads as _threads, set_num_threads as _set_threads
from ...autograd import Tensor as EngineTensor, is_grad_enabled
from . import dtypes
from .device import CPU, device, place
from .typed import dtype_of_class

VERSION = "2.13.0"  # of PyTorch, whose meaning this is


class TorchVersion(str):
    """PyTorch's version; compared by its numbers."""

    def _numbers(self, other: object) -> tuple[list[int], list[int]]:
        texts = (str(self), ".".join(map(str, other)) if isinstance(other, tuple) else str(other))
        first, second = ([int(p) for p in t.split("+")[0].split(".") if p.isdigit()] for t in texts)
        return first, second

    def __lt__(self, other: object) -> bool:
        a, b = self._numbers(other)
        return a < b

    def __le__(self, other: object) -> bool:
        a, b = self._numbers(other)
        return a <= b

    def __gt__(self, other: object) -> bool:
        a, b = self._numbers(other)
        return a > b

    def __ge__(self, other: object) -> bool:
        a, b = self._numbers(other)
        return a >= b


__version__ = TorchVersion(f"{VERSION}+needle{engine_version}")


class version:
    """What PyTorch says about itself."""

    __version__ = __version__
    cuda = hip = xpu = git_version = None
    debug = False


def is_tensor(obj: object) -> bool:
    """Is it a tensor?"""
    return isinstance(obj, EngineTensor)


def is_storage(obj: object) -> bool:
    """Is it a storage? There are none."""
    return False


def is_nonzero(input: Any) -> bool:
    """Is the only element not zero?"""
    return bool(input)


def get_num_threads() -> int:
    """How many threads kernels run on."""
    return int(_threads())


def set_num_threads(count: int) -> None:
    """Choose how many threads kernels run on."""
    if count < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _set_threads(count)


get_num_interop_threads = get_num_threads


def set_num_interop_threads(count: int) -> None:
    """Nothing: there is one pool."""


def set_default_device(target: object) -> None:
    """Choose where tensors are made: the CPU is the only place."""
    if target is not None:
        place(target)


def get_default_device() -> device:
    """The CPU"""
    return CPU


def set_default_tensor_type(t: object) -> None:
    """Choose the dtype of floats, by PyTorch's old class."""
    dtypes.set_default_dtype(dtypes.face_dtype(dtype_of_class(t)))


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing: results are the same in each run."""


def are_deterministic_algorithms_enabled() -> bool:
    """Results are the same in each run, but nobody asked for it."""
    return False


is_deterministic_algorithms_warn_only_enabled = are_deterministic_algorithms_enabled


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Nothing: results are the same in each run."""


def get_deterministic_debug_mode() -> int:
    """0"""
    return 0


_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Note how precise products should be; on the CPU they are in float32."""
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Invalid float32 matmul precision {precision!r}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What was noted."""
    return _precision


def is_inference_mode_enabled() -> bool:
    """Is nothing recorded?"""
    return not is_grad_enabled()


def is_inference(tensor: object) -> bool:
    """Was it made in inference mode? That is not noted."""
    return False


def is_warn_always_enabled() -> bool:
    """No."""
    return False


def set_warn_always(b: bool) -> None:
    """Nothing."""


def is_anomaly_enabled() -> bool:
    """Is a faulty gradient looked for?"""
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Are operators computing in half precision? Not on the CPU."""
    return False


is_autocast_cpu_enabled = is_autocast_enabled


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype of mixed precision."""
    return dtypes.bfloat16


def set_flush_denormal(mode: bool) -> bool:
    """Not done."""
    return False


def typename(obj: object) -> str:
    """The name of a type."""
    if isinstance(obj, EngineTensor):
        return str(obj.type())
    return f"{type(obj).__module__}.{type(obj).__qualname__}"
