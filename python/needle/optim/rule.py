"""The rule of an optimizer as one tile program, run over all parameters in one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import Tensor
from ..ndarray import layout
from ..ndarray.array import NDArray, empty_like, strides_like
from ..tile.ir import FULL, SCALAR
from ..tile.program import Program, Symbol, computed_like, trace

Update = Callable[[Symbol, Symbol, dict[str, Any], list[Symbol]], Symbol]


class Cell(Symbol):
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
        cells = {n: Cell(v.builder, v.number) for n, v in zip(state, rest, strict=False)}
        rates = [computed_like(v, p) for v in rest[len(state) :]]
        return (update(p, g, cells, rates), *cells.values())

    arguments = ["p", "g", *state, *(f"rate{i}" for i in range(n_rates))]
    kinds = [FULL] * (2 + len(state)) + [SCALAR] * n_rates
    return trace(rule, name, arguments, kinds)


def can_run(p: Tensor, g: Tensor) -> bool:
    """Are both arrays of a device (not NumPy's)?"""
    return all(isinstance(t.realize_cached_data(), NDArray) for t in (p, g))


def run_rule(
    program: Program, members: Sequence[tuple[Sequence[Tensor], Tensor]], rates: Sequence[Tensor]
) -> None:
    """Run it for each (the parameter and its state, its gradient), on one device."""
    shared = [r.realize_cached_data() for r in rates]
    outs = [[_target(t, g.realize_cached_data()) for t in changed] for changed, g in members]
    calls = [
        (tuple(out), (own.realize_cached_data(), g.realize_cached_data(),
                      *(t.realize_cached_data() for t in state), *shared))
        for out, ((own, *state), g) in zip(outs, members, strict=True)
    ]  # fmt: skip
    first = calls[0][1]
    typed = program.for_dtypes(tuple(a.dtype for a in first), tuple(a.dtype for a in calls[0][0]))
    first[0].device.mod.run_each(typed, calls)
    for out, (changed, _) in zip(outs, members, strict=True):
        for tensor, array in zip(changed, out, strict=True):
            tensor.data = Tensor.make_const(array)


def _target(tensor: Tensor, gradient: NDArray) -> NDArray:
    """Where a tensor's next value goes: its own memory if nobody else knows it, else new memory.

    It lies in memory as the gradient does, so that an update goes through all memory in order:
    filters of a convolution are (O, C, K...) to the user, and their gradients (K..., C, O).
    Matrices stay row-major."""
    array: NDArray = tensor.realize_cached_data()
    # The tensor, `array` and the argument refer to the array; the array and an argument to memory.
    is_own = sys.getrefcount(array) <= 3 and sys.getrefcount(array._handle) <= 2
    shape = array.shape
    leading = [gradient] if len(shape) > 2 else []
    strides = strides_like(shape, *leading) or layout.compact_strides(shape)
    fits = array._handle.size == array.size and all(
        n == 1 or here == there
        for n, here, there in zip(shape, array.strides, strides, strict=True)
    )
    if is_own and fits and not getattr(array._handle, "readonly", False):
        return array
    return empty_like(shape, array.dtype, array.device, *leading)
