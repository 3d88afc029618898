"""What NEEDLE_BACKEND selects: the array module and the devices that course code asks for."""

from types import ModuleType

import numpy

from ..config import BACKEND
from . import backend_ndarray, backend_numpy

__all__ = [
    "BACKEND", "Device", "NDArray", "all_devices", "array_api", "cpu", "cpu_numpy", "cuda",
    "default_device",
]  # fmt: skip

if BACKEND == "np":
    array_api: ModuleType = numpy
    NDArray: type = numpy.ndarray
    all_devices = backend_numpy.all_devices
    __all__.remove("cpu_numpy")
    __all__.remove("cuda")
else:
    array_api = backend_ndarray
    NDArray = backend_ndarray.NDArray
    all_devices = backend_ndarray.all_devices
    cpu_numpy = backend_ndarray.cpu_numpy
    cuda = backend_ndarray.cuda

Device = backend_ndarray.BackendDevice
cpu = backend_ndarray.cpu
default_device = backend_ndarray.default_device
