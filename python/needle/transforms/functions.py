"""Functions that differentiate functions: nothing is stored in `.grad`.

A function runs once on fresh leaves with its arguments' values; what it did is in the graph between
these and its results. Reverse mode walks this graph backwards, forward mode walks it forwards, and
both build new graph, so that transforms can be nested in any way. Arguments and results may be
tensors or nested tuples, lists and dicts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..autograd import Tensor, TensorTuple, Value, in_own_memory
from ..autograd.grad_mode import GradMode, enable_grad, is_grad_enabled, no_grad
from ..autograd.graph import backward_pass, find_paths, find_topo_sort
from ..dtype import dtype_of
from ..ndarray import functions as F, versions as mutation
from ..ops.common import Alias, fresh_leaf, whole_number, zeros_like
from ..ops.shape.concat import stack
from ..ops.shape.movement import reshape
from ..ops.tuples import make_tuple
from ..tree import leaves, map_leaves, with_leaves

if TYPE_CHECKING:
    from ..types import Adjoint

__all__ = ["vjp", "value_and_grad", "grad", "jvp", "jacobian", "hessian"]

T = TypeVar("T")
Function = Callable[..., Any]


# Recording --------------------------------------------------------------------------------------


class Recording(NamedTuple):
    """A function's run: the graph from `inputs` to the leaves of `out`."""

    inputs: list[Tensor]
    out: Any
    kept: bool  # may somebody differentiate through the transform itself?


def _record(name: str, f: Function, primals: tuple[object, ...]) -> Recording:
    """Run f(*primals) on fresh leaves."""
    tensors = leaves(primals)
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"[{name}] expected Tensors to differentiate by, got {type(x).__name__}; "
                "wrap it with needle.tensor(...) or leave it out with argnums."
            )
        if not dtype_of(x.dtype).is_floating:
            raise TypeError(f"[{name}] expected floating tensors, got {x.dtype}; cast it first.")
    with enable_grad():
        inputs = [fresh_leaf(x) for x in tensors]
        # f gets a second node: assigning to it must not change what is differentiated by.
        out = f(*with_leaves(primals, [Alias()(x) for x in inputs]))
    kept = is_grad_enabled() and (
        any(x.requires_grad for x in tensors) or _reaches_outside(inputs, _differentiable(out))
    )
    return Recording(inputs, out, kept)


def _reaches_outside(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
    """Did f use a tensor that requires a gradient and is not an argument?"""
    first = min((x._stamp for x in inputs), default=0)
    walk = find_topo_sort(outputs, until=lambda n: n._stamp < first or not n.requires_grad)
    return any(n.requires_grad and n._stamp < first for n in walk)


def _differentiable(out: object) -> list[Tensor]:
    return [x for x in leaves(out) if isinstance(x, Tensor) and x.requires_grad]


def _released(recording: Recording, tree: object) -> Any:
    """The results for the user: without the graph, unless somebody may need it."""
    if recording.kept:
        return map_leaves(lambda x: x, tree)

    def release(x: object) -> object:
        if not isinstance(x, Tensor) or not x.requires_grad:
            return x
        with no_grad():
            return Alias()(x)

    return map_leaves(release, tree)


def _with_aux(name: str, out: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(f"[{name}] has_aux expects f to return (result, aux), got {_kind(out)}.")
    return out


def _kind(x: object) -> str:
    return f"a Tensor of shape {x.shape}" if isinstance(x, Tensor) else type(x).__name__


# Walking ----------------------------------------------------------------------------------------


def _given_out(
    found: Sequence[Adjoint], inputs: Sequence[Tensor], seeds: Sequence[Value]
) -> list[Tensor]:
    """Adjoints as results: zeros for None, and each in memory of its own, to be written into."""
    taken = {mutation.memory_id(u.cached_data) for u in seeds}
    return [in_own_memory(g, taken) for g in _zeros_for_none(found, inputs)]


def push_forward(
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    tangents: Sequence[Value],
    *,
    create_graph: bool,
) -> list[Adjoint]:
    """The tangents of outputs, given those of inputs; None where nothing flows.

    tangent(y) = sum over inputs x of y:  dy/dx * tangent(x)
    """
    known: dict[int, Any] = {id(x): t for x, t in zip(inputs, tangents, strict=True)}
    with GradMode(create_graph):
        for node in find_paths(outputs, inputs):
            if id(node) not in known:
                known[id(node)] = _tangent(node, [known.get(id(x)) for x in node.inputs])
    return [known.get(id(y)) for y in outputs]


def _tangent(node: Any, tangents: Sequence[Adjoint]) -> Any:
    """Forward mode through one operator; None stands for zero, in and out."""
    op = node.op
    pairs = list(zip(node.inputs, tangents, strict=True))
    given = [(i, x, t) for i, (x, t) in enumerate(pairs) if t is not None]
    if not given:
        return None
    if hasattr(op, "jvp"):
        return op.jvp(node, tangents)
    if op.linear:
        return op(*[zeros_like(x) if t is None else t for x, t in pairs])
    if op.elementwise and all(x.shape == node.shape and x.dtype == node.dtype for _, x, _ in given):
        # dy/dx is diagonal, so multiplying by it and by its transpose are the same.
        parts = [op.gradient_as_tuple(t, node)[i] for i, _, t in given]
        return _sum([p for p in parts if p is not None])
    return _transposed_twice(node, tangents)


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0] if parts else None
    for part in parts[1:]:
        total = total + part
    return total


def _transposed_twice(node: Any, tangents: Sequence[Any]) -> Any:
    """J t from an operator's gradient u -> Jᵀu alone: that is linear in u, and its adjoint is J."""
    with enable_grad():
        if isinstance(node, TensorTuple):
            dummies = [zeros_like(x).requires_grad_() for x in node.tuple()]
            out_grad: Any = make_tuple(*dummies)
        else:
            dummies = [zeros_like(node).requires_grad_()]
            out_grad = dummies[0]
        adjoints = node.op.gradient_as_tuple(out_grad, node)
    used = [
        (a, t)
        for a, t in zip(adjoints, tangents, strict=True)
        if t is not None and a is not None and a.requires_grad
    ]
    found = backward_pass(
        [a for a, _ in used], [t for _, t in used], dummies, create_graph=is_grad_enabled()
    )
    if not isinstance(node, TensorTuple):
        return found[0]
    return make_tuple(*_zeros_for_none(found, dummies))


def _filled(shape: tuple[int, ...], value: int, like: Tensor) -> Tensor:
    return Tensor.make_const(F.full(shape, value, like.dtype, like.device))


def _zeros_for_none(found: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    return [zeros_like(x) if t is None else t for t, x in zip(found, like, strict=True)]


def _check_like(name: str, kind: str, given: object, like: object) -> list[Tensor]:
    """The leaves of `given`, which must have the nesting and shapes of `like`."""
    found, expected = leaves(given), leaves(like)
    if len(found) != len(expected):
        raise ValueError(f"[{name}] expected {len(expected)} {kind}s, got {len(found)}.")
    for x, y in zip(found, expected, strict=True):
        if not isinstance(x, Tensor):
            raise TypeError(f"[{name}] expected Tensors as {kind}s, got {type(x).__name__}.")
        if isinstance(y, Tensor) and x.shape != y.shape:
            raise ValueError(f"[{name}] expected a {kind} of shape {y.shape}, got {x.shape}.")
    return found


# Reverse mode -----------------------------------------------------------------------------------


def vjp(f: Function, *primals: object, has_aux: bool = False) -> tuple[Any, ...]:
    """f(*primals), and the function from cotangents of the result to those of each primal.

    >>> x = ndl.tensor([1.0, 2.0])
    >>> y, vjp_fn = ndl.vjp(lambda x: x * x, x)
    >>> y.tolist(), vjp_fn(ndl.tensor([1.0, 10.0]))[0].tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    recording = _record("vjp", f, primals)
    out, aux = _with_aux("vjp", recording.out, has_aux)

    def vjp_fn(cotangents: object) -> tuple[object, ...]:
        given = _check_like("vjp", "cotangent", cotangents, out)
        pairs = [
            (y, u)
            for y, u in zip(leaves(out), given, strict=True)
            if isinstance(y, Tensor) and y.requires_grad
        ]
        create_graph = is_grad_enabled() and (recording.kept or any(u.requires_grad for u in given))
        seeds = [u for _, u in pairs]
        found = backward_pass(
            [y for y, _ in pairs], seeds, recording.inputs, create_graph=create_graph
        )
        return with_leaves(primals, _given_out(found, recording.inputs, seeds))

    results = (_released(recording, out), vjp_fn)
    return (*results, _released(recording, aux)) if has_aux else results


def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that gives f's result and its gradient by the arguments at argnums.

    f returns one number, as a Tensor of one element; with has_aux, (number, anything else).

    >>> loss = lambda w, x: ((w * x) ** 2).sum()
    >>> value, slope = ndl.value_and_grad(loss)(ndl.tensor([1.0, 2.0]), ndl.tensor([3.0, 1.0]))
    >>> value.item(), slope.tolist()
    (13.0, [18.0, 4.0])
    """

    def differentiated(*args: object, **kwargs: object) -> tuple[object, object]:
        primals, call = _split(f, argnums, args, kwargs)
        recording = _record("grad", call, primals)
        value, aux = _with_aux("grad", recording.out, has_aux)
        if not isinstance(value, Tensor) or value.size != 1:
            raise ValueError(
                f"[grad] expected a function that returns one number, got {_kind(value)}; "
                "reduce the result with .sum() or use jacobian."
            )
        outputs = [value] if value.requires_grad else []
        seeds = [_filled(y.shape, 1, y) for y in outputs]
        found = backward_pass(outputs, seeds, recording.inputs, create_graph=recording.kept)
        gradients = with_leaves(primals, _given_out(found, recording.inputs, seeds))
        value, aux = _released(recording, (value, aux))
        return (value, aux) if has_aux else value, _as_given(gradients, argnums)

    return differentiated


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of f by the arguments at argnums; see value_and_grad.

    >>> cube = lambda x: x**3
    >>> ndl.grad(ndl.grad(cube))(ndl.tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)

    def differentiated(*args: object, **kwargs: object) -> object:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def _split(
    f: Function, argnums: int | Sequence[int], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], Function]:
    """The arguments to differentiate by, and f as a function of only those."""
    several = argnums if isinstance(argnums, Sequence) else (argnums,)
    positions = [whole_number("grad", "argnums", i) for i in several]
    for i in positions:
        if not -len(args) <= i < len(args):
            needed = -i if i < 0 else i + 1
            raise ValueError(f"[grad] expected at least {needed} arguments, got {len(args)}.")
    if len({i % len(args) for i in positions}) < len(positions):
        raise ValueError(f"[grad] argnums must be distinct, got {argnums} of {len(args)}.")

    def call(*chosen: object) -> object:
        replaced = list(args)
        for i, x in zip(positions, chosen, strict=True):
            replaced[i] = x
        return f(*replaced, **kwargs)

    return tuple(args[i] for i in positions), call


def _as_given(results: tuple[T, ...], argnums: int | Sequence[int]) -> T | tuple[T, ...]:
    """One result for an int, a tuple of them for a sequence."""
    return results if isinstance(argnums, Sequence) else results[0]


# Forward mode -----------------------------------------------------------------------------------


def jvp(f: Function, primals: object, tangents: object, has_aux: bool = False) -> tuple[Any, ...]:
    """f(*primals), and how it changes when the primals change by the tangents.

    One walk along the graph, at about twice the cost of f, whatever the number of results.

    >>> x, t = ndl.tensor([1.0, 2.0]), ndl.tensor([1.0, 10.0])
    >>> y, change = ndl.jvp(lambda x: x * x, (x,), (t,))
    >>> y.tolist(), change.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("[jvp] expected tuples of primals and of tangents, one per argument.")
    given = _check_like("jvp", "tangent", tangents, primals)
    recording = _record("jvp", f, tuple(primals))
    create_graph = is_grad_enabled() and (recording.kept or any(t.requires_grad for t in given))
    recording = recording._replace(kept=create_graph)
    out, aux = _with_aux("jvp", recording.out, has_aux)
    results = leaves(out)
    found = push_forward(
        [y for y in results if isinstance(y, Tensor)],
        recording.inputs,
        given,
        create_graph=create_graph,
    )
    changes = iter(found)
    tangent = with_leaves(
        out,
        [_or_zeros(next(changes), y) if isinstance(y, Tensor) else None for y in results],
    )
    both = (_released(recording, out), tangent)
    return (*both, _released(recording, aux)) if has_aux else both


def _or_zeros(tangent: Adjoint, y: Tensor) -> Value:
    return zeros_like(y) if tangent is None else tangent


# Matrices of derivatives ------------------------------------------------------------------------


def jacobian(f: Function, argnums: int | Sequence[int] = 0, mode: str | None = None) -> Function:
    """A function that gives all derivatives of f: shape result.shape + argument.shape.

    f runs once; mode "rev" then walks its graph once per element of the result, "fwd" once per
    element of the arguments. None takes the shorter way.

    >>> ndl.jacobian(lambda x: x * x)(ndl.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if mode not in (None, "rev", "fwd"):
        raise ValueError(f'[jacobian] expected mode "rev", "fwd" or None, got {mode!r}.')

    def derivatives(*args: object, **kwargs: object) -> object:
        primals, call = _split(f, argnums, args, kwargs)
        recording = _record("jacobian", call, primals)
        results = leaves(recording.out)
        for y in results:
            if not isinstance(y, Tensor):
                raise TypeError(f"[jacobian] expected a function to Tensors, got {_kind(y)}.")
        sizes = [sum(x.size for x in xs) for xs in (results, recording.inputs)]
        backwards = sizes[0] <= sizes[1] if mode is None else mode == "rev"
        blocks = _rows(recording, results) if backwards else _columns(recording, results)
        return with_leaves(
            recording.out, [_as_given(with_leaves(primals, row), argnums) for row in blocks]
        )

    return derivatives


def _rows(recording: Recording, results: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """For each result: its derivative by each input, one walk per element of the result."""
    inputs = recording.inputs
    for y in results:
        rows = [
            backward_pass([y], [u], inputs, create_graph=recording.kept) if y.requires_grad else []
            for u in _basis(y)
        ]
        found = [_zeros_for_none(row or [None] * len(inputs), inputs) for row in rows]
        yield [
            reshape(stack([row[i] for row in found], 0), y.shape + x.shape)
            if found
            else _filled(y.shape + x.shape, 0, x)
            for i, x in enumerate(inputs)
        ]


def _columns(recording: Recording, results: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The same, one walk per element of the inputs."""
    inputs = recording.inputs
    blocks: list[list[Tensor]] = []  # by input, then by result
    for x in inputs:
        columns = [push_forward(results, [x], [t], create_graph=recording.kept) for t in _basis(x)]
        found = [_zeros_for_none(column, results) for column in columns]
        blocks.append(
            [
                reshape(stack([column[i] for column in found], y.ndim), y.shape + x.shape)
                if found
                else _filled(y.shape + x.shape, 0, x)
                for i, y in enumerate(results)
            ]
        )
    return iter([list(row) for row in zip(*blocks, strict=True)])


def _basis(x: Tensor) -> Iterator[Tensor]:
    """The unit vectors of x's shape."""
    for i in range(x.size):
        unit = np.zeros(x.size)
        unit[i] = 1
        yield Tensor(unit.reshape(x.shape), device=x.device, dtype=x.dtype, requires_grad=False)


def hessian(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that gives the second derivatives of f (to one number): shape x.shape + x.shape.

    >>> ndl.hessian(lambda x: (x**3).sum())(ndl.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(f, argnums), argnums, mode="rev")
