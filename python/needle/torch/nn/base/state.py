"""The state of a module: its tensors by name, and loading them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .... import torch
from ..parameter import Parameter, is_lazy
from . import hooks

if TYPE_CHECKING:
    from ....autograd import Tensor
    from .module import Module

EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What load_state_dict did not find, and what it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    def __str__(self) -> str:
        return repr(self)


class Stateful:
    """The part of `Module` that is about its state."""

    _version = 1
    _modules: dict[str, Module | None]
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: hooks.Hooks
    _state_dict_pre_hooks: hooks.Hooks
    _load_state_dict_pre_hooks: hooks.Hooks
    _load_state_dict_post_hooks: hooks.Hooks

    def get_extra_state(self) -> Any:
        """What else the state holds: define it together with `set_extra_state`."""
        raise RuntimeError("[get_extra_state] define get_extra_state and set_extra_state.")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise RuntimeError("[set_extra_state] define get_extra_state and set_extra_state.")

    # Saving -------------------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Parameters and persistent buffers by name: the tensors themselves, detached."""
        if args:  # as PyTorch once took them: destination, prefix, keep_vars
            given = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # the modules' versions
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}{name}."
                module.state_dict(destination=destination, prefix=inner, keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local)
            if result is not None and not getattr(hook, "_from_public_api", False):
                destination = result
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """This module's own tensors."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Tensor]]:
        saved = [*self._parameters.items()]
        saved += [
            (name, buffer)  # type: ignore[misc]
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        ]
        return [(name, tensor) for name, tensor in saved if tensor is not None]

    def _register_state_dict_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, state, prefix, metadata) after saving; may return another state."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("[_register_state_dict_hook] this hook was registered before.")
        return hooks.add(self._state_dict_hooks, hook)  # type: ignore[no-any-return]

    def register_state_dict_post_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, state, prefix, metadata) after saving."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return hooks.add(self._state_dict_hooks, hook)  # type: ignore[no-any-return]

    def register_state_dict_pre_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, prefix, keep_vars) before saving."""
        return hooks.add(self._state_dict_pre_hooks, hook)  # type: ignore[no-any-return]

    # Loading ------------------------------------------------------------------------------------

    def _register_load_state_dict_pre_hook(
        self, hook: hooks.Hook, with_module: bool = False
    ) -> hooks.RemovableHandle:
        """hook([module,] state, prefix, metadata, strict, missing, unexpected, errors)"""
        if not with_module:
            bare = hook

            def hook(module: object, *args: object) -> object:
                return bare(*args)

        return hooks.add(self._load_state_dict_pre_hooks, hook)  # type: ignore[no-any-return]

    def register_load_state_dict_pre_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, state, prefix, metadata, strict, missing, unexpected, errors)"""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, incompatible_keys) after loading."""
        return hooks.add(self._load_state_dict_post_hooks, hook)  # type: ignore[no-any-return]

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors, and note what does not fit."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in self._own_state():
            key = prefix + name
            if key in state_dict:
                problem = _load(self, name, tensor, state_dict[key], key, assign)
                error_msgs.extend([problem] if problem else [])
            elif strict:
                missing_keys.append(key)
        self._load_extra(state_dict, prefix + EXTRA, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    first, _, rest = key[len(prefix) :].partition(".")
                    known = first in self._modules if rest else first in dict(self._own_state())
                    if not known:
                        unexpected_keys.append(key)

    def _load_extra(
        self, state: Any, key: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state:
                self.set_extra_state(state[key])
            elif strict:
                missing.append(key)
        elif strict and key in state:
            unexpected.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors in by name; assign puts the given tensors in the place of the own ones."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module: Any, local: Any, prefix: str) -> None:
            of_module = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                of_module["assign_to_params_buffers"] = True
            module._load_from_state_dict(
                local, prefix, of_module, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(inner)}, inner)
            found = IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, found) is not None:
                    raise RuntimeError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, state, "")
        if strict:
            errors[:0] = _say("Missing", missing) + _say("Unexpected", unexpected)
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(
                    type(self).__name__, "\n\t".join(errors)
                )
            )
        return IncompatibleKeys(missing, unexpected)


def _say(kind: str, keys: list[str]) -> list[str]:
    quoted = ", ".join(f'"{key}"' for key in keys)
    return [f"{kind} key(s) in state_dict: {quoted}. "] if keys else []


def _load(module: Any, name: str, own: Tensor, given: Any, key: str, assign: bool) -> str | None:
    """Put a given tensor in the place of the own one; or say why that cannot be."""
    if not isinstance(given, torch.Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(given)}"
        )
    if is_lazy(own):
        own.materialize(given.shape)  # type: ignore[attr-defined]
    elif own.ndim == 0 and given.ndim == 1 and given.shape[0] == 1:
        given = given[0]  # as old files have it
    if tuple(own.shape) != tuple(given.shape):
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
            f"the shape in current model is {own.shape}."
        )
    if not assign:
        with torch.no_grad():
            own.copy_(given)
        return None
    if isinstance(own, Parameter) and not isinstance(given, Parameter):
        given = Parameter(given, requires_grad=own.requires_grad)
    elif isinstance(own, Parameter):
        given.requires_grad_(own.requires_grad)
    setattr(module, name, given)
    return None
