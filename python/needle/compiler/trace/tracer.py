"""Tracing: run a function once with arrays that record, and find its inputs and its effects.

The calls are recorded by `record.py`, reads and assignments of tensors from outside are noted by
`state.py`. Here these become a `Trace`: the graph, what it must be given at each call, and
`Output`s, which say who gets each array that it computes.
"""

from __future__ import annotations

import gc
import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ... import facts, tracing
from ...autograd import Tensor, Value
from ...autograd.backward import Freed
from ...backend import BackendDevice, default_device
from ...dtype import DType
from ...ndarray import random
from ...ndarray.array import NDArray, compact_view
from ...ndarray.layout import Shape
from ...ndarray.versions import meets_any
from ...tree import map_leaves
from ..errors import TraceError
from ..guards.attributes import Reached
from ..guards.generators import no_entropy
from ..guards.globals import Names
from ..ir.graph import INPUT, FlatValue, Graph, Operand, whole
from . import breaks
from .exchange import record_exchange
from .record import Draw, Handle, HostNumbers, Recorder, Recording
from .state import Cell, State, Tracked, grad_of

if TYPE_CHECKING:
    from ...autograd.op import Op
    from ...tracing import Call, Rewindable
    from ...types import Adjoint, Arrays, Backend, RawData

RESULT, DATA, GRADIENT, ESCAPED = "result", "data", "gradient", "escaped"
MEMORY, WRITTEN = "memory", "written"  # written in place: a state, an argument
EFFECT = "effect"  # the order of the exchanges between ranks: nobody gets it
lock = threading.RLock()  # one function is traced at a time
if hasattr(os, "register_at_fork"):  # the thread that holds the lock would not exist in a child
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )


@dataclass
class ArgumentType:
    """The type of an array argument, and the class of the Tensor that the function gets for it."""

    shape: Shape
    dtype: DType
    device: Any
    requires_grad: bool
    face: type[Tensor] | None  # None: it gets an NDArray
    same_as: int | None = None  # the position of an earlier argument that is the same object


@dataclass
class Output:
    """An array that the program computes, and who gets it.

    `target` is a position among the result's leaves (RESULT), a Cell or the position of an argument
    (DATA, GRADIENT), a State (MEMORY: all of it was written in place), the position of an argument
    that was written in place (WRITTEN), or a weak reference to a tensor that outlived the trace
    (ESCAPED). EFFECT has none: it keeps the exchanges between ranks in the program.
    """

    kind: str
    target: Any
    operand: Operand
    device: Any
    face: type[Tensor] | None = Tensor  # None: an NDArray
    requires_grad: bool = False
    is_freed: bool = False  # has a backward pass freed its history?
    given_as: tuple[int, ...] = ()  # positions in the result that return this gradient (GRADIENT)
    state: State | None = None  # the state that it replaces (DATA, GRADIENT)
    has_home: bool = False  # may it be computed in the memory of that state?
    is_early: bool = False  # may a call fail after it has been written?

    @property
    def is_gradient_of_state(self) -> bool:
        """Is it the gradient of a tensor from outside?"""
        return self.kind == GRADIENT and isinstance(self.target, Cell)


Target = int | Cell | State | weakref.ref[Value]
Rewrite = Callable[[Any], Any]  # a function -> the one that is called in its place
T = TypeVar("T")


def as_it_is(function: Any) -> Any:
    """No rewriting."""
    return function


@dataclass
class Trace:
    """A traced function: its graph and everything around it."""

    graph: Graph
    arguments: list[FlatValue]
    states: list[State]
    host: list[HostNumbers]
    draws: list[Draw]
    counters: FlatValue | None
    outputs: list[Output]
    result: Any  # the nesting of the results, with None in the places of arrays
    cleared: list[Any]  # tensors (or positions of arguments) whose gradient is None afterwards
    facts: facts.Facts
    grad_reads: list[tuple[Value, bool]]  # tensors from outside, and whether they had a gradient
    fixed_grads: list[tuple[Value, Any]]  # tensors whose gradient must be this very one
    without_grad: list[int]  # arguments whose gradient was read, and was None
    generators: list[tuple[Any, int]]  # with their positions when the trace started
    advances: list[tuple[Any, int]]  # the same ones, and how many words a call draws
    default_generator: Any
    escaped: bool
    names: Names
    undos: list[Callable[[], None]] = field(default_factory=list)  # if the call fails

    @cached_property
    def assigned(self) -> list[Value]:
        """The tensors from outside whose data is replaced."""
        cells = [o.target for o in self.outputs if o.kind == DATA and isinstance(o.target, Cell)]
        return [cell.tensor() for cell in cells]

    @cached_property
    def changed(self) -> frozenset[int]:
        """The ids of tensors from outside whose data is changed or whose gradient is used."""
        mutated = (cell.owner for output in self.mutated for cell in output.target.cells)
        targets = (o.target.owner for o in self.outputs if isinstance(o.target, Cell))
        read = (tensor for tensor, _ in self.grad_reads)
        return frozenset(map(id, (*self.assigned, *mutated, *targets, *read, *self.cleared)))

    @property
    def sources(self) -> list[Rewindable]:
        """What moves when Python draws numbers for the program."""
        return list({id(host.source): host.source for host in self.host}.values())

    @cached_property
    def mutated(self) -> list[Output]:
        """The memory that is written in place."""
        return [o for o in self.outputs if o.kind == MEMORY]


class Tracer(Recording):
    """What is in the slot of `needle/tracing.py` while a function is traced."""

    def __init__(self, rewrite: Rewrite) -> None:
        super().__init__()
        self.tracked: Tracked = Tracked(self)
        self.facts: facts.Facts = {}
        self.reached = Reached(self.facts)
        self.undos: list[Callable[[], None]] = []
        self._recorders: dict[str, Recorder] = {}  # by the name of the device
        self.rewrite = rewrite

    def meet(self, value: object) -> None:
        self.reached.meet(value)

    def kernels(self, device: BackendDevice, real: Backend) -> Recorder:
        """The kernels of a device, which record."""
        found = self._recorders.get(device.name)
        if found is None:
            found = self._recorders[device.name] = Recorder(self, device, real)
        return found

    def compute(self, call: tuple[Op, *Arrays]) -> NDArray | Arrays:
        """op.compute(*arrays), for call = (op, *arrays)."""
        op, *arrays = call
        return breaks.compute(self, op, tuple(arrays))

    def communicate(self, call: Call, outs: Arrays, ins: Arrays) -> None:
        record_exchange(self, call, outs, ins)

    def read_data(self, tensor: Value) -> RawData:
        return self.tracked.read_data(tensor)

    def write_data(self, tensor: Value, data: RawData) -> None:
        self.tracked.write_data(tensor, data)

    def read_grad(self, tensor: Value) -> Adjoint:
        return self.tracked.read_grad(tensor)

    def write_grad(self, tensor: Value, grad: Adjoint) -> None:
        self.tracked.write_grad(tensor, grad)

    def note_made(self, tensor: Value) -> None:
        self.tracked.note_made(tensor)


def trace(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    arguments: Sequence[ArgumentType | None],
    rewrite: Rewrite = as_it_is,
) -> Trace:
    """Run function(*args, **kwargs) on arrays that record.

    `arguments` has an entry per leaf of (args, kwargs), None for values that are passed as they
    are. When the function raises, every tensor and generator is as before. `rewrite` gives the
    functions that are called in the place of this one, and of those that modules in it call.
    """
    tracer = Tracer(rewrite)
    tracked, undos, reached = tracer.tracked, tracer.undos, tracer.reached
    try:
        with (
            reached.noting(function, (args, kwargs)),
            no_entropy(),
            facts.noting(),
            tracing.tracing(tracer),
        ):
            traced = _run(rewrite(function), args, kwargs, arguments, tracked)
    except BaseException:
        facts.undo(undos)
        reached.generators.rewind()
        raise
    finally:
        for generator, position in tracer.generators.values():
            generator.position = position
        del tracer.tracked  # no cycle: it would keep tensors' memory
        tracked.restore()
    traced.facts = tracer.facts
    tracked.forget()
    reached.forget()
    _add_escaped(traced, tracked)
    traced.names = reached.names()
    if traced.escaped:  # else no tensor depends on this one call
        traced.undos = undos
    elif traced.names.hold() and facts.hold(tracer.facts.values()):  # it may be used again
        reached.generators.check()
    _check_apart(traced.states)
    traced.graph.results = [output.operand for output in traced.outputs]
    return traced


def _check_apart(states: list[State]) -> None:
    """Raise if a write to one state could change another one."""
    for state in states:
        others = (other.real for other in states if other is not state)
        if state.is_mutated and meets_any(state.real, others):
            raise TraceError(
                f"[jit] the function writes into a tensor of shape {state.arrays[0].shape} from "
                "outside that shares memory, by way of NumPy or DLPack, with another one that it "
                "uses; let one be a view of the other (x[...]), or a copy."
            )


def _run(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    arguments: Sequence[ArgumentType | None],
    tracked: Tracked,
) -> Trace:
    recording = tracked.recording
    (call_args, call_kwargs), arrays, entered = _enter((args, kwargs), arguments, recording)
    values = [array._handle.value for array in arrays]
    default_generator = random.default_generator()
    out = function(*call_args, **call_kwargs)
    without_grad = [i for i, given in entered.items() if id(given) in tracked.without_grad]
    cleared = [i for i, given in entered.items() if _is_cleared(given, tracked)]
    written: list[Output] = []
    gradients: dict[int, Output] = {}  # id of the tensor -> its output
    for i, given in entered.items():
        written += _argument_writes(i, given, arrays[i], values[i], recording, gradients)
    written += _state_writes(tracked, gradients)
    outputs, result = _results(out, recording, gradients)
    if recording.exchanges is not None:
        order = whole(recording.exchanges)
        written.append(Output(EFFECT, None, order, default_device()))
    return Trace(
        graph=recording.graph,
        arguments=values,
        states=list(tracked.states.values()),
        host=recording.host,
        draws=recording.draws,
        counters=recording.counters,
        outputs=outputs + written,
        result=result,
        cleared=cleared + [tensor for tensor, grad in tracked.grads.values() if grad is None],
        facts={},
        grad_reads=list(tracked.grad_reads.values()),
        fixed_grads=tracked.fixed_grads,
        without_grad=without_grad,
        generators=list(recording.generators.values()),
        advances=[(g, g.position - start) for g, start in recording.generators.values()],
        default_generator=default_generator,
        escaped=False,
        names=Names((), ()),
    )


# What goes in ------------------------------------------------------------------------------------


def _enter(
    tree: T, arguments: Sequence[ArgumentType | None], recording: Recording
) -> tuple[T, list[NDArray], dict[int, Tensor | NDArray]]:
    """What the function is called with, the recording array of each array argument, and the tensor
    or array that the function gets for it, by position (an object that is passed twice: once)."""
    arrays: list[NDArray] = []
    entered: dict[int, Tensor | NDArray] = {}
    types = iter(arguments)

    def enter(leaf: object) -> object:
        kind = next(types)
        if kind is None:
            return leaf
        array = _new_argument(recording, kind)
        arrays.append(array)
        if kind.same_as is not None:
            return entered[kind.same_as]
        given = kind.face.make_const(array, kind.requires_grad) if kind.face else array
        entered[len(arrays) - 1] = given
        return given

    return map_leaves(enter, tree), arrays, entered


def _new_argument(recording: Recording, kind: ArgumentType) -> NDArray:
    handle = recording.new_input(math.prod(kind.shape), kind.dtype, INPUT)
    return compact_view(kind.shape, kind.dtype, kind.device, handle)


# What comes out ----------------------------------------------------------------------------------


def _output(kind: str, target: Target, array: NDArray, recording: Recording) -> Output:
    return Output(kind, target, recording.operand(array), array.device)


def _results(
    out: object, recording: Recording, gradients: dict[int, Output]
) -> tuple[list[Output], object]:
    """The arrays among the leaves of a result, and the nesting with None in their places.

    A result that is some `x.grad` gets no output of its own: the caller gets that very tensor.
    """
    outputs: list[Output] = []
    position = -1

    def take(leaf: object) -> object:
        nonlocal position
        position += 1
        if not isinstance(leaf, (Tensor, NDArray)):
            return leaf
        if isinstance(leaf, NDArray):
            outputs.append(_output(RESULT, position, leaf, recording))
            outputs[-1].face = None
            return None
        gradient = gradients.get(id(leaf))
        if gradient is not None and not leaf.requires_grad:
            gradient.given_as += (position,)
            return None
        outputs.append(_output(RESULT, position, leaf.realize_cached_data(), recording))
        outputs[-1].face = leaf._face
        outputs[-1].requires_grad = leaf.requires_grad
        outputs[-1].is_freed = isinstance(leaf.op, Freed)
        return None

    return outputs, map_leaves(take, out)


def _argument_writes(
    i: int,
    given: Tensor | NDArray,
    array: NDArray,
    value: FlatValue,
    recording: Recording,
    gradients: dict[int, Output],
) -> list[Output]:
    """What the function did to an argument: other data, data written in place, a gradient."""
    written: list[Output] = []
    if array._handle.value is not value:
        written.append(_output(WRITTEN, i, array, recording))
    data = given.cached_data if isinstance(given, Tensor) else given
    if data is not array:
        written.append(_output(DATA, i, data, recording))
    if isinstance(given, Tensor) and given.grad is not None:
        written.append(_output(GRADIENT, i, given.grad.realize_cached_data(), recording))
        gradients[id(given.grad)] = written[-1]
    return written


def _is_cleared(given: Tensor | NDArray, tracked: Tracked) -> bool:
    """Did the function set the gradient of an argument to None?"""
    return isinstance(given, Tensor) and id(given) in tracked.grad_writes and given.grad is None


def _state_writes(tracked: Tracked, gradients: dict[int, Output]) -> list[Output]:
    """Tensors from outside with other data or another gradient, and memory written in place."""
    recording = tracked.recording
    written: list[Output] = []
    for tensor, data in tracked.assigned.values():
        written.append(_output(DATA, _cell(tracked, tensor), data, recording))
        written[-1].state = _state_of(tracked, tensor)
    for tensor, grad in tracked.grads.values():
        if grad is not None:
            data = grad.realize_cached_data()
            written.append(_output(GRADIENT, Cell(tensor, True), data, recording))
            written[-1].state = _state_of(tracked, grad_of(tensor))
            gradients[id(grad)] = written[-1]
    for state in tracked.states.values():
        if state.is_mutated:
            device = state.arrays[0].device
            assert state.handle.value is not None
            written.append(Output(MEMORY, state, whole(state.handle.value), device))
    return written


def _cell(tracked: Tracked, tensor: Value) -> Cell:
    found = tracked.found.get(id(tensor))
    return Cell(tensor, False) if found is None else found.cell


def _state_of(tracked: Tracked, tensor: Value | None) -> State | None:
    found = tracked.found.get(id(tensor))
    return None if found is None else tracked.states[id(found.real._handle)]


def _add_escaped(traced: Trace, tracked: Tracked) -> None:
    """Add an output for every tensor of the trace that is still referenced: it gets its data after
    the run.

    Such a function has changed Python state (it appended to a list, or made state on first use), so
    the program is right for this one call only.
    """
    if any(ref() is not None for ref in tracked.made):
        gc.collect()
    for ref in tracked.made:
        tensor = ref()
        data = None if tensor is None else tensor.cached_data
        if isinstance(data, NDArray) and isinstance(data._handle, Handle):
            traced.outputs.append(_output(ESCAPED, ref, data, tracked.recording))
            traced.escaped = True
