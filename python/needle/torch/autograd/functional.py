"""`torch.autograd.functional`: derivatives of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Tensor as EngineTensor
from ..functions.joining import stack
from .reverse import grad


def _listed(inputs: Any) -> tuple[Any, ...]:
    return (inputs,) if isinstance(inputs, EngineTensor) else tuple(inputs)


def _leaves(inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    """Inputs that gradients can be asked for."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in _listed(inputs)
    )


def _like(result: list[Any], original: Any) -> Any:
    return result[0] if isinstance(original, EngineTensor) else tuple(result)


def _zeros_for(g: Any, x: Any) -> Any:
    return x.detach() * 0 if g is None else g


def _done(value: Any, create_graph: bool) -> Any:
    return value if create_graph else value.detach()


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The derivatives of all results by all inputs: (*result's shape, *input's shape)"""
    given = _leaves(inputs, create_graph)
    outputs = func(*given)
    rows = []
    for y in _listed(outputs):
        parts: list[list[Any]] = [[] for _ in given]
        for element in y.reshape(-1).unbind() if y.numel() else ():
            found: Any = (None,) * len(given)
            if element.requires_grad:
                found = grad(element, given, None, True, create_graph, allow_unused=True)
            for part, g, x in zip(parts, found, given, strict=True):
                part.append(_zeros_for(g, x))
        blocks = [
            _done(stack(part).reshape((*y.shape, *x.shape)), create_graph)
            for part, x in zip(parts, given, strict=True)
        ]
        rows.append(_like(blocks, inputs))
    return _like(rows, outputs)


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of one number."""

    def gradient(*args: Any) -> Any:
        given = tuple(x if x.requires_grad else x.requires_grad_() for x in args)
        found = grad(func(*given), given, create_graph=True, allow_unused=True)
        result = [_zeros_for(g, x) for g, x in zip(found, given, strict=True)]
        return _like(result, inputs)

    return jacobian(gradient, inputs, create_graph)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """The results, and vᵀ times their derivatives."""
    given = _leaves(inputs, create_graph)
    outputs = func(*given)
    seeds = None if v is None else list(_listed(v))
    found = grad(list(_listed(outputs)), given, seeds, None, create_graph, allow_unused=True)
    result = [_zeros_for(g, x) for g, x in zip(found, given, strict=True)]
    shown = _like([_done(y, create_graph) for y in _listed(outputs)], outputs)
    return shown, _like(result, inputs)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """The results, and their derivatives times v: by the derivative of a vjp."""
    given = _leaves(inputs, create_graph)
    outputs = func(*given)
    ys = list(_listed(outputs))
    seeds = [(y.detach() * 0).requires_grad_() for y in ys]
    pulled = grad(ys, given, seeds, create_graph=True, allow_unused=True)
    tangents = [x.detach() * 0 + 1 for x in given] if v is None else list(_listed(v))
    pairs = [
        (g, t) for g, t in zip(pulled, tangents, strict=True) if g is not None and g.requires_grad
    ]
    found: Any = [None] * len(seeds)
    if pairs:
        found = grad(
            [g for g, _ in pairs],
            seeds,
            [t for _, t in pairs],
            None,
            create_graph,
            allow_unused=True,
        )
    result = [_zeros_for(g, y) for g, y in zip(found, ys, strict=True)]
    shown = _like([_done(y, create_graph) for y in ys], outputs)
    return shown, _like(result, outputs)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The value, and its second derivatives times v."""
    given = _leaves(inputs, create_graph)
    value = func(*given)
    first = grad(value, given, create_graph=True, allow_unused=True)
    tangents = list(_listed(v))
    pairs = [
        (g, t) for g, t in zip(first, tangents, strict=True) if g is not None and g.requires_grad
    ]
    found = grad(
        [g for g, _ in pairs], given, [t for _, t in pairs], None, create_graph, allow_unused=True
    )
    result = [_zeros_for(g, x) for g, x in zip(found, given, strict=True)]
    return _done(value, create_graph), _like(result, inputs)


vhp = hvp  # second derivatives are symmetric
