"""CUDA: a device whose kernels are CUDA C, compiled to PTX and handed to the driver.

`kernels.py` has every function of the contract; `modules.py` and `nvrtc.py` make PTX of the sources
in native/cuda/kernels; what talks to the driver is native code (native/cuda).
"""

from functools import cache
from pathlib import Path

from ... import _native, config

SIMULATOR = "native/libneedle_ptxsim.so"


@cache
def find_driver() -> bool:
    """Is there a driver with a device, or the simulator where it is asked for? NEEDLE_CUDA says
    which: nothing, "off", "sim", or the path of a library that stands for the driver."""
    if config.CUDA == "off":
        return False
    if config.CUDA is not None:
        _native.cuda.set_library(driver_path(), True)
        _native.cuda.set_caching(False)
    return _native.cuda.is_available()


def driver_path() -> str:
    """The library that is the driver, or stands for it."""
    if config.CUDA == "sim":
        return str(Path(_native.__file__).parent / SIMULATOR)
    return config.CUDA or "libcuda.so.1"
