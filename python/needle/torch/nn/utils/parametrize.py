"""Parametrizations: a tensor of a module is computed from others whenever it is read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .... import torch
from ..base.module import Module
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_cache: dict[tuple[int, str], Any] = {}
_caching = 0


@contextmanager
def cached() -> Iterator[None]:
    """Within this context, each parametrized tensor is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The functions, one after the other, and what they start from: `original`, or several."""

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        start = original
        with torch.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    start = module.right_inverse(start)
        self.is_tensor = isinstance(start, torch.Tensor)
        if self.is_tensor:
            self._set("original", start, original)
        else:
            self.ntensors = len(start)
            for i, part in enumerate(start):
                self._set(f"original{i}", part, original)

    def _set(self, name: str, value: Tensor, original: Any) -> None:
        if isinstance(original, Parameter):
            if value is original:
                self.register_parameter(name, original)
            else:
                self.register_parameter(
                    name, Parameter(value.detach().clone(), original.requires_grad)
                )
        else:
            self.register_buffer(name, value)

    def right_inverse(self, value: Tensor) -> None:
        """Change what the functions start from so that they give this value."""
        with torch.no_grad():
            start: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                start = module.right_inverse(start)
            if self.is_tensor:
                self.original.data = start.data
            else:
                for i, part in enumerate(start):
                    getattr(self, f"original{i}").data = part.data

    def forward(self) -> Any:
        """The value."""
        first, *rest = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            value = module(value)
        return value


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        key = (id(self), name)
        if _caching and key in _cache:
            return _cache[key]
        value = self.parametrizations[name]()
        if _caching:
            _cache[key] = value
        return value

    def set_(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def _give_class(module: Module) -> None:
    """A class of its own, which can have properties."""
    base = module.__class__

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        found = self.__new__(self.__class__)
        memo[id(self)] = found
        found.__dict__ = copy.deepcopy(self.__dict__, memo)
        return found

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()."
        )

    fields = {"__deepcopy__": deepcopy, "__getstate__": getstate}
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), fields)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let module.tensor_name be parametrization(the tensor)."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        functions = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            _check(parametrization, value)
            if hasattr(parametrization, "right_inverse"):
                functions.right_inverse(parametrization.right_inverse(value))
        functions.append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized "
            "element with "
            f"name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    functions = ParametrizationList([parametrization], original, unsafe=unsafe)
    if not unsafe:
        with torch.no_grad():
            _check_value(functions(), original)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _give_class(module)
        module.parametrizations = ModuleDict()
    setattr(module.__class__, tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = functions
    return module


def _check(parametrization: Module, value: Any) -> None:
    with torch.no_grad():
        _check_value(parametrization(value), value)


def _check_value(given: Any, value: Any) -> None:
    if not isinstance(given, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(given).__name__}.")
    if given.dtype != value.dtype or given.shape != value.shape:
        raise ValueError(
            "Registering a parametrization may not change the dtype or the shape of the tensor, "
            f"unless `unsafe` flag is enabled: {given.dtype}, {given.shape} instead of "
            f"{value.dtype}, {value.shape}."
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module a parametrization (of this tensor)?"""
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """The tensor as a parameter again: its value, or what it was computed from."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    functions = module.parametrizations[tensor_name]
    if leave_parametrized:
        with torch.no_grad():
            value = getattr(module, tensor_name).detach().clone()
        old = functions.original if functions.is_tensor else functions.original0
    elif functions.is_tensor:
        value = old = functions.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    if isinstance(old, Parameter):
        keep = not leave_parametrized
        new = old if keep else Parameter(value, old.requires_grad)
        module.register_parameter(tensor_name, new)
    else:
        module.register_buffer(tensor_name, value)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class without parametrizations."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the same parametrizations, with copies of the tensors."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        functions = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in functions:
            register_parametrization(to_module, name, function)
        mine = to_module.parametrizations[name]
        for key, value in functions._parameters.items():
            if value is not None:
                getattr(mine, key).data = value.data.clone()
    return to_module
