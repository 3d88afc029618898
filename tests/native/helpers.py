"""Operands for calling the native kernels directly, without NDArray."""

import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np

from needle import _native
from needle.dtype import dtype_of


class Array:
    """The least that a kernel asks of an operand."""

    def __init__(self, handle, shape, strides, offset=0):
        self._handle = handle
        self.shape = shape
        self.strides = strides
        self.offset = offset

    @property
    def dtype(self):
        return dtype_of(self._handle.dtype)

    def numpy(self):
        return _native.to_numpy(self)


def compact(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def blank(shape, dtype="float32"):
    return Array(_native.empty(int(np.prod(shape, dtype=object)), dtype), shape, compact(shape))


def array(values, dtype=None):
    values = np.ascontiguousarray(values, dtype)
    return Array(_native.from_numpy(values, str(values.dtype)), values.shape, compact(values.shape))


@contextmanager
def threads(count):
    before = _native.get_num_threads()
    _native.set_num_threads(count)
    try:
        yield
    finally:
        _native.set_num_threads(before)


@contextmanager
def instruction_set(name):
    before = _native.instruction_set()
    _native.use_instruction_set(name)
    try:
        yield
    finally:
        _native.use_instruction_set(before)


def run_script(text, **environment):
    """Runs Python code in a process of its own; its output, with errors shown."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
