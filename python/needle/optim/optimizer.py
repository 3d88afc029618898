"""Optimizer: groups of parameters, their state, and the step that a rule of update is put into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast, overload

import numpy as np

from .. import config
from ..autograd import Tensor, clear_gradients, enable_grad, no_grad
from ..dtype import dtype_of
from ..facts import changed, fact, undo_on_failure
from ..system import saved
from ..transforms.clipping import clip_grad_norm_
from .group import ParamGroup
from .rule import Rule, can_run

__all__ = ["Optimizer"]

L = TypeVar("L")
T = TypeVar("T")
State = dict[str, Tensor]  # what an optimizer keeps for one parameter: "step" and its averages
# Options of PyTorch's optimizers that choose how, not what, is computed; and parameters' names.
_HOW = {"foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay", "param_names"}


class Optimizer:
    """Changes parameters by their gradients.

    params: tensors, or dicts {"params": tensors, "lr": ..., ...} that override the defaults for a
    group. A subclass gives the rule: `rates` (numbers that all parameters share, computed once in
    float64), `init_state` and `update`.

    Every number that changes is a tensor that keeps its identity and is assigned through `.data`
    (step counts, averages, and the hyperparameters in `variable`), so a compiled step sees it.
    """

    variable: ClassVar[tuple[str, ...]] = ("lr", "weight_decay")
    not_in_pytorch: ClassVar[frozenset[str]] = frozenset()  # options that its states do not have
    # Do `rates` and `update` work element by element, with + - * / **, square, sqrt, sign and
    # maximum only? Then they are traced once and run as tile programs (rule.py).
    elementwise: ClassVar[bool] = False

    def __init__(self, params: Iterable[Tensor | Mapping[str, object]], **defaults: object):
        if isinstance(params, Tensor):
            raise TypeError("[optim] expected a list of parameters, got one Tensor; use [tensor].")
        if not isinstance(params, Iterable):
            got = type(params).__name__
            raise TypeError(f"[optim] expected Tensors, got {got}; give model.parameters().")
        self.defaults = defaults
        self.groups: list[ParamGroup] = []
        self.state: dict[Tensor, State] = {}
        self._rules: dict[Any, Rule] = {}  # by the group's form
        given: list[Any] = list(params)
        if not given:
            raise ValueError("[optim] expected parameters, got an empty list.")
        if any(isinstance(p, Mapping) for p in given):
            for group in given:
                self.add_param_group(group)
        else:
            self.add_param_group({"params": given})

    # The rule, given by subclasses --------------------------------------------------------------

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        """New averages for a parameter."""
        return {}

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        """0-d tensors that `update` needs, from the hyperparameters and the step count t (from 1).

        They are computed in float64 and reach `update` in the parameter's dtype."""
        return (group.tensor("lr"),)

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        """The parameter's next value, from its value p and gradient g (both of p's dtype)."""
        raise TypeError(f"[{type(self).__name__}] define update(p, g, state, group, rates).")

    # Stepping -----------------------------------------------------------------------------------

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], L]) -> L: ...
    def step(self, closure: Callable[[], L] | None = None) -> L | None:
        """Update every parameter that has a gradient; returns the closure's loss if there is one.

        Gradients keep their values but lose their history, so nothing of the graph stays alive."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        undo_on_failure(self._undo)
        with no_grad():
            for group in fact(self, "groups", lambda: (*self.groups,)):
                for count, members in self._stepping(group):
                    self._check_gradients(members)
                    if self.elementwise and can_run(count):
                        self._run_rule(group, count, members)
                    else:
                        self._update_each(group, count, members)
        return loss

    def _undo(self) -> Callable[[], None]:
        """What makes the state consist of the tensors again of which it consists now."""
        before = {p: dict(state) for p, state in self.state.items()}

        def restore() -> None:
            self.state.clear()
            self.state.update(before)
            changed()

        return restore

    def _check_gradients(self, members: list[Tensor]) -> None:
        for p in members:
            gradient = p.grad
            if gradient.op is not None:
                p.grad = gradient.detach()
            if gradient.shape != p.shape:
                raise ValueError(
                    f"[{type(self).__name__}] expected a gradient of the parameter's shape "
                    f"{p.shape}, got {gradient.shape}."
                )

    def _update_each(self, group: ParamGroup, count: Tensor, members: list[Tensor]) -> None:
        """`update` for one parameter after the other, by operators."""
        count.data = count + 1
        rates = self.rates(group, count)
        for p in members:
            fitting = [rate.to(p.device, p.dtype) for rate in rates]
            gradient = p.grad.astype(p.dtype)
            p.data = self.update(p.detach(), gradient, self.state[p], group, fitting)

    def _run_rule(self, group: ParamGroup, count: Tensor, members: list[Tensor]) -> None:
        """`rates` as one tile program, and `update` as another, over all members in one call."""
        rule = self._rules.get(group.form)
        if rule is None:
            names = tuple(self.init_state(members[0], group))
            rule = self._rules[group.form] = Rule(self, group, names)
        changing = []
        for p in members:
            state = self.state[p]
            if not state.keys() >= rule.state:
                state = self.state[p] = {**self.init_state(p, group), **state}
            changing.append(([p, *[state[name] for name in rule.names]], p.grad))
        rule.step(count, group, changing)

    def _stepping(self, group: ParamGroup) -> list[tuple[Tensor, list[Tensor]]]:
        """The parameters that have a gradient, by the count of steps that they share.

        Parameters that were always updated together share one count; it splits when some of them
        are skipped. So a parameter that starts late has its own bias correction."""
        for p in group.params:
            if p.grad is not None and p not in self.state:
                self._add_state(p, group, None)
        found = []
        for count, sharing in self._counts(group):
            members = [p for p in sharing if p.grad is not None]
            if members and len(members) < len(sharing):
                count = count.detach()
                for p in members:
                    self.state[p]["step"] = count
                changed()
            if members:
                found.append((count, members))
        return found

    def _counts(self, group: ParamGroup) -> list[tuple[Tensor, list[Tensor]]]:
        """Each step count of a group and the parameters that share it."""
        counts: dict[int, tuple[Tensor, list[Tensor]]] = {}
        for p, step in zip(
            group.params, fact(group, "counts", lambda: self._steps(group)), strict=True
        ):
            if step is not None:
                counts.setdefault(id(step), (step, []))[1].append(p)
        return list(counts.values())

    def _steps(self, group: ParamGroup) -> list[Tensor | None]:
        """The step count of each parameter, None before its first update."""
        return [self.state[p]["step"] if p in self.state else None for p in group.params]

    def reset_grad(self) -> None:
        """Forget the gradients; from then on, each backward() overwrites them."""
        clear_gradients(self.params, set_to_none=True, adds_up=False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or make them zeros; from then on, each backward() adds to them."""
        clear_gradients(self.params, set_to_none)

    def clip_grad_norm(self, max_norm: float = 0.25) -> Tensor:
        """Scale all gradients so that their common L2 norm is at most max_norm; gives the norm."""
        return clip_grad_norm_(self.params, max_norm)

    # Groups -------------------------------------------------------------------------------------

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for group in self.groups for p in group.params]

    @property
    def param_groups(self) -> list[ParamGroup]:
        """PyTorch's name of `groups`."""
        return self.groups

    @property
    def lr(self) -> float:
        """The learning rate of the first group; assigning sets it in all groups."""
        rate: float = self.groups[0]["lr"]
        return rate

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.groups:
            group["lr"] = value

    def add_param_group(self, group: Mapping[str, object]) -> None:
        """Add parameters {"params": tensors, option: value, ...}; the rest are the defaults."""
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f'[optim] expected a dict with "params", got {group!r}.')
        given = group["params"]
        params = [given] if isinstance(given, Tensor) else list(cast("Iterable[Tensor]", given))
        known = set(self.params)
        for p in params:
            _check_parameter(p)
            if p in known:
                raise ValueError(f"[optim] a parameter of shape {p.shape} is given twice.")
            known.add(p)
        options = {k: v for k, v in group.items() if k != "params"}
        unknown = sorted(set(options) - {*self.defaults, "betas", "initial_lr"})
        if unknown:
            raise ValueError(
                f"[{type(self).__name__}] unknown options {unknown}; "
                f"expected some of {sorted(self.defaults)}."
            )
        added = ParamGroup(params, self.variable, {**self.defaults, **options})
        self.groups.append(added)
        changed()
        step = None
        for p in params:
            if p.requires_grad:
                step = self._add_state(p, added, step)

    def _add_state(self, p: Tensor, group: ParamGroup, step: Tensor | None) -> Tensor:
        """State for a parameter that was never updated, with the given count or a new one."""
        if step is None:
            step = Tensor(0, dtype="float64", device=p.device, requires_grad=False)
        self.state[p] = {"step": step, **self.init_state(p, group)}
        changed()
        return step

    # Saving -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {name: Tensor}}, "param_groups": [{option: value, "params": indices}]}

        Parameters are numbered through the groups; the tensors are copies."""
        index = {p: i for i, p in enumerate(self.params)}
        state = {
            i: {name: value.detach().clone() for name, value in self.state[p].items()}
            for p, i in index.items()
            if p in self.state
        }
        groups = [{**group, "params": [index[p] for p in group.params]} for group in self.groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """Take over the state and options of an optimizer with groups of the same sizes.

        All of it is checked before anything changes."""
        name = type(self).__name__
        kinds = {"state": _by_number, "param_groups": saved.items}
        by_number, groups = saved.entries(name, state_dict, kinds)
        numbers = [saved.entries(name, group, {"params": saved.items})[0] for group in groups]
        sizes, own = [*map(len, numbers)], [len(group.params) for group in self.groups]
        if sizes != own:
            raise ValueError(
                f"[load_state_dict] expected parameter groups of {own} parameters, got {sizes}."
            )
        foreign = by_number.keys() - {str(i) for group in numbers for i in group}
        if foreign:
            raise ValueError(
                f"[load_state_dict] {name} expected states of the parameters in the groups, got "
                f"some of {sorted(foreign)[:5]}."
            )
        plans = []
        for group, loaded, members in zip(self.groups, groups, numbers, strict=True):
            options = self._loaded_options(group, loaded)
            states = [by_number.get(str(i), {}) for i in members]
            self._check_states(group.with_options(options), states)
            plans.append((group, options, states))
        for group, options, states in plans:
            group.update(options)
            for p, values in zip(group.params, states, strict=True):
                self._load_state(p, group, values)
            self._load_counts(group, states)

    def _loaded_options(self, group: ParamGroup, loaded: Mapping[str, object]) -> dict[str, object]:
        """The options of a saved group, if they are this optimizer's. PyTorch saves more."""
        own = {*group, *self.defaults, "betas", "initial_lr"} - {"params"}
        betas = {"beta1", "beta2"} if "betas" in loaded else set()
        missing = self.defaults.keys() - loaded.keys() - betas - self.not_in_pytorch
        other = loaded.keys() - own - _HOW - {"params"}
        if missing or other - {"maximize"} or loaded.get("maximize"):
            raise ValueError(
                f"[load_state_dict] {type(self).__name__} expected a state with its options "
                f"{sorted(self.defaults)}, got {sorted(loaded.keys() - {'params'})}; is it another "
                "optimizer's?"
            )
        return {name: value for name, value in loaded.items() if name in own}

    def _check_states(self, group: ParamGroup, states: Sequence[Mapping[str, object]]) -> None:
        for p, values in zip(group.params, states, strict=True):
            saved.entries(type(self).__name__, {"step": 0, **values}, {"step": saved.number})
            given = _averages(values)
            shapes = {name: tuple(np.shape(cast(Any, value))) for name, value in given.items()}
            expected = {name: value.shape for name, value in self.init_state(p, group).items()}
            if not shapes.items() <= expected.items():
                raise ValueError(
                    f"[load_state_dict] {type(self).__name__} expected {expected} for a parameter "
                    f"of shape {p.shape}, got {shapes}."
                )

    def _load_state(self, p: Tensor, group: ParamGroup, values: Mapping[str, object]) -> None:
        """Write the averages into their tensors; those that were not saved start anew."""
        if p not in self.state:
            if not values:
                return
            self._add_state(p, group, None)
        given = _averages(values)
        for name, initial in self.init_state(p, group).items():
            value: Any = given.get(name, initial)
            value = Tensor(value, dtype=initial.dtype, device=initial.device)
            own: Any = self.state[p].setdefault(name, initial)
            own.data = value.detach().clone()

    def _load_counts(self, group: ParamGroup, states: Sequence[Mapping[str, object]]) -> None:
        """Parameters that share a count keep sharing it if their loaded counts are equal."""
        loaded = {p: _count(s) for p, s in zip(group.params, states, strict=True)}
        for count, sharing in self._counts(group):
            by_value: dict[float, Tensor] = {}
            for p in sharing:
                value = loaded[p]
                if value not in by_value:
                    number = Tensor(value, dtype="float64", device=p.device, requires_grad=False)
                    if by_value:
                        by_value[value] = number
                    else:
                        count.data = number
                        by_value[value] = count
                self.state[p]["step"] = by_value[value]
        changed()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.groups))})"


def _check_parameter(p: Tensor) -> None:
    if not isinstance(p, Tensor):
        raise TypeError(
            f"[optim] expected Tensors, got {type(p).__name__}; give model.parameters()."
        )
    if p.op is not None and p.requires_grad:
        raise ValueError(
            f"[optim] expected leaves, got a result of {type(p.op).__name__} of shape {p.shape}, "
            "which each forward computes anew; give what it was computed from, or start from its "
            "value: needle.nn.Parameter(x.detach())."
        )
    if p.requires_grad and config.BACKEND == "nd" and not dtype_of(p.dtype).is_floating:
        raise TypeError(
            f"[optim] expected floating parameters, got {p.dtype} of shape {p.shape}, whose steps "
            "would be cut to whole numbers; cast it first."
        )


def _by_number(value: object) -> dict[str, Mapping[str, object]]:
    """a dict of dicts"""
    return {str(i): saved.mapping(values) for i, values in saved.mapping(value).items()}


def _averages(state: Mapping[str, T]) -> dict[str, T]:
    """What is kept for a parameter besides the count; PyTorch keeps None for what is not used."""
    return {k: v for k, v in state.items() if k != "step" and v is not None}


def _count(state: Mapping[str, object]) -> float:
    """Steps that a parameter has seen. PyTorch's SGD does not count: an average is from some."""
    return saved.number(state.get("step", bool(_averages(state))))
