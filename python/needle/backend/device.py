"""Devices: named sets of kernels. `cpu()` native, `cpu_numpy()` reference, `cuda()` a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from .. import _native
from .protocol import Offers

if TYPE_CHECKING:
    from .gpu.custom.kernel import Kernel

__all__ = [
    "BackendDevice", "cpu", "cpu_numpy", "cuda", "default_device", "all_devices", "device_named",
    "host", "memory_stats",
]  # fmt: skip


class DeviceUnavailable(AttributeError, RuntimeError):
    """A kernel of a device that this machine does not have was asked for.

    An AttributeError too: to Python, and programs such as pytest that look at objects, the device
    simply does not have it."""


class BackendDevice(_native.DeviceBase):
    """A device: its name and the module with its kernels (None when it is not available)."""

    __slots__ = ("name", "offers")

    mod: Any  # while a function is traced, what records its calls (needle/tracing.py)

    def __init__(self, name: str, mod: object, offers: Offers | None = None):
        self.name = name
        self.mod = mod
        self.offers = offers or Offers()  # to compiled functions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BackendDevice) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{self.name}()"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find, (self.name,))

    def __getattr__(self, name: str) -> Any:
        """The course's functions first, then the kernels themselves. Names between double
        underscores are Python's questions about the device, not about the module of its kernels;
        the course has one of its own."""
        if name in ("name", "mod", "offers"):  # not set yet: the device is being made
            raise AttributeError(name)
        from . import course

        found = course.lookup(name, self.mod)
        is_pythons = found is None and name.startswith("__") and name.endswith("__")
        is_kernel = self.mod is not None or hasattr(cpu_numpy().mod, name)
        if is_pythons or (found is None and not is_kernel):
            raise AttributeError(f"[{self}] a device has no attribute {name!r}.")
        if self.mod is None:
            raise DeviceUnavailable(_unavailable(self))
        return getattr(self.mod, name) if found is None else found

    @property
    def type(self) -> str:
        """The kind of hardware, PyTorch's question: "cpu" or "cuda"."""
        return "cuda" if self.name == "cuda" else "cpu"

    @property
    def index(self) -> None:
        """PyTorch's number of a device among those of its type: there is one of each."""
        return None

    def enabled(self) -> bool:
        """Can arrays be made on this device?"""
        return self.mod is not None


@cache
def cpu() -> BackendDevice:
    """The CPU through the native core."""
    from .native import kernels, offers

    return BackendDevice("cpu", kernels, offers)


def host() -> BackendDevice:
    """The device whose memory other libraries share, and on which exported programs run."""
    return cpu()


@cache
def cpu_numpy() -> BackendDevice:
    """The CPU through NumPy: the reference."""
    from . import reference

    return BackendDevice("cpu_numpy", reference)


class Cuda:
    """`cuda()` is an NVIDIA GPU, or a simulated one (NEEDLE_CUDA=sim). The driver is looked for at
    the first call; without one, `cuda().enabled()` is False."""

    @cached_property
    def _device(self) -> BackendDevice:
        from . import gpu

        if not gpu.find_driver():
            return BackendDevice("cuda", None)
        from .gpu import kernels

        return BackendDevice("cuda", kernels, kernels.offers)

    def __call__(self) -> BackendDevice:
        return self._device

    def is_available(self) -> bool:
        """Can arrays be made there? PyTorch's question."""
        return self._device.enabled()

    def device_count(self) -> int:
        """How many there are: one at most."""
        return int(self.is_available())

    def synchronize(self) -> None:
        """Wait until everything that was handed to the device is done; errors of kernels show
        here."""
        self._driver.synchronize()

    def get_device_name(self) -> str:
        """The device's name, which says so if it is simulated."""
        return str(self._driver.properties()["name"])

    def get_device_properties(self) -> dict[str, Any]:
        """What the device is: its name, its compute capability, its sizes."""
        found: dict[str, Any] = self._driver.properties()
        return found

    def memory_stats(self) -> dict[str, int]:
        """Bytes of the device in use, their peak, and bytes kept for reuse."""
        found: dict[str, int] = self._driver.memory_stats()
        return found

    @property
    def Kernel(self) -> type[Kernel]:
        """CUDA C that is compiled and run: `ndl.cuda.Kernel(source)(grid, block, *arrays)`."""
        from .gpu.custom.kernel import Kernel

        return Kernel

    @property
    def _driver(self) -> Any:
        if not self.is_available():
            raise DeviceUnavailable(_unavailable(self._device))
        return _native.cuda


cuda = Cuda()
_DEVICES: dict[str, Callable[[], BackendDevice]] = {
    "cpu": cpu,
    "cuda": cuda,
    "cpu_numpy": cpu_numpy,
}


def memory_stats(device: BackendDevice | str | None = None) -> dict[str, int]:
    """Bytes of a device's memory in use (`live`), their `peak`, and bytes kept for reuse
    (`pooled`); of the CPU if none is given."""
    found = cpu() if device is None else device_named(device)
    if found.type == "cuda":
        return cuda.memory_stats()
    return _native.memory_stats()


def default_device() -> BackendDevice:
    """Where arrays are made when nothing else is said."""
    return cpu()


def all_devices() -> list[BackendDevice]:
    """Every device that needle knows, enabled or not."""
    return [device() for device in _DEVICES.values()]


def device_named(name: str | BackendDevice) -> BackendDevice:
    """The device of that name, "cpu" or "cpu()", if arrays can be made on it.

    >>> device_named("cpu_numpy")
    cpu_numpy()
    """
    device = name if isinstance(name, BackendDevice) else _find(name)
    if device.mod is None:
        raise RuntimeError(_unavailable(device))
    return device


def _find(name: str) -> BackendDevice:
    for its_name, device in _DEVICES.items():
        if name in (its_name, f"{its_name}()"):
            return device()
    known = ", ".join(_DEVICES)
    raise ValueError(f"[device] expected one of {known}, got {name!r}.")


def _unavailable(device: BackendDevice) -> str:
    reason = f" ({_native.cuda.why_unavailable()})" if device.name == "cuda" else ""
    return f"[{device}] this device is not available on this machine{reason}; use cpu()."
