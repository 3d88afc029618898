"""`backward` and `autograd.grad`: gradients add up, and the graph is freed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import Tensor as EngineTensor
from ...autograd.backward import Freed
from ...autograd.graph import backward_pass, propagate
from ...autograd.op import Op
from ...backend import cpu
from ...ndarray import functions as F, versions
from ...ndarray.index.gather import has_overlap
from ..core.dtypes import dtype_in_engine
from ..core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from ...types import Gradients

Several = Tensor | Sequence[Tensor]


class Used(Freed):
    """What made a value that a backward pass has freed."""

    def gradient(self, out_grad: EngineTensor, node: Any) -> Gradients:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors "
            "after they have already been freed). Saved intermediate values of the graph are freed "
            "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
            "to backward through the graph a second time or if you need to access saved tensors "
            "after calling backward."
        )


def listed(given: object) -> list[Any]:
    """One tensor, or several."""
    if given is None:
        return []
    return [given] if isinstance(given, EngineTensor) else list(given)  # type: ignore[call-overload]


def seed_of(y: Any, given: Any) -> Any:
    """The adjoint that a walk begins with: ones of a value of one element, if none is given."""
    if not y.requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if given is None:
        if y.cached_data.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return wrap(F.full(tuple(y.shape), 1, dtype_in_engine(y), cpu()))
    if tuple(given.shape) != tuple(y.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {given.shape} and output[0] has a "
            f"shape of {y.shape}."
        )
    return given


def backward(
    tensors: Several,
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of values to `.grad` of the leaves that they depend on."""
    outputs = listed(tensors)
    given = listed(gradients) if gradients is not None else [None] * len(outputs)
    seeds = [seed_of(y, g) for y, g in zip(outputs, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else listed(inputs)
    chosen = None if wanted is None else {id(x) for x in wanted}
    taken = {versions.memory_id(g.cached_data) for g in seeds}

    def store(node: Any, gradient: Any) -> None:
        is_wanted = node.op is None if chosen is None else id(node) in chosen
        if node.requires_grad and (is_wanted or getattr(node, "_keeps_grad", False)):
            accumulate(node, gradient, create_graph, taken)

    propagate(
        outputs,
        seeds,
        store,
        create_graph=create_graph,
        targets=wanted,
        freed=None if keep else Used(),
    )


def accumulate(node: Any, gradient: Any, create_graph: bool, taken: set[int | None]) -> None:
    """Add to `.grad`: in its memory, if no graph is kept."""
    if node.op is None:
        for hook in tuple(vars(node).get("_accumulated", ())):
            gradient = hook(gradient) or gradient
    former = node.grad
    if former is None:
        node.grad = as_face(in_own_memory(gradient, taken), create_graph)
    elif create_graph or former.requires_grad:
        node.grad = as_face(former + gradient, create_graph)
    else:
        node.grad = as_face(former + gradient, False)
    for hook in tuple(vars(node).get("_after_accumulating", {}).values()):
        hook(node)


def as_face(gradient: Any, with_history: bool) -> Tensor:
    """A gradient as a tensor of the face."""
    if not with_history and (gradient.op is not None or gradient.requires_grad):
        return wrap(gradient.cached_data)
    if type(gradient) is not Tensor:
        gradient.__class__ = Tensor
    return gradient  # type: ignore[no-any-return]


def in_own_memory(gradient: Any, taken: set[int | None]) -> Any:
    """The gradient, or a copy if its memory is also another's."""
    data = gradient.cached_data
    memory = versions.memory_id(data)
    if memory in taken or has_overlap(data):
        return wrap(F.copy(data)) if not gradient.requires_grad else gradient.clone()
    taken.add(memory)
    return gradient


def grad(
    outputs: Several,
    inputs: Several,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of outputs by inputs; `.grad` stays as it is."""
    if is_grads_batched:
        seeds = listed(grad_outputs)
        each = [
            grad(outputs, inputs, [g[i] for g in seeds], True, create_graph, True, allow_unused)
            for i in range(len(seeds[0]))
        ]
        from ..functions.joining import stack

        return tuple(stack(found) for found in zip(*each, strict=True))
    results, wanted = listed(outputs), listed(inputs)
    given = [None] * len(results) if grad_outputs is None else listed(grad_outputs)
    for x in wanted:
        if not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    pairs = [(y, seed_of(y, g)) for y, g in zip(results, given, strict=True)]
    found = gradients(pairs, wanted, create_graph)
    if materialize_grads:
        found = [wrap(F.full_like(x.cached_data, 0)) if g is None else g
                 for x, g in zip(wanted, found, strict=True)]  # fmt: skip
    elif None in [None if g is None else 0 for g in found] and not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    if not (create_graph if retain_graph is None else retain_graph):
        free([y for y, _ in pairs])
    return tuple(None if g is None else as_face(g, create_graph) for g in found)


def gradients(
    pairs: Sequence[tuple[Any, Any]], wanted: Sequence[Any], create_graph: bool
) -> list[Any]:
    """The adjoints of values, each of which may depend on another."""
    ys, seeds = [y for y, _ in pairs], [g for _, g in pairs]
    leaves = all(x.op is None for x in wanted)
    walks = [list(wanted)] if leaves else [[x] for x in wanted]
    return [g for part in walks for g in backward_pass(ys, seeds, part, create_graph=create_graph)]


def free(outputs: Sequence[Any]) -> None:
    """Take the graph apart that the outputs were computed by."""
    freed: Op = Used()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node.op is None or not node.requires_grad or node.op is freed:
            continue
        pending.extend(node.inputs)
        node.op, node.inputs = freed, ()
