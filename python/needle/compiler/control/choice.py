"""One of two results, of which both are computed, with the gradient of the chosen one alone.

The gradient of `where` multiplies what comes back from the other side by zero, which is NaN where
that side's derivative is infinite: sqrt(x) at 0, in the branch for x > 0. So what goes back into
the tensors that the sides use from outside is chosen too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import Tensor, TensorTuple, TensorTupleOp
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...autograd.graph import backward_pass
from ...ops import clone, where
from ...transforms.checkpoint import used_from_outside

if TYPE_CHECKING:
    from ...types import Gradients, TensorLike

Pair = tuple["TensorLike", "TensorLike"]


class Choice(TensorTupleOp):
    """ys = first where a condition holds, else second; the inputs are what these are made of"""

    def __init__(self, condition: Tensor, sides: Sequence[list[Any]], counts: list[int]):
        self.condition = condition
        self.sides = sides  # the results of each, one per output
        self.counts = counts  # how many of the inputs belong to each

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        found: list[Any] = []
        inputs = [*node.inputs]
        for k, side in enumerate(self.sides):
            wanted, inputs = inputs[: self.counts[k]], inputs[self.counts[k] :]
            pairs = [
                (y, g)
                for y, g in zip(side, out_grad.tuple(), strict=True)
                if isinstance(y, Tensor) and y.requires_grad
            ]
            outputs, adjoints = [y for y, _ in pairs], [g for _, g in pairs]
            create_graph = is_grad_enabled()
            for g in backward_pass(
                outputs, adjoints, wanted, create_graph=create_graph, is_part=True
            ):
                zero: Any = 0
                pair = (g, zero) if k == 0 else (zero, g)
                found.append(None if g is None else where(self.condition, *pair))
        return tuple(found)


def choose(condition: Tensor, pairs: Sequence[Pair], start: int) -> list[Any]:
    """The first of each pair where the condition holds, else the second. Both were computed since
    the time `start`."""
    with no_grad():
        made: list[Any] = [where(condition, a, b) for a, b in pairs]
    if not is_grad_enabled():
        return made
    kept = [k for k, pair in enumerate(pairs) if any(map(_is_recorded, pair))]
    sides = [[_made(pairs[k][side], start) for k in kept] for side in (0, 1)]
    needs = [
        used_from_outside([y for y in side if _is_recorded(y)], [], start)  # type: ignore[misc]
        for side in sides
    ]
    if not any(needs):
        return made
    data = tuple(made[k].realize_cached_data() for k in kept)
    node: Any = TensorTuple.make_const(data, requires_grad=True)
    node.op = Choice(condition, sides, [len(side) for side in needs])
    node.inputs = tuple(needs[0] + needs[1])
    for k, output in zip(kept, node.tuple(), strict=True):
        made[k] = output
    return made


def _made(y: TensorLike, start: int) -> TensorLike:
    """A result, as a tensor that nobody else has: one from outside may be written into later."""
    return clone(y) if isinstance(y, Tensor) and y._stamp < start else y


def _is_recorded(x: object) -> bool:
    return isinstance(x, Tensor) and x.requires_grad
