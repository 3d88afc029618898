"""Calling modules with other tensors than their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .... import torch
from ..base.module import Module

__all__ = ["functional_call"]


@contextmanager
def swapped(module: Module, tensors: Mapping[str, Any], tie_weights: bool = True) -> Iterator[None]:
    """Within this context, module's tensors of these names are others."""
    alike: dict[int, list[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, tensor in named(remove_duplicate=False):  # type: ignore[operator]
            alike.setdefault(id(tensor), []).append(name)
    wanted = dict(tensors)
    if tie_weights:
        for names in alike.values():
            given = [name for name in names if name in tensors]
            for name in names if given else ():
                wanted.setdefault(name, tensors[given[0]])
    stores: list[tuple[Any, str, Any]] = []
    try:
        for path, tensor in wanted.items():
            owner, _, name = path.rpartition(".")
            own = module.get_submodule(owner)
            store = own._parameters if name in own._parameters else own._buffers
            if name not in store:
                raise KeyError(
                    f"Unexpected key(s): {path!r} is no tensor of {type(module).__name__}"
                )
            stores.append((store, name, store[name]))
            store[name] = tensor
        yield
    finally:
        for store, name, former in reversed(stores):
            store[name] = former


def functional_call(
    module: Module, parameters_and_buffers: Any, args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """module(*args) with these tensors in the place of its own."""
    if isinstance(parameters_and_buffers, (tuple, list)):
        merged: dict[str, Any] = {}
        for part in parameters_and_buffers:
            merged.update(part)
        parameters_and_buffers = merged
    if strict:
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        if own.keys() != parameters_and_buffers.keys():
            odd = sorted(own.keys() ^ parameters_and_buffers.keys())
            raise RuntimeError(f"[functional_call] missing or unexpected tensors: {odd}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, parameters_and_buffers, tie_weights):
        return module(*args, **(kwargs or {}))


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module without initial values: here its parameters are as they were drawn.

    The generator is left as it was, as in PyTorch, where nothing is drawn."""
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = module_cls(*args, **kwargs)
    torch.set_rng_state(state)
    return module
