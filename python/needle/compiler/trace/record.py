"""A device that records: the kernels of the contract, added to a graph instead of run.

While a function is traced, a `Recorder` takes the place of each device's kernels (`tracing.py`).
Arrays keep their device, but their memory is a `Handle` without elements, which refers
to the value of the graph that it holds at the moment.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import tracing
from ...backend import BackendDevice
from ...backend.protocol import OUTPUTS, READS_OUTPUTS, Backend
from ...dtype import DType, int64
from ...ndarray.array import NDArray, compact_view, make_view
from ...ndarray.index.errors import Words
from ...ndarray.layout import Shape
from ...ndarray.random import words_of
from ...system.user_code import user_place
from ..errors import at_user_line, needs_data
from ..ir.graph import (
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

if TYPE_CHECKING:
    from ...ndarray.random import Generator
    from ...tile.ir import TypedProgram
    from ...tracing import Rewindable
    from ...types import NumpyArray

USE_WHERE = "use ndl.where, ndl.cond or ndl.while_loop instead, or compute this outside"
ABSENT = (
    "the tensor was made while a function was traced, and has no elements: it was kept by a call "
    "that failed, or is used on another thread; let the function return it."
)


class Handle:
    """Memory without elements: it holds a value of the graph (None: it was not written yet), and
    belongs to one trace."""

    __slots__ = ("size", "dtype", "value", "trace", "__weakref__")
    absent = ABSENT  # the error of native kernels that are given it

    def __init__(self, size: int, dtype: DType, value: FlatValue | None = None):
        self.size = size
        self.dtype = dtype
        self.value = value
        tracer = tracing.active()
        self.trace = None if tracer is None else tracer.trace

    def ptr(self) -> int:
        tracer = tracing.active()
        if tracer is None or tracer.trace is not self.trace:
            raise TypeError(f"[jit] {ABSENT}")
        raise needs_data("the memory of a tensor was asked for", USE_WHERE)


class HostNumbers:
    """An input whose numbers Python draws for each call, from NumPy's global generator or another
    source."""

    def __init__(
        self,
        draw: Callable[[], object],
        value: FlatValue,
        device: BackendDevice,
        source: Rewindable,
    ):
        self.draw = draw
        self.source = source
        self.value = value
        self.device = device


class Draw:
    """A draw: its position in the stream of a generator, in words from where a call starts, and how
    many words one number takes."""

    def __init__(self, generator: Generator, start: int, words: int, device: BackendDevice):
        self.generator = generator
        self.start = start
        self.words = words
        self.device = device


class Recording:
    """The graph that is being recorded, and the real memory that it was found to use."""

    def __init__(self) -> None:
        self.trace = object()  # the identity of the trace, which its handles carry
        self.graph = Graph()  # where calls are added: the whole program, or the body of a loop
        self.root = self.graph  # the whole program
        self.tracked: Any = None  # a state.Tracked: what happens to tensors from outside
        self.reached: Any = None  # a guards.Reached: Python objects that the function reads
        # While the body of a loop or a branch of `cond` runs (bodies.py): the number of its first
        # value, and its writes to memory from outside of it, with what that memory held before.
        self.is_in_body = False
        self.body_start = 0
        self.outside_writes: list[tuple[Handle, Any]] = []
        self.is_again = False  # is a step recorded again, for the gradient of a loop?
        self.host: list[HostNumbers] = []
        self.draws: list[Draw] = []
        self.generators: dict[int, tuple[Any, int]] = {}  # id -> (generator, its first position)
        self.exchanges: FlatValue | None = None  # which exchange between ranks was the last one
        self.counters: FlatValue | None = None  # the input with seed and offset of every draw
        self._drawing: Any = None  # the generator that draws at the moment
        self._checks: dict[Any, Node] = {}  # for some indices, the first call that checks them
        self.own: dict[int, Any] = {}  # id -> real memory that the function itself made
        self._constants: dict[int, Handle] = {}  # id of real memory -> its stand-in

    # Values ---------------------------------------------------------------------------------

    def new_input(self, size: int, dtype: DType, kind: str) -> Handle:
        return Handle(size, dtype, self._outer_value(size, dtype, kind))

    def _outer_value(self, size: int, dtype: DType, kind: str) -> FlatValue:
        """A value that the program is given, wherever it is first used."""
        self.root.counter = self.graph.counter
        value = self.root.new_value(size, dtype, kind)
        self.graph.counter = self.root.counter
        return value

    def _handle_of(self, array: NDArray) -> Handle:
        """The handle of an array. Real memory that the function made itself is a constant; other
        real memory is state, as that of a tensor from outside is (state.py)."""
        handle = array._handle
        if isinstance(handle, Handle):
            if handle.trace is not self.trace:
                raise at_user_line(f"[jit] {ABSENT}")
            return handle
        if id(handle) not in self.own:
            outside: Handle = self.tracked.memory_of(array)
            return outside
        found = self._constants.get(id(handle))
        if found is None:
            found = self.new_input(handle.size, array.dtype, CONSTANT)
            assert found.value is not None
            self.root.constants[found.value] = handle  # keeps it alive, and its id unique
            self._constants[id(handle)] = found
        return found

    def operand(self, array: NDArray) -> Operand:
        """An array as an operand: a view of the value that its memory holds now."""
        handle = self._handle_of(array)
        if handle.value is None:  # read before it was written: any elements will do
            handle.value = self._outer_value(handle.size, handle.dtype, CONSTANT)
            empty = array.device.mod.empty(handle.size, handle.dtype)
            self.root.constants[handle.value] = empty
        return Operand(handle.value, array.shape, array.strides, array.offset)

    def in_c_order(self, array: NDArray) -> Operand:
        """An array as an operand in C order: a copy if it is in another order."""
        found = self.operand(array)
        if found.is_compact():
            return found
        out = whole(self.graph.new_value(found.size, found.dtype), found.shape)
        self.graph.nodes.append(Node("copy", (out, found), (out,), array.device))
        return out

    # Calls ----------------------------------------------------------------------------------

    def call(self, kernel: str, device: BackendDevice, args: tuple[object, ...]) -> None:
        """Add a kernel call to the graph; the memory of its outputs now holds new values."""
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

    def _entered(self, argument: object) -> object:
        if isinstance(argument, NDArray):
            return self.operand(argument)
        if isinstance(argument, (tuple, list)):
            return tuple(self._entered(a) for a in argument)
        return argument.item() if isinstance(argument, np.generic) else argument

    def _written(self, array: NDArray, is_read: bool, continues: list[FlatValue | None]) -> Operand:
        handle = self._handle_of(array)
        if self.is_in_body and not self._is_of_body(handle.value):
            self.outside_writes.append((handle, handle.value))
        value = self.graph.new_value(handle.size, handle.dtype)
        out = Operand(value, array.shape, array.strides, array.offset)
        keeps_elements = is_read or not out.is_whole()
        continues.append(handle.value if keeps_elements else None)
        handle.value = value
        return out

    def _is_of_body(self, value: FlatValue | None) -> bool:
        return value is None or (value.kind == COMPUTED and value.number >= self.body_start)

    def count_calls(self) -> int:
        """How many calls the graph has so far."""
        return len(self.graph.nodes)

    def note_words(self, start: int, words: Words) -> None:
        """Let calls from number `start` on report an index out of range in these words."""
        for node in self.graph.nodes[start:]:
            if node.kernel in INDEXING:
                node.words += (words,)

    # Random numbers -------------------------------------------------------------------------

    def drawing_from(self, generator: Any) -> None:
        """A generator is about to draw."""
        self.generators.setdefault(id(generator), (generator, generator.position))
        self._drawing = generator

    def seeding(self) -> None:
        """A generator is about to be seeded."""
        raise at_user_line(
            "[jit] expected a function that seeds no generator: it would do so in its first call "
            "only; seed before the call (ndl.manual_seed), or draw from a generator from outside."
        )

    def place_of_draw(self, words: int, device: BackendDevice) -> NDArray:
        """The seed and the offset of a draw that happens now: two elements of an input of the
        program."""
        generator, first = self.generators[id(self._drawing)]
        self.draws.append(Draw(generator, generator.position - first, words, device))
        if self.counters is None:
            self.counters = self._outer_value(0, int64, COUNTERS)
        self.counters.size = 2 * len(self.draws)
        counter = make_view((2,), (1,), self.counters.size - 2, int64, device, None)
        counter._handle = Handle(self.counters.size, int64, self.counters)
        return counter

    def random(self, device: BackendDevice, name: str, out: NDArray) -> None:
        """Add a draw to the graph."""
        place = self.place_of_draw(words_of(name, out.dtype), device)
        self.call("random_from", device, (name, out, place))

    def host_numbers(
        self,
        draw: Callable[[], object],
        shape: Shape,
        dtype: DType,
        device: BackendDevice,
        source: Rewindable,
    ) -> NDArray:
        """Numbers that Python draws at each call."""
        handle = self.new_input(math.prod(shape), dtype, HOST)
        assert handle.value is not None
        self.host.append(HostNumbers(draw, handle.value, device, source))
        return compact_view(shape, dtype, device, handle)


class Recorder:
    """The kernels of a device while a function is traced; `kernels` are those that compute."""

    def __init__(self, recording: Recording, device: BackendDevice, kernels: Backend):
        self._recording = recording
        self._device = device
        self.kernels = kernels

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in kernel_names():
            return getattr(self.kernels, name)

        def kernel(*args: object, **kwargs: object) -> None:
            self._recording.call(name, self._device, ordered(name, args, kwargs))

        return kernel

    def empty(self, size: int, dtype: DType) -> Handle:
        return Handle(size, dtype)

    def from_numpy(self, array: NumpyArray, dtype: DType) -> object:
        """A constant of the program."""
        made = self.kernels.from_numpy(array, dtype)
        self._recording.own[id(made)] = made
        return made

    def to_numpy(self, a: NDArray) -> NumpyArray:
        if self._is_untouched(a):
            return self.kernels.to_numpy(a)
        raise needs_data("the elements of a tensor were asked for", USE_WHERE)

    def nonzero(self, a: NDArray) -> object:
        if self._is_untouched(a):
            return self.kernels.nonzero(a)
        raise needs_data(
            "a shape depends on the elements of a tensor",
            "use ndl.where with a mask of full size, or compute the selection outside",
        )

    def _is_untouched(self, a: NDArray) -> bool:
        """Is it real memory that the function made itself, and no recorded call has written?"""
        if id(a._handle) not in self._recording.own:
            return False
        found = self._recording._constants.get(id(a._handle))
        return found is None or (found.value is not None and found.value.kind == CONSTANT)

    def random(self, name: str, out: NDArray, seed: int, offset: int) -> None:
        self._recording.random(self._device, name, out)

    def run_each(
        self, program: TypedProgram, calls: Sequence[tuple[list[NDArray], list[NDArray]]]
    ) -> None:
        """Many calls of one program, recorded one by one, so that fusion can join each of them."""
        for outs, ins in calls:
            self._recording.call("run", self._device, (program, outs, ins, 0))


# The contract ------------------------------------------------------------------------------------


@cache
def kernel_names() -> frozenset[str]:
    """The kernels that write operands: those that are recorded."""
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


def ordered(kernel: str, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    """The arguments by position, with the defaults of those that were not given."""
    if not kwargs and len(args) == len(parameters(kernel)):
        return args
    bound = _signature(kernel).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())
