"""Module: a tree of parameters, buffers and submodules, and the function that uses them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from .... import torch
from ....autograd.writing import replace_data
from ....facts import Noted
from ..parameter import Buffer, Parameter, is_lazy
from . import hooks
from .registry import Registry, check_free, check_name, find, forget
from .state import Stateful

if TYPE_CHECKING:
    from ....autograd import Tensor

HOOKS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip
AROUND_CALLS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Found = Iterator[tuple[str, Any]]


class Module(Stateful, Noted):
    """The base of layers and models: define `__init__`, which sets attributes, and `forward`."""

    dump_patches = False
    training: bool
    call_super_init = False
    _forward_hooks: hooks.Hooks
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: hooks.Hooks
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: hooks.Hooks
    _backward_pre_hooks: hooks.Hooks
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = next(iter(kwargs)) if kwargs else f"{len(args)} positional"
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{given}'"
                if kwargs
                else f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        own = self.__dict__
        own["training"] = True
        for name in ("_parameters", "_buffers"):
            own[name] = Registry()
        own["_non_persistent_buffers_set"] = set()
        for name in HOOKS:
            own[name] = OrderedDict()
        own["_is_full_backward_hook"] = None
        own["_modules"] = Registry()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """What the module computes."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if (
            own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
            or own["_backward_pre_hooks"] or _has_global_hooks()
        ):  # fmt: skip
            return hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module, in place."""
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)

    # Attributes ---------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return find(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            check_name(self, "parameters", name)
            forget(self, name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            check_name(self, "module", name)
            forget(self, name, "_modules")
            own["_modules"][name] = value
        elif isinstance(value, Buffer):
            check_name(self, "buffer", name)
            forget(self, name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" not in own:
            super().__setattr__(name, value)
        elif name in own["_parameters"]:
            _only_none(value, "parameter", name, "torch.nn.Parameter or None expected")
            own["_parameters"][name] = value
        elif name in own["_modules"]:
            _only_none(value, "child module", name, "torch.nn.Module or None expected")
            own["_modules"][name] = value
        elif name in own["_buffers"]:
            if not isinstance(value, torch.Tensor):
                _only_none(value, "buffer", name, "torch.nn.Buffer, torch.Tensor or None expected")
            own["_buffers"][name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for store in (self._parameters, self._buffers, self._modules):
            if name in store:
                del store[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names |= {*self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in HOOKS:
            self.__dict__.setdefault(name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is no parameter; it is in the state if it is persistent."""
        check_name(self, "buffer", name)
        check_free(self, "buffer", name)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        marked = self._non_persistent_buffers_set
        (marked.discard if persistent else marked.add)(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter."""
        check_name(self, "parameter", name)
        check_free(self, "parameter", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{torch.typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{torch.typename(module)} is not a Module subclass")
        check_name(self, "module", name)
        check_free(self, "module", name)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as "blocks.2.fc1"; "" is this one."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path; strict: only where one is."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path."""
        return self._tensor_at(target, "_parameters", "nn.Parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        return self._tensor_at(target, "_buffers", "a buffer")  # type: ignore[no-any-return]

    def _tensor_at(self, target: str, store: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[store]:
            raise AttributeError(f"`{name}` is not {kind}")
        return module.__dict__[store][name]

    # The tree -----------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules and their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Found:
        seen: set[int] = set()
        below = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in below if recurse else [(prefix, self)]:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters and their names; a shared one appears once."""
        return self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers and their names."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call a function on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes --------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Training behaviour here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Inference behaviour here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters here and below get gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or make them zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad = torch.zeros_like(parameter.grad)

    def share_memory(self) -> Self:
        """Move the tensors to memory that processes share."""
        return self._apply(lambda t: t.share_memory_())

    # Places and types ---------------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of all tensors by fn of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                _replace(parameter, fn)
                if parameter.grad is not None:
                    _replace(parameter.grad, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and cast in place, as `Tensor.to`; integers keep their dtype."""
        device, dtype = _place_and_dtype(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def move(t: Tensor) -> Tensor:
            is_real = t.is_floating_point() or t.is_complex()
            target = dtype if dtype is not None and is_real else t.dtype
            return t.to(t.device if device is None else device, target)

        return self._apply(move)

    def cpu(self) -> Self:
        """`to("cpu")`"""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """`to("cuda")`"""
        return self._apply(lambda t: t.to("cuda" if device is None else device))

    def type(self, dst_type: Any) -> Self:
        """Cast all tensors."""
        cast: Callable[[Any], Any] = lambda t: t.type(dst_type)  # noqa: E731
        return self._apply(cast)

    def _cast(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Cast floats to float32."""
        return self._cast(torch.float32)

    def double(self) -> Self:
        """Cast floats to float64."""
        return self._cast(torch.float64)

    def half(self) -> Self:
        """Cast floats to float16."""
        return self._cast(torch.float16)

    def bfloat16(self) -> Self:
        """Cast floats to bfloat16."""
        return self._cast(torch.bfloat16)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move without copying the values."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse)

    # Hooks --------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: hooks.Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> hooks.RemovableHandle:
        """hook(module, args[, kwargs]) before forward; it may return other arguments."""
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return hooks.add(self._forward_pre_hooks, hook, prepend, *marks)  # type: ignore[no-any-return]

    def register_forward_hook(
        self,
        hook: hooks.Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> hooks.RemovableHandle:
        """hook(module, args[, kwargs], output) after forward; it may return another output."""
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return hooks.add(self._forward_hooks, hook, prepend, *marks)  # type: ignore[no-any-return]

    def register_full_backward_hook(
        self, hook: hooks.Hook, prepend: bool = False
    ) -> hooks.RemovableHandle:
        """hook(module, grad_input, grad_output); it may return another grad_input."""
        return hooks.add(self._backward_hooks, hook, prepend)  # type: ignore[no-any-return]

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(
        self, hook: hooks.Hook, prepend: bool = False
    ) -> hooks.RemovableHandle:
        """hook(module, grad_output); it may return another grad_output."""
        return hooks.add(self._backward_pre_hooks, hook, prepend)  # type: ignore[no-any-return]

    # Printing -----------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the repr says between the parentheses."""
        return ""

    def __repr__(self) -> str:
        text = self.extra_repr()
        lines = text.split("\n") if text else []
        own = len(lines)
        for name, module in self._modules.items():
            lines.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        if not lines:
            return f"{self._get_name()}()"
        if own == 1 and len(lines) == 1:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _has_global_hooks() -> bool:
    g = hooks.GlobalHooks
    return bool(g.forward or g.before_forward or g.backward or g.before_backward)


def _only_none(value: object, kind: str, name: str, wanted: str) -> None:
    if value is not None:
        raise TypeError(f"cannot assign '{torch.typename(value)}' as {kind} '{name}' ({wanted})")


def _replace(tensor: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    """Give a tensor the data of fn of it; the object stays."""
    with torch.no_grad():
        changed = fn(tensor)
    if changed is not tensor and not is_lazy(tensor):
        replace_data((tensor,), (changed.realize_cached_data(),))


def _place_and_dtype(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The device and the dtype that `Tensor.to` was asked for."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for given in args:
        if isinstance(given, torch.dtype):
            dtype = given
        elif isinstance(given, torch.Tensor):
            device, dtype = given.device, given.dtype
        elif given is not None and not isinstance(given, bool):
            device = given
    return device, dtype
