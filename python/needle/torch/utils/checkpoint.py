"""`torch.utils.checkpoint`: recompute instead of keeping what the backward pass needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import torch

__all__ = ["checkpoint", "checkpoint_sequential"]


class _Recomputed:
    """Made when it is first used: `torch.autograd.Function` is loaded then."""

    function: Any = None

    @classmethod
    def get(cls) -> Any:
        """The operator."""
        if cls.function is None:
            cls.function = _make()
        return cls.function


def _make() -> Any:
    class Checkpoint(torch.autograd.Function):  # type: ignore[misc]
        """f(x) without its graph, which the backward pass computes again."""

        @staticmethod
        def forward(ctx: Any, run: Any, preserve: bool, *args: Any) -> Any:
            ctx.run, ctx.inputs = run, args
            ctx.state = torch.get_rng_state() if preserve else None
            with torch.no_grad():
                return run(*args)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            now = torch.get_rng_state()
            if ctx.state is not None:
                torch.set_rng_state(ctx.state)
            fresh = [_leaf(x) for x in ctx.inputs]
            with torch.enable_grad():
                found = ctx.run(*fresh)
            if ctx.state is not None:
                torch.set_rng_state(now)
            outputs = found if isinstance(found, tuple) else (found,)
            pairs = [
                (y, g) for y, g in zip(outputs, grads, strict=True)
                if isinstance(y, torch.Tensor) and y.requires_grad and g is not None
            ]  # fmt: skip
            torch.autograd.backward([y for y, _ in pairs], [g for _, g in pairs])
            return (None, None, *(getattr(x, "grad", None) for x in fresh))

    return Checkpoint


def _leaf(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    leaf = x.detach()
    return leaf.requires_grad_(x.requires_grad) if x.is_floating_point() else leaf


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True, determinism_check: str = "default", debug: bool = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """function(*args), computed again in the backward pass."""

    def run(*given: Any) -> Any:
        return function(*given, **kwargs)

    if not torch.is_grad_enabled():
        return run(*args)
    trigger = torch.ones((), requires_grad=True)  # parameters inside need gradients, too

    def with_trigger(_: Any, *given: Any) -> Any:
        return run(*given)

    return _Recomputed.get().apply(with_trigger, preserve_rng_state, trigger, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Modules in a row, in segments that are checkpointed."""
    modules = list(
        functions.children() if isinstance(functions, torch.nn.Sequential) else functions
    )
    size = len(modules) // segments

    def running(part: list[Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for module in part:
                x = module(x)
            return x

        return run

    for i in range(segments - 1):
        input = checkpoint(running(modules[i * size : (i + 1) * size]), input, **kwargs)
    return running(modules[(segments - 1) * size :])(input)
