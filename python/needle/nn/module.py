"""Module: a tree of parameters and the function that uses them.

Parameters and submodules are plain attributes; lists, tuples and dicts of them count too. Nothing
is registered: the tree is read from `__dict__`, in the order in which attributes were set.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from ..autograd import Tensor
from ..backend import BackendDevice, device_named
from ..dtype import dtype_of
from ..ndarray import functions as F

M = TypeVar("M", bound="Module")


class Parameter(Tensor):
    """A tensor that training changes."""


class _CallStack(threading.local):
    """The modules whose forward is running, outermost first: for error messages."""

    def __init__(self) -> None:
        self.modules: list[Module] = []


_running = _CallStack()


class LoadReport(NamedTuple):
    """What load_state_dict found: names, and (name, expected shape, given shape)."""

    missing: list[str]
    unexpected: list[str]
    mismatched: list[tuple[str, tuple[int, ...], tuple[int, ...]]]

    def __str__(self) -> str:
        lines = [f"missing: {name}" for name in self.missing]
        lines += [f"unexpected: {name}" for name in self.unexpected]
        lines += [f"shape of {n}: expected {want}, got {got}" for n, want, got in self.mismatched]
        return "\n".join(lines) or "every tensor matched"


class Module:
    """The base of every layer and model: define `forward` and set parameters as attributes."""

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"[{type(self).__name__}] define forward(self, ...).")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = _running.modules
        stack.append(self)
        try:
            hooks = self.__dict__.get("_hooks")
            if hooks is None:
                return self.forward(*args, **kwargs)
            return _call_with_hooks(self, hooks, args, kwargs)
        except (ValueError, TypeError, IndexError) as error:
            _name_module(error, stack, args)
            raise
        finally:
            stack.pop()

    # The tree -------------------------------------------------------------------------------

    def _named_items(self) -> Iterator[tuple[str, Any]]:
        """Parameters, buffers and submodules of this module itself, with their names."""
        for name, value in self.__dict__.items():
            yield from _flatten(name, value)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules and their names."""
        return ((n, v) for n, v in self._named_items() if isinstance(v, Module))

    def _children(self) -> list[Module]:
        return [child for _, child in self.named_children()]

    def children(self) -> list[Module]:
        """Direct submodules."""
        return self._children()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module ("" by default) and all below it, each once."""
        seen: set[int] = set()

        def walk(name: str, module: Module) -> Iterator[tuple[str, Module]]:
            if id(module) in seen:
                return
            seen.add(id(module))
            yield name, module
            for child_name, child in module.named_children():
                yield from walk(f"{name}.{child_name}" if name else child_name, child)

        return walk(prefix, self)

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of the tree once, in the order of the attributes."""
        seen: set[int] = set()

        def walk(prefix: str, module: Module) -> Iterator[tuple[str, Tensor]]:
            for name, value in module._named_items():
                if id(value) in seen:
                    continue
                seen.add(id(value))
                if isinstance(value, Tensor):
                    yield prefix + name, value
                else:
                    yield from walk(f"{prefix}{name}.", value)

        return walk("", self)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters and their names; a shared one appears once."""
        return ((n, t) for n, t in self._named_tensors() if isinstance(t, Parameter))

    def parameters(self) -> list[Parameter]:
        """Parameters, in the order in which attributes were set."""
        return [p for _, p in self.named_parameters()]

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are state but not parameters, such as running statistics."""
        return ((n, t) for n, t in self._named_tensors() if not isinstance(t, Parameter))

    def buffers(self) -> list[Tensor]:
        """Tensors that are state but not parameters."""
        return [b for _, b in self.named_buffers()]

    # State ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Names and data of all parameters and buffers."""
        return {name: tensor.detach() for name, tensor in self._named_tensors()}

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> LoadReport:
        """Copy tensors in by name, and report what did not match; strict makes that an error.

        Nothing is changed when a strict load fails."""
        own = dict(self._named_tensors())
        report = LoadReport(
            missing=[name for name in own if name not in state],
            unexpected=[name for name in state if name not in own],
            mismatched=[
                (name, tensor.shape, tuple(state[name].shape))
                for name, tensor in own.items()
                if name in state and tuple(state[name].shape) != tensor.shape
            ],
        )
        if strict and any(report):
            raise ValueError(
                f"[load_state_dict] {type(self).__name__} and the state differ; "
                f"strict=False loads what matches:\n{report}"
            )
        skipped = {name for name, _, _ in report.mismatched}
        for name, tensor in own.items():
            if name in state and name not in skipped:
                given = Tensor(state[name], device=tensor.device, dtype=tensor.dtype)
                tensor.cached_data = F.copy(given.realize_cached_data())
        return report

    # Modes ----------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Training behaviour (dropout, batch statistics) here and below; returns the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Inference behaviour here and below; returns the module."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Whether the parameters here and below get gradients."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def freeze(self: M) -> M:
        """No gradients for the parameters here and below."""
        return self.requires_grad_(False)

    def apply(self: M, function: Callable[[Module], Any]) -> M:
        """Call a function on every module, children first."""
        for child in self._children():
            child.apply(function)
        function(self)
        return self

    def to(self: M, device: BackendDevice | str | None = None, dtype: Any = None) -> M:
        """Move and cast in place: parameters stay the same objects; integers keep their dtype."""
        if device is not None:
            device = device_named(device)
        for _, tensor in self._named_tensors():
            keep = dtype is None or not dtype_of(tensor.dtype).is_floating
            target = tensor.dtype if keep else dtype
            moved = Tensor(tensor.detach(), device=device, dtype=target)
            tensor.cached_data = moved.cached_data
        return self

    # Hooks ----------------------------------------------------------------------------------

    def register_forward_hook(self, hook: Callable[..., Any]) -> Callable[[], None]:
        """hook(module, args, output) after forward; a result that is not None replaces output."""
        return self._add_hook("after", hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Callable[[], None]:
        """hook(module, args) before forward; a result that is not None replaces the arguments."""
        return self._add_hook("before", hook)

    def _add_hook(self, when: str, hook: Callable[..., Any]) -> Callable[[], None]:
        hooks = self.__dict__.setdefault("_hooks", {})
        key = (when, object())
        hooks[key] = hook

        def remove() -> None:
            hooks.pop(key, None)

        return remove

    # Printing -------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the repr says between the parentheses: by default the shapes of own tensors."""
        own = ((n, v) for n, v in self._named_items() if isinstance(v, Tensor))
        return ", ".join(f"{name}={tensor.shape}" for name, tensor in own)

    def __repr__(self) -> str:
        lines = [
            f"({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in self.named_children()
        ]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Tensors and modules in an attribute, through lists, tuples and dicts."""
    if isinstance(value, (Tensor, Module)):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _flatten(f"{name}.{i}", item)


def _call_with_hooks(
    module: Module, hooks: dict[Any, Callable[..., Any]], args: tuple[Any, ...], kwargs: Any
) -> Any:
    for (when, _), hook in tuple(hooks.items()):
        if when == "before":
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    output = module.forward(*args, **kwargs)
    for (when, _), hook in tuple(hooks.items()):
        if when == "after":
            replaced = hook(module, args, output)
            output = output if replaced is None else replaced
    return output


def _name_module(error: Exception, stack: list[Module], args: tuple[Any, ...]) -> None:
    """Add the path of the innermost module to an error, once."""
    if getattr(error, "in_module", None) is not None:
        return
    names = []
    for parent, child in itertools.pairwise(stack):
        below = parent.named_modules()
        names.append(next((n for n, m in below if m is child), type(child).__name__))
    path = ".".join(names)
    where = f"{path}: {type(stack[-1]).__name__}" if path else type(stack[-1]).__name__
    shapes = ", ".join(str(a.shape) for a in args if isinstance(a, Tensor))
    error.in_module = path  # type: ignore[attr-defined]
    if error.args and isinstance(error.args[0], str):
        given = f" given {shapes}" if shapes else ""
        error.args = (f"{error.args[0]} [in module {where}{given}]", *error.args[1:])
