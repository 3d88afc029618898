"""grad, vjp, jvp, jacobians and vmap of functions, and modules called with other parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...autograd import Tensor as EngineTensor
from ...ops.common import fresh_leaf
from ...tree import leaves, map_leaves
from ..autograd.reverse import gradients as adjoints, seed_of
from ..functions.joining import stack

Function = Callable[..., Any]


def _fresh(tree: Any) -> Any:
    """Tensors as values of their own that require gradients, with their histories."""
    return map_leaves(lambda x: fresh_leaf(x) if isinstance(x, EngineTensor) else x, tree)


def _tensors(tree: Any) -> list[Any]:
    return [x for x in leaves(tree) if isinstance(x, EngineTensor)]


def _filled(tree: Any, found: Sequence[Any]) -> Any:
    """The tree with its tensors replaced."""
    rest = iter(found)
    return map_leaves(lambda x: next(rest) if isinstance(x, EngineTensor) else x, tree)


def _adjoints(outputs: list[Any], seeds: list[Any], wanted: list[Any]) -> list[Any]:
    """The gradients of outputs; zeros where nothing flows."""
    pairs = [(y, g) for y, g in zip(outputs, seeds, strict=True) if y.requires_grad]
    found = adjoints(pairs, wanted, True) if pairs else [None] * len(wanted)
    return [x.detach() * 0 if g is None else g for x, g in zip(wanted, found, strict=True)]


def _places(argnums: Any) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _with(args: tuple[Any, ...], places: tuple[int, ...], chosen: Sequence[Any]) -> list[Any]:
    given = list(args)
    for place, value in zip(places, chosen, strict=True):
        given[place] = value
    return given


def _released(tree: Any, args: Any) -> Any:
    """Results without history, unless an outer derivative is taken of the arguments."""
    if any(x.requires_grad for x in _tensors(args)):
        return tree
    return map_leaves(lambda x: x.detach() if isinstance(x, EngineTensor) else x, tree)


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """(gradient, value) of a function whose value is one number."""

    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        places = _places(argnums)
        chosen = [_fresh(args[i]) for i in places]
        result = func(*_with(args, places, chosen), **options)
        value, aux = result if has_aux else (result, None)
        if value.ndim:
            raise RuntimeError("Expected f(*args) to return a scalar tensor, got tensor with "
                               f"{value.ndim} dims.")  # fmt: skip
        wanted = _tensors(chosen)
        seeds = [seed_of(value, None)] if value.requires_grad else [None]
        found = _released(_filled(chosen, _adjoints([value], seeds, wanted)), args)
        derivative = found[0] if isinstance(argnums, int) else tuple(found)
        shown = _released(value, args)
        return (derivative, (shown, aux)) if has_aux else (derivative, shown)

    return call


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """The gradient of a function whose value is one number."""

    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        derivative, value = grad_and_value(func, argnums, has_aux)(*args, **options)
        return (derivative, value[1]) if has_aux else derivative

    return call


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result, and the function that takes v to vᵀ times the derivatives."""
    chosen = [_fresh(x) for x in primals]
    result = func(*chosen)
    output, aux = result if has_aux else (result, None)

    def pull(*cotangents: Any, **options: Any) -> tuple[Any, ...]:
        seeds = _tensors(cotangents)
        found = _adjoints(_tensors(output), seeds, _tensors(chosen))
        return tuple(_released(_filled(chosen, found), (primals, cotangents)))

    shown = _released(output, primals)
    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(func: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...], **options: Any) -> Any:
    """The result, and the derivatives times v: the derivative of a vjp by its cotangent."""
    has_aux = options.get("has_aux", False)
    chosen = [_fresh(x) for x in primals]
    result = func(*chosen)
    output, aux = result if has_aux else (result, None)
    ys = _tensors(output)
    seeds = [(y.detach() * 0).requires_grad_() for y in ys]
    pulled = _adjoints(ys, seeds, _tensors(chosen))
    found = _adjoints(pulled, _tensors(tangents), seeds)
    pair = _released((output, _filled(output, found)), (primals, tangents))
    return (*pair, aux) if has_aux else pair


def jacrev(func: Function, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Function:
    """The derivatives of all results by all arguments, row by row."""

    @functools.wraps(func)
    def call(*args: Any) -> Any:
        places = _places(argnums)
        chosen = [_fresh(args[i]) for i in places]
        result = func(*_with(args, places, chosen))
        output, aux = result if has_aux else (result, None)
        wanted = _tensors(chosen)

        def rows(y: Any) -> Any:
            each = [_adjoints([e], [seed_of(e, None) if e.requires_grad else None], wanted)
                    for e in y.reshape(-1).unbind()]  # fmt: skip
            parts = [stack(list(p)).reshape((*y.shape, *x.shape))
                     for p, x in zip(zip(*each, strict=True), wanted, strict=True)]  # fmt: skip
            found = _filled(chosen, parts)
            return found[0] if isinstance(argnums, int) else tuple(found)

        found = map_leaves(lambda y: rows(y) if isinstance(y, EngineTensor) else y, output)
        return (_released(found, args), aux) if has_aux else _released(found, args)

    return call


jacfwd = jacrev  # the same numbers, by the other order of products


def hessian(func: Function, argnums: Any = 0) -> Function:
    """The second derivatives of a function whose value is one number."""
    return jacrev(jacrev(func, argnums), argnums)


# Batches ------------------------------------------------------------------------------------------


def _axes(in_dims: Any, args: tuple[Any, ...]) -> list[Any]:
    return [in_dims] * len(args) if isinstance(in_dims, int) or in_dims is None else list(in_dims)


def _taken(value: Any, dims: Any, i: int) -> Any:
    """Element i of each tensor in a value, along its axis."""
    if dims is None:
        return value
    if isinstance(value, EngineTensor):
        return value.select(dims, i)
    if isinstance(value, dict):
        by_key = dims if isinstance(dims, dict) else dict.fromkeys(value, dims)
        return {k: _taken(v, by_key[k], i) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        each = dims if isinstance(dims, (list, tuple)) else [dims] * len(value)
        return type(value)(_taken(v, d, i) for v, d in zip(value, each, strict=True))
    return value


def _sizes(value: Any, dims: Any) -> list[int]:
    if dims is None:
        return []
    if isinstance(value, EngineTensor):
        return [int(value.shape[dims])]
    if isinstance(value, dict):
        by_key = dims if isinstance(dims, dict) else dict.fromkeys(value, dims)
        return [n for k, v in value.items() for n in _sizes(v, by_key[k])]
    if isinstance(value, (list, tuple)):
        each = dims if isinstance(dims, (list, tuple)) else [dims] * len(value)
        return [n for v, d in zip(value, each, strict=True) for n in _sizes(v, d)]
    return []


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Function:  # fmt: skip
    """The function for each element of a batch: called once for each, results stacked."""

    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        dims = _axes(in_dims, args)
        found = {n for a, d in zip(args, dims, strict=True) for n in _sizes(a, d)}
        found |= {n for v in options.values() for n in _sizes(v, 0)}
        if len(found) != 1:
            raise ValueError(
                "vmap: expected all tensors to have one size in the mapped dimension, got "
                f"{sorted(found)}"
            )
        each = [
            func(
                *(_taken(a, d, i) for a, d in zip(args, dims, strict=True)),
                **{k: _taken(v, 0, i) for k, v in options.items()},
            )
            for i in range(found.pop())
        ]
        return _stacked(each, out_dims)

    return call


def _stacked(each: list[Any], dims: Any) -> Any:
    first = each[0]
    if isinstance(first, (list, tuple)):
        given = dims if isinstance(dims, (list, tuple)) else [dims] * len(first)
        parts = [_stacked([e[k] for e in each], given[k]) for k in range(len(first))]
        return type(first)(parts)
    if isinstance(first, dict):
        return {k: _stacked([e[k] for e in each], dims) for k in first}
    return first if dims is None else stack(each, dims)


# Modules ------------------------------------------------------------------------------------------


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Any = None,
    **options: Any,
) -> Any:
    """The module's result with other parameters and buffers."""
    given: dict[str, Any] = {}
    several = parameter_and_buffer_dicts
    for part in [several] if isinstance(several, Mapping) else several:
        given |= part
    owners = {name: _owner(module, name) for name in given}
    former = {name: _get(owner, last) for name, (owner, last) in owners.items()}
    try:
        for name, (owner, last) in owners.items():
            _set(owner, last, given[name])
        positional = args if isinstance(args, tuple) else () if args is None else (args,)
        return module(*positional, **(kwargs or {}))
    finally:
        for name, (owner, last) in owners.items():
            _set(owner, last, former[name])


def _owner(module: Any, name: str) -> tuple[Any, str]:
    path, _, last = name.rpartition(".")
    return (module.get_submodule(path) if path else module), last


def _table(owner: Any, name: str) -> Any:
    for table in ("_parameters", "_buffers"):
        if name in vars(owner).get(table, {}):
            return vars(owner)[table]
    return vars(owner)


def _get(owner: Any, name: str) -> Any:
    return _table(owner, name)[name]


def _set(owner: Any, name: str, value: Any) -> None:
    _table(owner, name)[name] = value


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of several models, stacked by name."""
    names = [dict(m.named_parameters()) for m in models], [dict(m.named_buffers()) for m in models]
    parameters, buffers = (
        {k: stack([d[k].detach() for d in each]) for k in each[0]} for each in names
    )
    for p in parameters.values():
        p.requires_grad_()
    return parameters, buffers
