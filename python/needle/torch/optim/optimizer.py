"""What every optimizer is: groups of parameters with options, a state for each, and hooks."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from ... import torch
from ...facts import changed, undo_on_failure
from ...tracing import active
from ..nn.base.hooks import RemovableHandle, add

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Optimizer"]

Hook = Callable[..., Any]
required = object()
HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's step, with what users registered around it."""

    @functools.wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            self._note_traced()
        for hook in tuple(self._optimizer_step_pre_hooks.values()):
            given = hook(self, args, kwargs)
            if given is not None:
                if not isinstance(given, tuple) or len(given) != 2:
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{given}."
                    )
                args, kwargs = given
        result = step(self, *args, **kwargs)
        for hook in tuple(self._optimizer_step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    stepped.hooked = True  # type: ignore[attr-defined]
    return stepped


class Optimizer:
    """Groups of parameters: subclasses define `step`, and may define `__setstate__`."""

    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _optimizer_step_pre_hooks: OrderedDict[int, Hook]
    _optimizer_step_post_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in HOOKS:
            setattr(self, name, OrderedDict())
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {torch.typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients; the closure computes the loss anew."""
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add {"params": tensors, option: value, ...}; other options are the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, torch.Tensor):
            given = [given]
        elif isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering "
                "of tensors in sets will change between runs. Please use a list instead."
            )
        given = list(given)
        named = [item for item in given if isinstance(item, tuple)]
        if named and len(named) != len(given):
            raise TypeError("all optimizer params should be with/without names.")
        if named:
            param_group["param_names"] = [name for name, _ in named]
            given = [tensor for _, tensor in named]
        param_group["params"] = given
        for tensor in given:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{torch.typename(tensor)}"
                )
            if not (tensor.is_leaf or tensor.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in given):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        changed()

    compiles: ClassVar[bool] = False  # may a compiled function step?

    def _note_traced(self) -> None:
        """A step is traced: what it puts in the state is taken back if the call fails."""
        if not self.compiles:
            from ...compiler.errors import TraceError

            raise TraceError(
                f"[torch.optim.{type(self).__name__}] its step cannot be compiled, since it "
                "depends on numbers that Python keeps; call it outside of the compiled function."
            )
        undo_on_failure(self._undo)

    def _undo(self) -> Callable[[], None]:
        before = {p: dict(values) for p, values in self.state.items()}

        def restore() -> None:
            self.state.clear()
            self.state.update(before)
            changed()

        return restore

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or make them zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else torch.zeros_like(p.grad)

    # State --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: {...}}, "param_groups": [{option: value, "params": numbers}]}"""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            saved = {name: value for name, value in group.items() if name != "params"}
            saved["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(saved)
        state = {
            (numbers[id(p)] if isinstance(p, torch.Tensor) else p): values
            for p, values in self.state.items()
        }
        found: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            other = hook(self, found)
            found = found if other is None else other
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state and options of an optimizer with groups of the same sizes."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            other = hook(self, state_dict)
            state_dict = state_dict if other is None else other
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in saved]:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = chain.from_iterable(g["params"] for g in saved)
        by_number = dict(
            zip(numbers, chain.from_iterable(g["params"] for g in groups), strict=True)
        )
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            p = by_number.get(number, number)
            state[p] = _fitting(values, p) if number in by_number else values
        for own, given in zip(groups, saved, strict=True):
            given["params"] = own["params"]
            if "param_names" in own and "param_names" not in given:
                given["param_names"] = own["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults, "state": self.state, "param_groups": self.param_groups,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        changed()

    # Hooks --------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """hook(optimizer, args, kwargs) before each step."""
        return add(self._optimizer_step_pre_hooks, hook)  # type: ignore[no-any-return]

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """hook(optimizer, args, kwargs) after each step."""
        return add(self._optimizer_step_post_hooks, hook)  # type: ignore[no-any-return]

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer) before saving."""
        return add(  # type: ignore[no-any-return]
            self._optimizer_state_dict_pre_hooks, hook, prepend
        )

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer, state) after saving; it may return another state."""
        return add(  # type: ignore[no-any-return]
            self._optimizer_state_dict_post_hooks, hook, prepend
        )

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """hook(optimizer, state) before loading; it may return another state."""
        return add(  # type: ignore[no-any-return]
            self._optimizer_load_state_dict_pre_hooks, hook, prepend
        )

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """hook(optimizer) after loading."""
        return add(  # type: ignore[no-any-return]
            self._optimizer_load_state_dict_post_hooks, hook, prepend
        )

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _fitting(values: Any, p: Tensor) -> Any:
    """A loaded state of p, in p's dtype; step counts stay as they are."""
    if isinstance(values, dict):
        return {
            name: value if name == "step" else _fitting(value, p) for name, value in values.items()
        }
    if isinstance(values, torch.Tensor):
        return values.to(dtype=p.dtype) if p.is_floating_point() else values
    if isinstance(values, Iterable) and not isinstance(values, str):
        return type(values)(_fitting(value, p) for value in values)  # type: ignore[call-arg]
    return values
