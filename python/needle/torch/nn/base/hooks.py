"""Hooks of modules: around forward, and around the backward pass through a module."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import torch
from ....facts import changed

if TYPE_CHECKING:
    from ....autograd import Tensor
    from .module import Module

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]


class RemovableHandle:
    """Takes a hook away: by `remove()`, or at the end of a `with` block."""

    next_id = 0

    def __init__(self, hooks: Hooks, *more: Any):
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self._places = [weakref.ref(place) for place in (hooks, *more)]

    def remove(self) -> None:
        """The hook is not called again."""
        for place in self._places:
            if (hooks := place()) is not None:
                hooks.pop(self.id, None)
        changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add(hooks: Hooks, hook: Hook, prepend: bool = False, *marks: OrderedDict[int, bool]) -> Any:
    """A handle of the hook, which is now the last of these hooks, or the first."""
    handle = RemovableHandle(hooks, *marks)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    changed()
    return handle


class GlobalHooks:
    """Hooks of every module."""

    forward: Hooks = OrderedDict()
    forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
    forward_always: OrderedDict[int, bool] = OrderedDict()
    before_forward: Hooks = OrderedDict()
    backward: Hooks = OrderedDict()
    before_backward: Hooks = OrderedDict()


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """hook(module, args) before every module's forward."""
    return add(GlobalHooks.before_forward, hook)  # type: ignore[no-any-return]


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """hook(module, args, output) after every module's forward."""
    marks = [GlobalHooks.forward_with_kwargs] if with_kwargs else []
    marks += [GlobalHooks.forward_always] if always_call else []
    return add(GlobalHooks.forward, hook, False, *marks)  # type: ignore[no-any-return]


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """hook(module, grad_input, grad_output) after every module's backward."""
    return add(GlobalHooks.backward, hook)  # type: ignore[no-any-return]


register_module_backward_hook = register_module_full_backward_hook


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """hook(module, grad_output) before every module's backward."""
    return add(GlobalHooks.before_backward, hook)  # type: ignore[no-any-return]


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """forward with all hooks."""
    try:
        return _call(module, args, kwargs)
    except Exception:
        _call_always(module, args, kwargs)
        raise


def _call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for number, hook in (*GlobalHooks.before_forward.items(), *module._forward_pre_hooks.items()):
        if number in module._forward_pre_hooks_with_kwargs:
            changes = hook(module, args, kwargs)
            if changes is not None:
                args, kwargs = _both(changes)
        elif (given := hook(module, args)) is not None:
            args = given if isinstance(given, tuple) else (given,)
    watch = _Backward.of(module)
    if watch is not None:
        args = watch.inputs(args)
    result = module.forward(*args, **kwargs)
    hooks = (*GlobalHooks.forward.items(), *module._forward_hooks.items())
    for number, hook in hooks:
        by_name = number in module._forward_hooks_with_kwargs
        by_name = by_name or number in GlobalHooks.forward_with_kwargs
        other = hook(module, args, kwargs, result) if by_name else hook(module, args, result)
        result = result if other is None else other
    return result if watch is None else watch.outputs(result)


def _both(given: Any) -> tuple[Any, Any]:
    if isinstance(given, tuple) and len(given) == 2:
        return given
    raise RuntimeError(
        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
        f"{given!r:.60}."
    )


def _call_always(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Hooks that are also called when forward fails."""
    for number, hook in (*GlobalHooks.forward.items(), *module._forward_hooks.items()):
        always = number in module._forward_hooks_always_called
        if always or number in GlobalHooks.forward_always:
            named = number in module._forward_hooks_with_kwargs
            hook(module, args, kwargs, None) if named else hook(module, args, None)


class _Backward:
    """One call's inputs and outputs, watched in the backward pass."""

    def __init__(self, module: Module, before: list[Hook], after: list[Hook]):
        self.module, self.before, self.after = module, before, after
        self.watches_inputs = False
        self.n_inputs = 0
        self.output_grads: tuple[Any, ...] = ()

    @staticmethod
    def of(module: Module) -> _Backward | None:
        """None, if there are no hooks."""
        after = [*GlobalHooks.backward.values(), *module._backward_hooks.values()]
        before = [*GlobalHooks.before_backward.values(), *module._backward_pre_hooks.values()]
        return _Backward(module, before, after) if before or after else None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments; gradients of those that are tensors pass `got_inputs`."""
        self.n_inputs = len(args)
        if not self.after:
            return args
        watched, at = _watch(self.got_inputs, args)
        self.watches_inputs, self.places = bool(at), at
        return watched

    def outputs(self, result: Any) -> Any:
        """The result; gradients of its tensors pass `got_outputs`."""
        is_one = isinstance(result, torch.Tensor)
        if not is_one and not isinstance(result, (tuple, list)):
            return result
        parts = (result,) if is_one else tuple(result)
        self.n_outputs = len(parts)
        watched, self.out_places = _watch(self.got_outputs, parts)
        return watched[0] if is_one else type(result)(watched)

    def got_outputs(self, grads: Sequence[Any]) -> Sequence[Any]:
        every = _spread(grads, self.out_places, self.n_outputs)
        for hook in self.before:
            given = hook(self.module, every)
            if given is not None:
                every = given if isinstance(given, tuple) else (given,)
        self.output_grads = every
        if self.after and not self.watches_inputs:
            for hook in self.after:
                if hook(self.module, (None,) * self.n_inputs, every) is not None:
                    raise RuntimeError(
                        "backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
        return [every[i] for i in self.out_places]

    def got_inputs(self, grads: Sequence[Any]) -> Sequence[Any]:
        every = _spread(grads, self.places, self.n_inputs)
        for hook in self.after:
            given = hook(self.module, every, self.output_grads)
            if given is not None:
                every = given if isinstance(given, tuple) else (given,)
        return [every[i] for i in self.places]


def _spread(grads: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    every: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        every[place] = grad
    return tuple(every)


def _watch(
    got: Callable[[Sequence[Any]], Sequence[Any]], parts: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int]]:
    """The parts, and where those are whose gradients `got` is given: it says what they become."""
    at = [i for i, x in enumerate(parts) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not at or not torch.is_grad_enabled():
        return parts, []
    passed = _passing().apply(got, *(parts[i] for i in at))
    found = list(parts)
    for place, x in zip(at, passed if isinstance(passed, tuple) else (passed,), strict=True):
        found[place] = x
    return tuple(found), at


def _passing() -> Any:
    """The identity, whose gradients pass a function."""
    global _Passing
    if _Passing is None:

        class Passing(torch.autograd.Function):  # type: ignore[misc]
            """y = x, dx = got(dy)"""

            @staticmethod
            def forward(ctx: Any, got: Any, *tensors: Tensor) -> Any:
                ctx.got = got
                ctx.set_materialize_grads(False)
                found = tuple(x.view_as(x) for x in tensors)
                return found if len(found) > 1 else found[0]

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return (None, *ctx.got(grads))

        _Passing = Passing
    return _Passing


_Passing: Any = None
