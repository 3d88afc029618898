"""Optimizers whose rule goes element by element: one tile program, run over all parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ... import torch
from ...autograd.writing import note_write
from ...dtype import float64
from ...facts import Fact
from ...ndarray import functions as F, layout
from ...ndarray.array import make_view
from ...optim.rule import rule_program
from ...tile.ir import Program
from ...tracing import active, tracing
from .optimizer import Optimizer

if TYPE_CHECKING:
    from ...autograd import Tensor
    from ...types import NDArray

__all__ = ["ElementwiseOptimizer", "number"]

State = dict[str, Any]
Group = dict[str, Any]
Key = tuple[object, ...]


def number(value: Any) -> float:
    """A number that may be given as a tensor."""
    return float(value.item()) if isinstance(value, torch.Tensor) else value


def check_at_least(name: str, value: Any, least: float = 0.0) -> None:
    """An option is not below its least value."""
    if not least <= number(value):
        raise ValueError(f"Invalid {name}: {value}")


class ElementwiseOptimizer(Optimizer):
    """Subclasses say what a parameter's state is at first, a step's numbers, and its rule."""

    compiles: ClassVar[bool] = True
    counts: ClassVar[bool] = True  # is there a `step` in the state?
    _programs: ClassVar[dict[Key, Program]] = {}

    def first_state(self, p: Tensor, group: Group) -> State:
        """The averages before the first step."""
        raise NotImplementedError

    def rates(self, group: Group, t: float) -> Sequence[float]:
        """The numbers of step t, which are the same for all elements."""
        raise NotImplementedError

    def flags(self, group: Group) -> Key:
        """What decides the form of the rule."""
        raise NotImplementedError

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        """The next p, of values of a program; the next state is assigned to `s[name].data`."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        if group.get("differentiable"):
            raise NotImplementedError(
                f"[torch.optim.{type(self).__name__}] differentiable=True is missing; write the "
                "update with tensors."
            )
        together: dict[Key, list[Tensor]] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                if self.counts:
                    with tracing(None):
                        state["step"] = torch.tensor(0.0)
                state.update(self.first_state(p, group))
            t = self._next_step(state) if self.counts else 0.0
            names = tuple(n for n in state if n in self._averages(state))
            together.setdefault((t, names, p.dtype), []).append(p)
        for key, members in together.items():
            t, names, _ = cast("tuple[float, tuple[str, ...], object]", key)
            self._run(group, t, names, members)

    @staticmethod
    def _next_step(state: State) -> float:
        """The number of this step. While a function is traced, its program counts (`Counted`)."""
        if not isinstance(state["step"], torch.Tensor):
            state["step"] = torch.tensor(float(state["step"]))
        step = state["step"]
        if active() is None:
            step += 1
            return number(step)
        with tracing(None):
            return number(step) + 1

    def _rates(self, group: Group, t: float, members: list[Tensor]) -> list[Any]:
        """The numbers of step t as scalars, on the members' device."""
        device = members[0].cached_data.device
        tracer = active()
        if tracer is None:
            return [F.full((), rate, "float64", device) for rate in self.rates(group, t)]
        steps = [self.state[p]["step"] for p in members] if self.counts else []
        with tracing(None):
            counted, count = Counted(self, group, steps), len(self.rates(group, t))
        tracer.facts[id(self), f"options {id(group)}"] = counted.options()
        row = tracer.host_numbers(counted.draw, (count,), float64, device, counted)
        return [make_view((), (), i, float64, device, row._handle) for i in range(count)]

    @staticmethod
    def _averages(state: State) -> list[str]:
        return [n for n, v in state.items() if n != "step" and isinstance(v, torch.Tensor)]

    def _run(self, group: Group, t: float, names: tuple[str, ...], members: list[Tensor]) -> None:
        scalars = self._rates(group, t, members)
        flags = (bool(group.get("maximize")), *self.flags(group))
        key = (type(self), flags, names, len(scalars))
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._make(flags, names, len(scalars))
        calls = []
        copies: list[tuple[NDArray, NDArray]] = []
        changing = []
        for p in members:
            state = self.state[p]
            tensors = [p, *(state[name] for name in names)]
            arrays = [tensor.realize_cached_data() for tensor in tensors]
            g = _in_rows(p.grad.realize_cached_data())  # type: ignore[union-attr]
            g = g if g.dtype is arrays[0].dtype else F.cast(g, arrays[0].dtype)
            ins = [_in_rows(array) for array in arrays]
            copies += [(a, b) for a, b in zip(arrays, ins, strict=True) if a is not b]
            calls.append((ins, [ins[0], g, *ins[1:], *scalars]))
            changing += tensors
        outs, inputs = cast("tuple[list[Any], list[Any]]", calls[0])
        typed = program.for_dtypes(tuple(a.dtype for a in inputs), tuple(a.dtype for a in outs))
        inputs[0].device.mod.run_each(typed, calls)
        for array, computed in copies:
            F.assign(array, computed)
        for tensor in changing:
            note_write(tensor)

    def _make(self, flags: Key, names: tuple[str, ...], count: int) -> Program:
        maximizes, *more = flags

        def update(p: Any, g: Any, state: State, rates: list[Any]) -> Any:
            return self.rule(p, -g if maximizes else g, state, tuple(more), rates)

        return rule_program(type(self).__name__, update, names, count)


class Counted:
    """The rates of a compiled step, which Python computes at each run: it counts the steps, and
    sees the learning rate of the moment."""

    def __init__(self, optimizer: ElementwiseOptimizer, group: Group, steps: Sequence[Tensor]):
        self.optimizer, self.group = optimizer, group
        self.steps = [step.numpy() for step in steps]  # their memory

    def draw(self) -> Sequence[float]:
        """Count, and compute the rates."""
        for step in self.steps:
            step += 1
        return self.optimizer.rates(self.group, float(self.steps[0]) if self.steps else 0.0)

    def options(self) -> Fact:
        """What the program has fixed of the group."""
        form = partial(form_of, self.optimizer, self.group)
        return Fact(form, form(), f"{type(self.optimizer).__name__}'s options", is_told=False)

    def get_state(self) -> list[float]:
        """The counts."""
        return [float(step) for step in self.steps]

    def set_state(self, state: list[float]) -> None:
        """Count from there."""
        for step, count in zip(self.steps, state, strict=True):
            step[...] = count


def form_of(optimizer: ElementwiseOptimizer, group: Group) -> tuple[object, ...]:
    """What decides the form of a group's step: options, and whose step it is."""
    members = tuple(map(id, group["params"]))
    return (bool(group.get("maximize")), *optimizer.flags(group), members)


def _in_rows(array: NDArray) -> NDArray:
    """The array, or a copy of it in C order."""
    if layout.is_row_major(array.shape, array.strides):
        return array
    return F.copy(array)


def averages(p: Tensor, *names: str) -> State:
    """Zeros in the form of p."""
    return {name: torch.zeros_like(p.detach()) for name in names}
