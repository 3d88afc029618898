"""The rule of an optimizer as tile programs: one for the rates, one over all parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..autograd import Tensor, replace_data
from ..backend import BackendDevice
from ..dtype import DType
from ..ndarray import layout
from ..ndarray.array import NDArray, empty_like, strides_like
from ..ndarray.kernels.programs import run_all
from ..tile.ir import FULL, SCALAR
from ..tile.program import Program, Symbol, computed_like, trace

if TYPE_CHECKING:
    from .group import ParamGroup
    from .optimizer import Optimizer

Update = Callable[[Any, Any, dict[str, Any], list[Any]], Any]  # optimizers write it for tensors


class StateSymbol(Symbol):
    """A value of the state: assigning `.data` lets it be another one from then on."""

    @property
    def data(self) -> Symbol:
        return Symbol(self.builder, self.number)

    @data.setter
    def data(self, value: Symbol) -> None:
        self.number = value.number


def rule_program(name: str, update: Update, state: Sequence[str], n_rates: int) -> Program:
    """(p, g, state..., rates...) -> (p, state...), by update(p, g, state, rates).

    The rates are float64 scalars, and reach `update` in the type that the parameter is computed in:
    as a half, β2 = 0.999 would be 1 and eps = 1e-8 nothing."""

    def rule(p: Symbol, g: Symbol, *rest: Symbol) -> tuple[Symbol, ...]:
        cells = {n: StateSymbol(v.builder, v.number) for n, v in zip(state, rest, strict=False)}
        rates = [computed_like(v, p) for v in rest[len(state) :]]
        return (update(p, g, cells, rates), *cells.values())

    arguments = ["p", "g", *state, *(f"rate{i}" for i in range(n_rates))]
    kinds = [FULL] * (2 + len(state)) + [SCALAR] * n_rates
    return trace(rule, name, arguments, kinds)


def rate_program(
    name: str,
    rates: Callable[[ParamGroup, Tensor], Sequence[Tensor]],
    group: ParamGroup,
    names: Sequence[str],
) -> Program:
    """(count, hyperparameters...) -> (count + 1, rates...), by rates(group, count + 1)."""

    def advance(count: Symbol, *numbers: Symbol) -> tuple[Symbol, ...]:
        t: Any = count + 1
        symbolic: Any = SymbolicGroup(group, dict(zip(names, numbers, strict=True)))
        return t, *cast("Sequence[Symbol]", rates(symbolic, t))

    return trace(advance, f"{name} rates", ["count", *names])


class SymbolicGroup:
    """A group whose hyperparameters are values of a program."""

    def __init__(self, group: ParamGroup, numbers: dict[str, Symbol]):
        self._group = group
        self.tensor = numbers.__getitem__
        self.uses = group.uses

    def __getitem__(self, name: str) -> object:
        return self._group[name]


def can_run(count: Tensor) -> bool:
    """Is it an array of a device (not NumPy's), as all that an optimizer makes then is?"""
    return isinstance(count.realize_cached_data(), NDArray)


Changing = tuple[list[Tensor], Tensor]  # a parameter and its state; its gradient


class Rule:
    """The step of an optimizer for groups of one form: two tile programs."""

    def __init__(self, optimizer: Optimizer, group: ParamGroup, names: tuple[str, ...]):
        self.names, self.state = names, frozenset(names)
        self.variable = optimizer.variable
        name = type(optimizer).__name__
        self.rates = rate_program(name, optimizer.rates, group, self.variable)
        self.update = rule_program(
            name,
            lambda p, g, state, numbers: optimizer.update(p, g, state, group, numbers),
            names,
            len(self.rates.outputs) - 1,
        )

    def step(self, count: Tensor, group: ParamGroup, members: Sequence[Changing]) -> None:
        """Count the step, and change the members by it."""
        numbers = [group.tensor(name).realize_cached_data() for name in self.variable]
        t, *rates = run_all(self.rates, count.realize_cached_data(), *numbers)
        replace_data([count], [t])
        together: dict[Any, list[Changing]] = {}  # by dtype and device
        for member in members:
            p = member[0][0]
            together.setdefault((p.dtype, p.device), []).append(member)
        for (dtype, device), sharing in together.items():
            fitting = rates if rates[0].device is device else [rate.to(device) for rate in rates]
            self._update_all(dtype, device, sharing, fitting)

    def _update_all(
        self, dtype: DType, device: BackendDevice, members: list[Changing], rates: list[NDArray]
    ) -> None:
        calls = []
        for changing, gradient in members:
            g = gradient.realize_cached_data()
            g = g if g.dtype is dtype else g.astype(dtype)
            outs = [_target(tensor, g) for tensor in changing]
            p, *state = changing
            ins = [p.cached_data, g, *[t.cached_data for t in state], *rates]
            calls.append((outs, ins))
        outs, ins = calls[0]
        inputs, outputs = [a.dtype for a in ins], [a.dtype for a in outs]
        typed = self.update.for_dtypes(tuple(inputs), tuple(outputs))
        device.mod.run_each(typed, calls)
        tensors = [tensor for changing, _ in members for tensor in changing]
        replace_data(tensors, [array for outs, _ in calls for array in outs])


def _target(tensor: Tensor, gradient: NDArray) -> NDArray:
    """Where a tensor's next value goes: its own memory if nobody else knows it, else new memory.

    It lies in memory as the gradient does, so that an update goes through all memory in order:
    filters of a convolution are (O, C, K...) to the user, and their gradients (K..., C, O).
    Matrices stay row-major."""
    array: NDArray = tensor.realize_cached_data()
    # The tensor, `array` and the argument refer to the array; the array and an argument to memory.
    is_own = sys.getrefcount(array) <= 3 and sys.getrefcount(array._handle) <= 2
    shape, strides = array.shape, array.strides
    leading = [gradient] if len(shape) > 2 else []
    wanted = strides_like(shape, *leading) if leading else None
    in_order = layout.is_row_major(shape, strides) if wanted is None else wanted == strides
    is_whole = array._handle.size == array.size
    if is_own and in_order and is_whole and not getattr(array._handle, "readonly", False):
        return array
    return empty_like(shape, array.dtype, array.device, *leading)
