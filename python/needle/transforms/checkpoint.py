"""Computing again in backward what forward did not keep: less memory for more time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..autograd import Tensor, TensorTuple, TensorTupleOp, Value, next_stamp
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import backward_pass, find_topo_sort
from ..ndarray import random
from ..ops.common import fresh_leaf
from ..tree import leaves, with_leaves

if TYPE_CHECKING:
    from ..types import Adjoint, Gradients


R = TypeVar("R")


class Recompute(TensorTupleOp):
    """y = f(x, captured), of which only the inputs are kept; the gradient runs f again"""

    def __init__(self, run: Callable[[Sequence[Tensor]], list[Tensor]], arguments: int):
        self.run = run  # the results that require a gradient, from the arguments
        self.arguments = arguments  # the inputs after them are what f uses without being given it

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        n = self.arguments
        arguments, captured = node.inputs[:n], node.inputs[n:]

        def vjp_fn(*values: Tensor) -> tuple[Adjoint, ...]:
            with enable_grad():
                inputs = _fresh_leaves(values[:n])
                outputs = self.run(inputs)
            wanted = [*inputs, *captured]
            create_graph = is_grad_enabled()
            return tuple(
                backward_pass(outputs, values[n:], wanted, create_graph=create_graph, is_part=True)
            )

        # The gradient of the gradient runs f again too.
        return checkpoint(vjp_fn, *arguments, *out_grad.tuple())


def _fresh_leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [fresh_leaf(x) if x.requires_grad else x for x in tensors]


def checkpoint(
    f: Callable[..., R], *args: object, use_reentrant: bool | None = None, **kwargs: object
) -> R:
    """f(*args, **kwargs), without keeping what lies between arguments and results.

    Backward runs f again, with the same random numbers. Tensors that f uses without being given
    them (parameters) get their gradients too; other things that f reads must be as they were, and
    what f writes (running statistics) is written twice, as in PyTorch. Combine it with
    `backward(create_graph=False)`, since a recorded gradient keeps what it computes. PyTorch's
    use_reentrant changes nothing.

    >>> x = ndl.tensor([1.0, 2.0], requires_grad=True)
    >>> y = ndl.checkpoint(lambda x: (x * x).exp(), x)
    >>> y.sum().backward()
    >>> bool(abs(x.grad.numpy() - 2 * x.numpy() * y.numpy()).max() < 1e-4)
    True
    """
    if not is_grad_enabled():
        return f(*args, **kwargs)
    given = leaves((args, kwargs))
    tensors = [x for x in given if isinstance(x, Tensor)]
    state = random.snapshot()

    def call(values: Sequence[Tensor]) -> R:
        rest = iter(values)
        chosen = [next(rest) if isinstance(x, Tensor) else x for x in given]
        new_args, new_kwargs = with_leaves((args, kwargs), chosen)
        return f(*new_args, **new_kwargs)

    start = next_stamp()
    inputs = _fresh_leaves(tensors)
    out = call(inputs)
    results = leaves(out)
    kept = [i for i, y in enumerate(results) if isinstance(y, Tensor) and y.requires_grad]
    if not kept:
        return out

    def run(values: Sequence[Tensor]) -> list[Tensor]:
        with random.replayed(state):
            again = leaves(call(values))
        return [again[i] for i in kept]

    captured = used_from_outside([results[i] for i in kept], inputs, start)
    data = tuple(results[i].realize_cached_data() for i in kept)
    node: Any = TensorTuple.make_const(data, requires_grad=True)
    node.op, node.inputs = Recompute(run, len(tensors)), (*tensors, *captured)
    for i, y in zip(kept, node.tuple(), strict=True):
        results[i] = y
    return with_leaves(out, results)


def used_from_outside(outputs: Sequence[Value], inputs: Sequence[Value], start: int) -> list[Value]:
    """What f used that requires a gradient, was made before f ran, and is not given to it."""
    given = {id(x) for x in inputs}
    walk = find_topo_sort(
        outputs, until=lambda n: id(n) in given or n._stamp < start or not n.requires_grad
    )
    return [n for n in walk if n.requires_grad and n._stamp < start and id(n) not in given]
