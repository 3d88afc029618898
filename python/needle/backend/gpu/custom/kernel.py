"""Kernels of users: CUDA C that is compiled and run at once, with what the simulator finds.

A kernel is called with arrays of the device (their memory is what it writes), NumPy arrays (copied
there, and back afterwards) and numbers, which become what its parameters are.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .... import _native
from ....dtype import dtype_of
from .. import driver_path, find_driver, modules

if TYPE_CHECKING:
    from ....types import NumpyArray
    from ...protocol import Operand

Sizes: TypeAlias = int | Sequence[int]
Number: TypeAlias = int | float | np.generic
Argument: TypeAlias = "Operand | NumpyArray | Number"

# What a parameter of PTX can be; NVRTC writes .u32 for int and for unsigned.
INTEGERS = {
    "8": ctypes.c_uint8,
    "16": ctypes.c_uint16,
    "32": ctypes.c_uint32,
    "64": ctypes.c_uint64,
}
FLOATS = {"f32": ctypes.c_float, "f64": ctypes.c_double}
Value: TypeAlias = "ctypes._SimpleCData[int] | ctypes._SimpleCData[float]"

ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)", re.DOTALL)
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)[^,]*?\w+(\[\d+\])?\s*(?:,|$)")


class Kernel:
    """A kernel of CUDA C, called as kernel(grid, block, *arguments).

    It runs to its end before the call returns. On the simulator (NEEDLE_CUDA=sim) all checks are
    on; what they find is a RuntimeError that names the thread, the line and what it did.
    """

    def __init__(self, source: str, name: str | None = None, file: str = "kernel.cu"):
        if not find_driver():
            reason = _native.cuda.why_unavailable()
            raise RuntimeError(f"[Kernel] expected a GPU ({reason}); set NEEDLE_CUDA=sim.")
        ptx = modules.compiled(source, file, [])
        self.name, self._parameters = _choose(ptx.decode(), name)
        self._function = _load(ptx, self.name)

    def __call__(self, grid: Sizes, block: Sizes, *arguments: Argument, shared: int = 0) -> None:
        if len(arguments) != len(self._parameters):
            wanted = len(self._parameters)
            raise TypeError(f"[{self.name}] expected {wanted} arguments, got {len(arguments)}.")
        copies: list[tuple[NumpyArray, _native.Buffer]] = []
        values = [self._value(k, given, copies) for k, given in enumerate(arguments)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        _native.cuda.synchronize()  # what needle's stream still does to the arrays
        sizes = (*_sizes(grid, "grid"), *_sizes(block, "block"))
        try:
            _check(_driver().cuLaunchKernel(self._function, *sizes, shared, None, pointers, None))
            _native.cuda.synchronize()
        except RuntimeError:
            if _native.cuda.is_simulated():
                _driver().ptxsim_reset()  # the device can be used again
            raise
        for array, buffer in copies:
            _copy_back(array, buffer)

    def _value(
        self, k: int, given: Argument, copies: list[tuple[NumpyArray, _native.Buffer]]
    ) -> Value:
        """The argument as its parameter has it."""
        kind = self._parameters[k]
        if isinstance(given, (int, float, np.generic)):
            return self._number(k, given)
        if kind[1:] != "64" or kind in FLOATS:
            raise TypeError(f"[{self.name}] expected a number for argument {k}, got an array.")
        if isinstance(given, np.ndarray):
            handle = _copied(given)
            copies.append((given, handle))
            return ctypes.c_uint64(handle.ptr())
        return ctypes.c_uint64(self._address(k, getattr(given, "cached_data", given)))

    def _number(self, k: int, given: Number) -> Value:
        kind, number = self._parameters[k], given.item() if isinstance(given, np.generic) else given
        if kind in FLOATS:
            return FLOATS[kind](number)
        bits = int(kind[1:])
        if not isinstance(number, int) or not -(1 << bits - 1) <= number < 1 << bits:
            raise TypeError(
                f"[{self.name}] expected an integer of {bits} bits for argument {k}, got {given!r}."
            )
        return INTEGERS[kind[1:]](number)

    def _address(self, k: int, operand: Operand) -> int:
        device = getattr(operand, "device", None)
        if getattr(device, "type", None) != "cuda":
            raise TypeError(
                f"[{self.name}] expected an array of cuda() or of NumPy, or a number, for argument "
                f'{k}, got {type(operand).__name__} of {device}; move it with .to("cuda").'
            )
        step = 1
        for n, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
            if n != 1 and stride != step:
                raise ValueError(
                    f"[{self.name}] expected an array in C order for argument {k}, got strides "
                    f"{tuple(operand.strides)}; copy it with .contiguous()."
                )
            step *= n
        return int(operand._handle.ptr()) + operand.offset * operand.dtype.itemsize


def _choose(ptx: str, name: str | None) -> tuple[str, list[str]]:
    """The entry of that name, plain or as C++ mangles it; the only one if none is given."""
    entries = dict(ENTRY.findall(ptx))
    fits = [e for e in entries if name is None or e == name or f"{len(name)}{name}" in e]
    if len(fits) != 1:
        known = ", ".join(entries) or "none"
        raise ValueError(f"[Kernel] expected the name of one __global__ function of {known}, "
                         f"got {name!r}.")  # fmt: skip
    parameters = PARAMETER.findall(entries[fits[0]].strip())
    if any(count for _, count in parameters):
        raise ValueError(f"[{fits[0]}] expected pointers and numbers as parameters, got a struct.")
    return fits[0], [kind for kind, _ in parameters]


def _sizes(given: Sizes, what: str) -> tuple[int, ...]:
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ValueError(f"[Kernel] expected 1 to 3 positive sizes of the {what}, got {given!r}.")
    return (*sizes, 1, 1)[:3]


def _copied(array: NumpyArray) -> _native.Buffer:
    stored = np.ascontiguousarray(array)
    buffer = _native.cuda.empty(stored.size, dtype_of(stored.dtype))
    _native.cuda.copy_in(buffer, stored.ctypes.data)
    return buffer


def _copy_back(array: NumpyArray, buffer: _native.Buffer) -> None:
    if array.flags.writeable:
        found = np.empty(array.shape, array.dtype)
        _native.cuda.copy_out(buffer, found.ctypes.data)
        np.copyto(array, found)


# The driver --------------------------------------------------------------------------------------


@cache
def _driver() -> ctypes.CDLL:
    """The library that native code uses, for calls that it has no use for."""
    driver = ctypes.CDLL(driver_path())
    driver.cuLaunchKernel.argtypes = [
        ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return driver


def _load(ptx: bytes, name: str) -> ctypes.c_void_p:
    _native.cuda.synchronize()  # the context is current from here on
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), ptx))
    _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return function


def _check(result: int) -> None:
    if result != 0:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"[cuda] {(text.value or b'no text').decode()}")
