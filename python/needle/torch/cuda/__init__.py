"""`torch.cuda` of a build for the CPU: questions are answered, GPUs are errors."""

from __future__ import annotations

import contextlib
from typing import Any

from ..amp import GradScaler as GradScaler, autocast as _autocast

__all__: list[str] = []


def is_available() -> bool:
    """Is there a GPU? No."""
    return False


is_initialized = is_bf16_supported = is_current_stream_capturing = is_available


def device_count() -> int:
    """How many GPUs there are."""
    return 0


def _none(*args: object, **options: object) -> None:
    """Nothing: there is no GPU."""


manual_seed = manual_seed_all = seed = seed_all = empty_cache = synchronize = ipc_collect = _none
reset_peak_memory_stats = reset_max_memory_allocated = set_per_process_memory_fraction = _none
reset_accumulated_memory_stats = _none


def _zero(*args: object, **options: object) -> int:
    """No memory of a GPU is used."""
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _zero
memory_cached = max_memory_cached = initial_seed = _zero


def memory_stats(device: object = None) -> dict[str, Any]:
    """Nothing to count."""
    return {}


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """Nothing to tell."""
    return ""


def get_rng_state_all() -> list[Any]:
    """The states of no GPUs."""
    return []


def set_rng_state_all(new_states: list[Any]) -> None:
    """Nothing to set."""


def _refuse(*args: object, **options: object) -> Any:
    """An error, as of PyTorch's build for the CPU."""
    raise AssertionError("Torch not compiled with CUDA enabled")


init = current_device = get_device_name = get_device_properties = get_device_capability = _refuse
set_device = get_rng_state = set_rng_state = mem_get_info = current_stream = _refuse
default_stream = _refuse


class _NoDevice(contextlib.ContextDecorator):
    """A context that would choose a GPU or a stream."""

    def __init__(self, *args: object, **options: object):
        if args and args[0] not in (None, -1):
            _refuse()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


device = stream = device_of = _NoDevice


class Stream:
    """A stream of a GPU: there is none."""

    def __init__(self, *args: object, **options: object):
        _refuse()


Event = CUDAGraph = Stream


class amp:
    """PyTorch's older place of mixed precision."""

    GradScaler = GradScaler

    class autocast(_autocast):
        """`autocast("cuda")`, which does nothing here."""

        def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True):
            super().__init__("cuda", dtype, enabled, cache_enabled)


class nvtx:
    """Marks for a profiler of GPUs: nothing."""

    range_push = range_pop = mark = staticmethod(_none)


def FloatTensor(*data: Any) -> Any:
    """A tensor on the GPU: an error."""
    return _refuse()


LongTensor = DoubleTensor = HalfTensor = IntTensor = ByteTensor = BoolTensor = FloatTensor
