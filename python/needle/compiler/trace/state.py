"""Tensors from outside that a traced function uses: inputs by reference, and outputs if assigned.

While a function is traced, every read and assignment of a tensor's `cached_data` or `grad` comes to
a `Tracked` by way of the tracer. The first read of a tensor that is older than the trace makes its
data an input of the program; an assignment is only noted. So the tensors themselves do not change
before the program has run, even if tracing fails.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ... import autograd
from ...autograd import Value
from ...dtype import DType
from ...ndarray.array import NDArray, make_view
from ...ndarray.layout import effective_strides
from ..errors import TraceError
from ..ir.graph import STATE
from .record import Handle, Recording

if TYPE_CHECKING:
    from ...types import Adjoint, RawData


def data_of(tensor: Value) -> Any:
    """The array in a tensor's slot."""
    return tensor._data


def set_data(tensor: Value, data: RawData) -> None:
    tensor._data = data


def grad_of(tensor: Value) -> Adjoint:
    return tensor._grad


def set_grad(tensor: Value, grad: Adjoint) -> None:
    tensor._grad = grad


_holders: weakref.WeakValueDictionary[int, Value] = weakref.WeakValueDictionary()


def _holder_of(array: NDArray) -> Value:
    """A tensor with the memory of an array, by which programs find it: one for all of them."""
    holder = _holders.get(id(array._handle))
    if holder is None:
        holder = _holders[id(array._handle)] = Value.make_const(array)
    return holder


class Cell(NamedTuple):
    """Where a call finds state: in a tensor, or in the gradient of one."""

    owner: Value
    is_grad: bool

    def tensor(self) -> Value:
        return cast(Value, grad_of(self.owner)) if self.is_grad else self.owner

    def __eq__(self, other: object) -> bool:
        """The same tensor; == of tensors would compare elements."""
        if not isinstance(other, Cell):
            return False
        return self.owner is other.owner and self.is_grad is other.is_grad

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.owner), self.is_grad))


class Layout(NamedTuple):
    """What a program assumes of an array."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # effective ones
    offset: int
    size: int  # of its memory
    dtype: DType
    device: str


def layout_of(a: NDArray) -> Layout:
    """The layout of an array."""
    strides = effective_strides(a.shape, a.strides)
    return Layout(a.shape, strides, a.offset, a._handle.size, a.dtype, a.device.name)


class State:
    """Memory from outside, and the tensors that hold it when the function is traced."""

    def __init__(self, handle: Handle, real: object):
        assert handle.value is not None
        self.handle = handle
        self.real = real  # keeps it alive, and its id unique, while the function is traced
        self.value = handle.value  # what it holds when a call starts
        self.cells: list[Cell] = []
        self.arrays: list[NDArray] = []  # the array of each cell when it was traced

    @property
    def is_mutated(self) -> bool:
        """Was it written in place, so that all tensors that share it must see the new elements?"""
        return self.handle.value is not self.value

    def release(self) -> None:
        """Drop the references to the memory, so that only its tensors hold it."""
        self.real = None
        self.arrays.clear()


class Found:
    """A tensor that is older than the trace: its cell, its real array, the recording array that
    stands for it, and what made it."""

    __slots__ = ("cell", "tensor", "real", "stand_in", "identity")

    def __init__(self, cell: Cell, tensor: Value, real: NDArray, stand_in: NDArray):
        self.cell = cell
        self.tensor = tensor
        self.real = real
        self.stand_in = stand_in
        self.identity = (tensor.op, tensor.inputs, tensor.requires_grad, tensor._stamp)


class Tracked:
    """What a traced function did with tensors from outside."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.start = autograd.next_stamp()
        self.found: dict[int, Found] = {}  # by id of the tensor
        self.states: dict[int, State] = {}  # by id of the real memory: tensors may share it
        self.assigned: dict[int, tuple[Value, Any]] = {}  # id -> (tensor, its new array)
        self.grads: dict[int, tuple[Value, Adjoint]] = {}  # id -> (tensor, its new gradient)
        self.grad_reads: dict[int, tuple[Value, bool]] = {}  # id -> (tensor, had it a gradient?)
        # Tensors with gradients that the function has also used by themselves, or as others'.
        self.fixed_grads: list[tuple[Value, Value]] = []
        self.made: list[weakref.ref[Value]] = []  # tensors that the function made
        self.without_grad: set[int] = set()  # ids of those whose gradient was read as None
        self.grad_writes: set[int] = set()  # ids of those whose gradient was set
        self._owners: dict[int, Value] = {}  # id of a gradient -> whose it is
        self._marks: dict[int, tuple[Value, int]] = {}  # `_replaced` of assigned tensors, before

    def is_outside(self, tensor: Value) -> bool:
        return tensor._stamp < self.start

    # Data -----------------------------------------------------------------------------------

    def read_data(self, tensor: Value) -> RawData:
        key = id(tensor)
        if key in self.found:
            known = self.assigned.get(key)
            return self.found[key].stand_in if known is None else known[1]
        if not self.is_outside(tensor):
            return cast("RawData", data_of(tensor))
        if key in self.assigned:
            return cast("RawData", self.assigned[key][1])
        real = data_of(tensor)
        if not isinstance(real, NDArray) or isinstance(real._handle, Handle):
            return cast(
                "RawData", real
            )  # no data yet, the arrays of a tuple, or an array of the trace
        return self._capture(tensor, real).stand_in

    def _capture(self, tensor: Value, real: NDArray) -> Found:
        owner = self._owners.get(id(tensor))
        cell = Cell(tensor, False) if owner is None else Cell(owner, True)
        state = self.states.get(id(real._handle))
        if state is None:
            handle = self.recording.new_input(real._handle.size, real.dtype, STATE)
            state = self.states[id(real._handle)] = State(handle, real._handle)
        state.cells.append(cell)
        state.arrays.append(real)
        handle = state.handle
        stand_in = make_view(real.shape, real.strides, real.offset, real.dtype, real.device, handle)
        found = self.found[id(tensor)] = Found(cell, tensor, real, stand_in)
        return found

    def memory_of(self, array: NDArray) -> Handle:
        """The stand-in for the memory of an array from outside that no tensor holds."""
        holder = _holder_of(array)
        found = self.found.get(id(holder)) or self._capture(holder, data_of(holder))
        handle: Handle = found.stand_in._handle
        return handle

    def write_data(self, tensor: Value, data: RawData) -> None:
        if not self.is_outside(tensor):
            set_data(tensor, data)
            return
        if id(tensor) not in self.found and data_of(tensor) is not None:
            self._capture(tensor, data_of(tensor))
        self._marks.setdefault(id(tensor), (tensor, tensor._replaced))
        self.assigned[id(tensor)] = (tensor, data)

    # Gradients ------------------------------------------------------------------------------

    def read_grad(self, tensor: Value) -> Adjoint:
        if not self.is_outside(tensor):
            grad = grad_of(tensor)
            if grad is None and id(tensor) not in self.grad_writes:
                self.without_grad.add(id(tensor))
            return grad
        if id(tensor) in self.grads:
            return self.grads[id(tensor)][1]
        grad = grad_of(tensor)
        self.grad_reads.setdefault(id(tensor), (tensor, grad is not None))
        if grad is not None:
            is_first = self._owners.setdefault(id(grad), tensor) is tensor
            found = self.found.get(id(grad))
            if not is_first or (found is not None and not found.cell.is_grad):
                self.fixed_grads.append((tensor, grad))
        return grad

    def write_grad(self, tensor: Value, grad: Adjoint) -> None:
        if self.is_outside(tensor):
            self.grads[id(tensor)] = (tensor, grad)
        else:
            self.grad_writes.add(id(tensor))
            set_grad(tensor, grad)

    def note_made(self, tensor: Value) -> None:
        self.made.append(weakref.ref(tensor))

    # The end --------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop the references to the function's own tensors, to see which of them outlive it."""
        self.grads.clear()
        self.assigned.clear()

    def restore(self) -> None:
        """Undo what tracing did to tensors from outside; raise if one of them got a history."""
        changed = None
        for found in self.found.values():
            tensor = found.tensor
            if tensor._stamp != found.identity[3]:
                changed = tensor
                tensor.op, tensor.inputs, tensor.requires_grad, tensor._stamp = found.identity
        for tensor, mark in self._marks.values():
            tensor._replaced = mark
        if changed is not None:
            raise TraceError(
                f"[jit] a tensor of shape {changed.shape} from outside the function was assigned "
                "to with a gradient to record (x[i] = v); assign to a copy (x.clone()), or under "
                "ndl.no_grad()."
            )
