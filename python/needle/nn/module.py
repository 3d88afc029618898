"""Module: a tree of parameters and the function that uses them.

Parameters and submodules are plain attributes; lists, tuples and dicts of them count too. Nothing
is registered: the tree is read from `__dict__`, in the order in which attributes were set.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..autograd import HookHandle, Tensor, clear_gradients
from ..backend import device_named
from ..dtype import dtype_of
from ..facts import Noted
from ..ops.shape.movement import is_dtype
from ..system import saved
from ..tracing import active
from .state import (
    LoadReport,
    StateEntry,
    as_tensor,
    check_numbers,
    compare,
    copied_like,
    give_data,
    is_torch,
)

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike

__all__ = ["Parameter", "Module"]

M = TypeVar("M", bound="Module")


# The order of a parameter's axes. PyTorch's is (out, in, ...); the course has others.
IN_OUT, OUT_IN, KERNEL_IN_OUT = "(in, out)", "(out, in)", "(k, k, in, out)"
ROW, DEEP_ROW = "(1, out)", "(1, out), in PyTorch (1, 1, out)"


def layouts(**by_name: str) -> Mapping[str, str]:
    """The layouts of a layer's parameters."""
    return MappingProxyType(by_name)


class Parameter(Tensor):
    """A tensor that training changes."""

    layout: str | None = None  # the order of its axes, once a layer says what it is

    def detach(self) -> Tensor:
        found = super().detach()
        if self.layout is not None:  # for nn.init and F.linear, which get `layer.weight.data`
            vars(found)["layout"] = self.layout
        return found


class Parameters(list[Parameter]):
    """A list, from which `next` takes one after the other, as from PyTorch's iterator."""

    _rest: Iterator[Parameter] | None = None

    def __next__(self) -> Parameter:
        if self._rest is None:
            self._rest = iter(self)
        return next(self._rest)


class _CallStack(threading.local):
    """The modules whose forward is running, outermost first: for error messages."""

    def __init__(self) -> None:
        self.modules: list[Module] = []


_running = _CallStack()
Hooks = dict[tuple[str, object], Callable[..., Any]]  # by when they run, and which one it is


class Module(Noted):
    """The base of every layer and model: define `forward` and set parameters as attributes."""

    training = True
    _layouts: ClassVar[Mapping[str, str]] = layouts()  # of parameters for which it matters
    _hooks: Hooks | None = None
    _not_saved: frozenset[str] = frozenset()  # names of buffers that are not in the state

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; `module(...)` calls it, with hooks and clearer errors."""
        raise TypeError(f"[{type(self).__name__}] define forward(self, ...).")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = _running.modules
        stack.append(self)
        try:
            hooks = self._hooks
            if not hooks:
                tracer = active()
                forward = self.forward if tracer is None else tracer.rewrite(self.forward)
                return forward(*args, **kwargs)
            return _call_with_hooks(self, hooks, args, kwargs)
        except (ValueError, TypeError, IndexError) as error:
            _name_module(error, stack, args)
            raise
        except AttributeError as error:
            if any(isinstance(a, np.ndarray) for a in args):  # which has no relu(), for one
                _name_module(error, stack, args)
            raise
        finally:
            stack.pop()

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Parameter) and name in type(self)._layouts:
            _take_layout(self, name, value)
        super().__setattr__(name, value)

    # The tree -------------------------------------------------------------------------------

    def _named_items(self) -> Iterator[tuple[str, Any]]:
        """Parameters, buffers and submodules of this module itself, with their names."""
        for name, value in self.__dict__.items():
            yield from named_leaves(name, value)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules and their names."""
        return ((n, v) for n, v in self._named_items() if isinstance(v, Module))

    def _children(self) -> list[Module]:
        return [*{id(child): child for _, child in self.named_children()}.values()]

    def children(self) -> list[Module]:
        """Direct submodules, each once."""
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

    def modules(self) -> list[Module]:
        """This module and all below it, each once."""
        return [module for _, module in self.named_modules()]

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of the tree once, in the order of the attributes."""
        seen = {id(self)}  # a child may refer to its parent

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

    def parameters(self) -> Parameters:
        """Parameters, in the order in which attributes were set."""
        return Parameters(p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are state but not parameters, such as running statistics."""
        return ((n, t) for n, t in self._named_tensors() if not isinstance(t, Parameter))

    def buffers(self) -> list[Tensor]:
        """Tensors that are state but not parameters."""
        return [b for _, b in self.named_buffers()]

    # State ----------------------------------------------------------------------------------

    def _state_entries(self, layout: str) -> list[StateEntry]:
        if layout not in ("needle", "torch"):
            raise ValueError(f"[state_dict] layout must be 'needle' or 'torch', got {layout!r}.")
        from .torch_layout import entries

        named = (StateEntry(name, tensor) for name, tensor in self._named_tensors())
        found = named if layout == "needle" else entries(self)
        modules = (module for _, module in self.named_modules())
        left_out = {id(getattr(m, name, None)) for m in modules for name in m._not_saved}
        return [entry for entry in found if id(entry.tensor) not in left_out]

    def state_dict(self, layout: str = "needle") -> dict[str, Tensor]:
        """Names and data of all parameters and buffers.

        layout="torch" gives copies with PyTorch's names and layouts, for its load_state_dict."""
        found = self._state_entries(layout)
        if layout == "needle":
            return {entry.name: entry.tensor.detach() for entry in found}
        return {entry.name: entry.there(entry.tensor.detach()).clone() for entry in found}

    def load_state_dict(
        self, state: Mapping[str, object], strict: bool = True, layout: str | None = None
    ) -> LoadReport:
        """Copy tensors in by name, and report what did not match; strict makes that an error.

        layout="torch" takes PyTorch's names and layouts, as do states that hold PyTorch's tensors.
        Give it for files that PyTorch wrote: a square weight fits both ways, so that its shape does
        not tell that it is transposed. Nothing is changed when a strict load fails."""
        saved.entries(type(self).__name__, state, {})
        if layout is None:
            layout = "torch" if any(map(is_torch, state.values())) else "needle"
        own = {entry.name: entry for entry in self._state_entries(layout)}
        check_numbers(own, state)
        report = compare(own, state)
        if strict and report:
            raise ValueError(
                f"[load_state_dict] {type(self).__name__} and the state differ; "
                f"strict=False loads what matches:\n{report}{_hint(self, state, layout)}"
            )
        skipped = {name for name, _, _ in report.mismatched}
        for name, entry in own.items():
            if name in state and name not in skipped:
                tensor = entry.tensor
                given = entry.back(as_tensor(state[name], tensor.dtype))
                moved = Tensor(given, device=tensor.device, dtype=tensor.dtype)
                give_data(tensor, copied_like(moved.realize_cached_data(), tensor.cached_data))
        return report

    # Attributes by name ---------------------------------------------------------------------

    def get_submodule(self, name: str) -> Module:
        """The module at a path such as "blocks.2.fc1"; "" is this one."""
        found = _at(self, name)
        if found is None:
            raise ValueError(f"[get_submodule] {type(self).__name__} has no module {name!r}.")
        return found

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """The same as setting an attribute: a tensor that is not a Parameter is a buffer.

        A buffer that is not persistent is not in the state."""
        check_name(self, name, Tensor, tensor)
        setattr(self, name, tensor.detach() if isinstance(tensor, Parameter) else tensor)
        self._not_saved = self._not_saved - {name} if persistent else self._not_saved | {name}

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """The same as setting an attribute, which must be a Parameter: other tensors are buffers,
        which do not train."""
        check_name(self, name, Parameter, parameter)
        setattr(self, name, parameter)

    def add_module(self, name: str, module: Module | None) -> None:
        """The same as setting an attribute."""
        check_name(self, name, Module, module)
        setattr(self, name, module)

    register_module = add_module

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or make them zeros; from then on, each backward() adds to them."""
        clear_gradients(self.parameters(), set_to_none)

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

    def apply(self: M, function: Callable[[Module], object]) -> M:
        """Call a function on every module, children first."""
        for child in self._children():
            child.apply(function)
        function(self)
        return self

    def to(
        self: M,
        device: DeviceLike | DTypeLike | None = None,
        dtype: DTypeLike | None = None,
        non_blocking: bool = False,
        *,
        memory_format: object = None,
    ) -> M:
        """Move and cast in place: parameters stay the same objects; integers keep their dtype.

        A dtype may come first. non_blocking and memory_format change nothing."""
        if dtype is None and device is not None and is_dtype(device):
            device, dtype = None, device
        if dtype is not None and not dtype_of(dtype).is_floating:
            raise TypeError(f"[{type(self).__name__}] weights stay floats, got {dtype}.")
        if device is not None:
            device = device_named(device)  # type: ignore[arg-type]
        for _, tensor in self._named_tensors():
            keep = dtype is None or not dtype_of(tensor.dtype).is_floating
            target = tensor.dtype if keep else dtype
            give_data(tensor, Tensor(tensor.detach(), device=device, dtype=target).cached_data)
        return self

    def cpu(self: M) -> M:
        """`to("cpu")`."""
        return self.to("cpu")

    def cuda(self: M) -> M:
        """`to("cuda")`: an error, until there is one."""
        return self.to("cuda")

    def float(self: M) -> M:
        """`to(dtype="float32")`."""
        return self.to(dtype="float32")

    def double(self: M) -> M:
        """`to(dtype="float64")`."""
        return self.to(dtype="float64")

    def half(self: M) -> M:
        """`to(dtype="float16")`."""
        return self.to(dtype="float16")

    def bfloat16(self: M) -> M:
        """`to(dtype="bfloat16")`."""
        return self.to(dtype="bfloat16")

    # Hooks ----------------------------------------------------------------------------------

    def register_forward_hook(self, hook: Callable[..., object]) -> HookHandle:
        """hook(module, args, output) after forward; a result that is not None replaces output."""
        return self._add_hook("after", hook)

    def register_forward_pre_hook(self, hook: Callable[..., object]) -> HookHandle:
        """hook(module, args) before forward; a result that is not None replaces the arguments."""
        return self._add_hook("before", hook)

    def _add_hook(self, when: str, hook: Callable[..., object]) -> HookHandle:
        key = (when, object())
        self._hooks = {**(self._hooks or {}), key: hook}

        def remove() -> None:
            self._hooks = {k: h for k, h in (self._hooks or {}).items() if k != key}

        return HookHandle(remove)

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


def _take_layout(module: Module, name: str, parameter: Parameter) -> None:
    """Note the order of a parameter's axes; raise if another layer reads it in another order."""
    expected = type(module)._layouts[name]
    if parameter.layout not in (None, expected):
        raise ValueError(
            f"[{type(module).__name__}] expected a {name} that is {expected}, got the parameter of "
            f"a layer that reads it as {parameter.layout}; to share one, keep the embedding's, and "
            "write F.linear(x, embedding.weight), which takes (out, in), in place of the Linear."
        )
    parameter.layout = expected


def check_name(module: Module, name: str, kind: type | None = None, value: object = None) -> None:
    """Raise if a part of a module, which is of this kind or None, cannot have this name."""
    kind = Module if kind is None else kind
    owner = type(module).__name__
    if not isinstance(name, str) or not name or "." in name:
        raise ValueError(f"[{owner}] expected a name without dots, got {name!r:.60}.")
    if value is not None and not isinstance(value, kind):
        got = type(value).__name__
        raise TypeError(f"[{owner}] expected a {kind.__name__} as {name!r}, got {got}.")
    if not isinstance(getattr(module, name, None), (kind, type(None))):
        raise ValueError(
            f"[{owner}] has an attribute {name!r} of another kind already; choose another name."
        )


def named_leaves(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Tensors and modules in an attribute, through lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Module):
        yield name, value.__dict__.get("__wrapped__", value)  # of a compiled one, the module
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from named_leaves(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from named_leaves(f"{name}.{i}", item)


def _at(module: Module, path: str) -> Module | None:
    """The module at a path, one of the names that it has; names have dots in them too."""
    if not path:
        return module
    for name, child in module.named_children():
        within = f"{path}.".startswith(f"{name}.")
        found = _at(child, path[len(name) + 1 :]) if within else None
        if found is not None:
            return found
    return None


def _hint(module: Module, state: Mapping[str, object], layout: str) -> str:
    """That the other layout would have matched, if it would."""
    other = "torch" if layout == "needle" else "needle"
    fits = not compare({e.name: e for e in module._state_entries(other)}, state)
    return f"\nThe state has the other layout: give layout={other!r}." if fits else ""


def _call_with_hooks(
    module: Module, hooks: Hooks, args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    for (when, _), hook in hooks.items():
        if when == "before":
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    output = module.forward(*args, **kwargs)
    for (when, _), hook in hooks.items():
        if when == "after":
            replaced = hook(module, args, output)
            output = output if replaced is None else replaced
    return output


def _name_module(error: Exception, stack: list[Module], args: tuple[object, ...]) -> None:
    """Add the path of the innermost module to an error, once."""
    if getattr(error, "in_module", None) is not None:
        return
    names = []
    for parent, child in itertools.pairwise(stack):
        below = parent.named_modules()
        names.append(next((n for n, m in below if m is child), type(child).__name__))
    path = ".".join(names)
    where = f"{path}: {type(stack[-1]).__name__}" if path else type(stack[-1]).__name__
    given = [
        f"{a.shape}" if isinstance(a, Tensor) else f"a NumPy array {a.shape}, which is no Tensor"
        for a in args
        if isinstance(a, (Tensor, np.ndarray))
    ]
    error.in_module = path  # type: ignore[attr-defined]
    if error.args and isinstance(error.args[0], str):
        shapes = f" given {', '.join(given)}" if given else ""
        error.args = (f"{error.args[0]} [in module {where}{shapes}]", *error.args[1:])
