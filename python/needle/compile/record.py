"""A device that records: the kernels of the contract, noted in a graph instead of run.

While a function is traced, the devices' own kernels are replaced by a `Recorder`, for the tracing
thread alone. Arrays keep their device; what changes is the memory behind them: a `Handle` without
elements, which knows the graph's value that it holds at the moment.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..backend import BackendDevice
from ..backend.protocol import OUTPUTS, READS_OUTPUTS, Backend
from ..dtype import DType, int64
from ..ndarray.array import NDArray, make_view
from ..ndarray.bounds import Words
from ..ndarray.layout import Shape, compact_strides
from ..ndarray.random import recording as tracing, words_of
from ..user_code import user_place
from .errors import TraceError, at_user_line, needs_data
from .graph import (
    COMPUTED,
    CONSTANT,
    COUNTERS,
    HOST,
    INDEXING,
    FlatValue,
    Graph,
    Node,
    Operand,
    whole,
)

USE_WHERE = "use ndl.where, ndl.cond or ndl.while_loop instead, or compute this outside"


ABSENT = (
    "the tensor was made while a function was traced, and has no elements: it was kept by a call "
    "that failed, or is used on another thread; let the function return it."
)


class Handle:
    """Memory without elements: what it holds now is a value of the graph (None: not written).
    `trace` tells which trace it belongs to."""

    __slots__ = ("size", "dtype", "value", "trace", "__weakref__")
    absent = ABSENT  # what kernels say of it

    def __init__(self, size: int, dtype: DType, value: FlatValue | None = None):
        self.size = size
        self.dtype = dtype
        self.value = value
        recorder: Any = tracing.recorder
        self.trace = None if recorder is None else recorder.trace

    def ptr(self) -> int:
        raise needs_data("the address of a tensor was asked for", USE_WHERE)


class HostNumbers:
    """Numbers that NumPy's global generator draws anew for each call."""

    def __init__(self, draw: Callable[[], Any], value: FlatValue, device: BackendDevice):
        self.draw = draw
        self.value = value
        self.device = device


class Draw:
    """A place in the stream of a generator, counted in words from where a call starts."""

    def __init__(self, generator: Any, start: int, words: int, device: BackendDevice):
        self.generator = generator
        self.start = start
        self.words = words
        self.device = device


class Recording:
    """The graph that is being recorded, and the real memory that it was found to use."""

    def __init__(self) -> None:
        self.trace = object()
        self.graph = Graph()  # where calls are noted: the program's, or the body of a loop
        self.root = self.graph
        self.tracked: Any = None  # tensors from outside, of trace.py
        self.is_in_body = False  # of a loop, or of a function that is only chosen from:
        self.outside_writes: list[tuple[Handle, Any]] = []  # its writes, and what was there
        self.body_start = 0  # the number of its first value
        self.thread = threading.get_ident()
        self.host: list[HostNumbers] = []
        self.draws: list[Draw] = []
        self.generators: dict[int, tuple[Any, int]] = {}  # id -> (generator, its first position)
        self.counters: FlatValue | None = None
        self._drawing: Any = None
        self._checks: dict[Any, Node] = {}  # the first call that looks at some indices
        self.own: dict[int, Any] = {}  # id -> memory that was made by the function itself
        self._constants: dict[int, Handle] = {}  # id of real memory -> what stands for it

    # Values ---------------------------------------------------------------------------------

    def new_input(self, size: int, dtype: DType, kind: str) -> Handle:
        return Handle(size, dtype, self._outer_value(size, dtype, kind))

    def _outer_value(self, size: int, dtype: DType, kind: str) -> FlatValue:
        """A value that the program is given, wherever it is first used."""
        self.root.counter = self.graph.counter
        value = self.root.new_value(size, dtype, kind)
        self.graph.counter = self.root.counter
        return value

    def _handle_of(self, array: Any) -> Handle:
        """The handle of an array; real memory that no tensor was seen to hold is a constant."""
        handle = array._handle
        if isinstance(handle, Handle):
            if handle.trace is not self.trace:
                raise at_user_line(f"[jit] {ABSENT}")
            return handle
        found = self._constants.get(id(handle))
        if found is None:
            found = self.new_input(handle.size, array.dtype, CONSTANT)
            assert found.value is not None
            self.root.constants[found.value] = handle  # keeps it alive, and its id unique
            self._constants[id(handle)] = found
        return found

    def operand(self, array: Any) -> Operand:
        """What an array shows at this moment."""
        handle = self._handle_of(array)
        if handle.value is None:  # read before it was written: any elements will do
            handle.value = self._outer_value(handle.size, handle.dtype, CONSTANT)
            empty = array.device.mod.empty(handle.size, handle.dtype)
            self.root.constants[handle.value] = empty
        return Operand(handle.value, array.shape, array.strides, array.offset)

    def in_c_order(self, array: NDArray) -> Operand:
        """What an array shows, in C order: copied if it is not."""
        found = self.operand(array)
        if found.is_compact():
            return found
        out = whole(self.graph.new_value(found.size, found.dtype), found.shape)
        self.graph.nodes.append(Node("copy", (out, found), (out,), array.device))
        return out

    # Calls ----------------------------------------------------------------------------------

    def call(self, kernel: str, device: BackendDevice, args: tuple[Any, ...]) -> None:
        """Note a kernel call: its outputs' memory holds new values from now on."""
        names = parameters(kernel)
        written = OUTPUTS.get(kernel, ("out", "outs"))
        inputs = [
            None if n in written else self._entered(a) for n, a in zip(names, args, strict=True)
        ]
        continues: list[FlatValue | None] = []
        outs: list[Operand] = []

        def write(argument: Any) -> Any:
            if isinstance(argument, (tuple, list)):
                return tuple(write(a) for a in argument)
            if argument is None:  # an output that is not wanted
                return None
            outs.append(self._written(argument, kernel in READS_OUTPUTS, continues))
            return outs[-1]

        for i, (name, argument) in enumerate(zip(names, args, strict=True)):
            if name in written:
                inputs[i] = write(argument)
        formers = tuple(continues) if any(f is not None for f in continues) else ()
        node = Node(kernel, tuple(inputs), tuple(outs), device, formers, user_place())
        if (
            kernel in INDEXING
            and (first := self._checks.setdefault(node.indices(), node)) is not node
        ):
            node.first = first
        self.graph.nodes.append(node)

    def _entered(self, argument: Any) -> Any:
        if isinstance(argument, NDArray):
            return self.operand(argument)
        if isinstance(argument, (tuple, list)):
            return tuple(self._entered(a) for a in argument)
        return argument.item() if isinstance(argument, np.generic) else argument

    def _written(self, array: Any, is_read: bool, continues: list[FlatValue | None]) -> Operand:
        handle = self._handle_of(array)
        if handle is not array._handle and id(array._handle) not in self.own:
            raise TraceError(
                f"[jit] an array of shape {array.shape} from outside the function was written; "
                "let a Tensor hold it, so that the compiled function can find it."
            )
        if self.is_in_body and not self._is_of_body(handle.value):
            self.outside_writes.append((handle, handle.value))
        value = self.graph.new_value(handle.size, handle.dtype)
        out = Operand(value, array.shape, array.strides, array.offset)
        goes_on = handle.value is not None and (is_read or not out.is_whole())
        continues.append(handle.value if goes_on else None)
        handle.value = value
        return out

    def _is_of_body(self, value: FlatValue | None) -> bool:
        return value is None or (value.kind == COMPUTED and value.number >= self.body_start)

    def count_calls(self) -> int:
        """How many kernels the graph has."""
        return len(self.graph.nodes)

    def note_words(self, start: int, words: Words) -> None:
        """What an index out of range is told in, of kernels from `start` on."""
        for node in self.graph.nodes[start:]:
            if node.kernel in INDEXING:
                node.words += (words,)

    # Random numbers -------------------------------------------------------------------------

    def drawing_from(self, generator: Any) -> None:
        """A generator is about to draw."""
        self.generators.setdefault(id(generator), (generator, generator.position))
        self._drawing = generator

    def place_of_draw(self, words: int, device: BackendDevice) -> NDArray:
        """The generator's seed and its place now, which are inputs of the program."""
        generator, first = self.generators[id(self._drawing)]
        self.draws.append(Draw(generator, generator.position - first, words, device))
        if self.counters is None:
            self.counters = self._outer_value(0, int64, COUNTERS)
        self.counters.size = 2 * len(self.draws)
        counter = make_view((2,), (1,), self.counters.size - 2, int64, device, None)
        counter._handle = Handle(self.counters.size, int64, self.counters)
        return counter

    def random(self, device: BackendDevice, name: str, out: Any) -> None:
        """Note a draw."""
        place = self.place_of_draw(words_of(name, out.dtype), device)
        self.call("random_from", device, (name, out, place))

    def host_numbers(
        self, draw: Callable[[], Any], shape: Shape, dtype: DType, device: BackendDevice
    ) -> NDArray:
        """Numbers that come from NumPy at each call."""
        handle = self.new_input(math.prod(shape), dtype, HOST)
        assert handle.value is not None
        self.host.append(HostNumbers(draw, handle.value, device))
        return make_view(shape, compact_strides(shape), 0, dtype, device, handle)


class Recorder:
    """The kernels of a device while a function is traced; other threads get the real ones."""

    def __init__(self, recording: Recording, device: BackendDevice, kernels: Any):
        self._recording = recording
        self._device = device
        self.kernels = kernels

    def _elsewhere(self) -> bool:
        return threading.get_ident() != self._recording.thread

    def is_recording(self) -> bool:
        """Are this thread's calls noted, so that there are no elements to look at?"""
        return not self._elsewhere()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.kernels, name)
        if name.startswith("_") or name not in kernel_names() or self._elsewhere():
            return real

        def kernel(*args: Any, **kwargs: Any) -> None:
            self._recording.call(name, self._device, ordered(name, args, kwargs))

        return kernel

    def empty(self, size: int, dtype: DType) -> Any:
        return self.kernels.empty(size, dtype) if self._elsewhere() else Handle(size, dtype)

    def from_numpy(self, array: Any, dtype: DType) -> Any:
        """A constant of the program."""
        made = self.kernels.from_numpy(array, dtype)
        if not self._elsewhere():
            self._recording.own[id(made)] = made
        return made

    def to_numpy(self, a: Any) -> Any:
        if self._elsewhere() or self._is_untouched(a):
            return self.kernels.to_numpy(a)
        raise needs_data("the elements of a tensor were asked for", USE_WHERE)

    def nonzero(self, a: Any) -> Any:
        if self._elsewhere() or self._is_untouched(a):
            return self.kernels.nonzero(a)
        raise needs_data(
            "a shape depends on the elements of a tensor",
            "use ndl.where with a mask of full size, or compute the selection outside",
        )

    def _is_untouched(self, a: Any) -> bool:
        """Is it real memory, which no recorded call has written?"""
        if isinstance(a._handle, Handle):
            return False
        found = self._recording._constants.get(id(a._handle))
        return found is None or (found.value is not None and found.value.kind == CONSTANT)

    def random(self, name: str, out: Any, seed: int, offset: int) -> None:
        if self._elsewhere():
            self.kernels.random(name, out, seed, offset)
        else:
            self._recording.random(self._device, name, out)

    def run_each(self, program: Any, calls: Any) -> None:
        """Many calls of one program, each on its own: fusion sees what goes on in them."""
        if self._elsewhere():
            self.kernels.run_each(program, calls)
            return
        for outs, ins in calls:
            self._recording.call("run", self._device, (program, outs, ins, 0))


# The contract ------------------------------------------------------------------------------------


@cache
def kernel_names() -> frozenset[str]:
    """The kernels that write operands: what a recorder notes."""
    made = ("empty", "from_numpy", "to_numpy", "nonzero")
    found = [n for n in vars(Backend) if not n.startswith("_") and n not in made]
    return frozenset(found)


@cache
def _signature(kernel: str) -> inspect.Signature:
    signature = inspect.signature(getattr(Backend, kernel))
    return signature.replace(parameters=list(signature.parameters.values())[1:])


@cache
def parameters(kernel: str) -> tuple[str, ...]:
    """The names of a kernel's parameters."""
    return tuple(_signature(kernel).parameters)


def ordered(kernel: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments by position, with the defaults of those that were not given."""
    if not kwargs and len(args) == len(parameters(kernel)):
        return args
    bound = _signature(kernel).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())
