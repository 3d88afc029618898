"""A pipeline: each rank has one stage of a model, and micro-batches flow through all of them.

The schedule is 1F1B: after a few first micro-batches a stage goes forward with one and backward
with an earlier one in turn, so it holds the activations of at most as many as there are stages
behind it. Activations and their gradients are messages of `send` and `recv`, whose gradients are
each other: `backward` of what was sent waits for what comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autograd import Tensor
from ..mpi.group import Group, world
from ..nn.module import Module
from .collectives import broadcast, flush, recv, send

if TYPE_CHECKING:
    from ..types import DTypeLike

__all__ = ["Pipeline", "schedule"]


def schedule(stage: int, stages: int, batches: int) -> list[str]:
    """What a stage does, in order: F for forward, B for backward."""
    ahead = min(stages - 1 - stage, batches)
    return ["F"] * ahead + ["F", "B"] * (batches - ahead) + ["B"] * ahead


class Pipeline:
    """The stage of this rank, of a model that is cut into as many stages as there are ranks.

    `shapes` are those of one micro-batch's activations between two stages: shapes[i] leaves stage
    i. `loss_fn(output, target)` gives the mean of a micro-batch."""

    def __init__(
        self,
        stage: Module,
        loss_fn: Callable[..., Tensor],
        shapes: Sequence[Sequence[int]],
        dtype: DTypeLike = "float32",
        group: Group | None = None,
    ):
        self.stage, self.loss_fn, self.dtype = stage, loss_fn, dtype
        self._group = group or world()
        if len(shapes) != self._group.size - 1:
            raise ValueError(
                f"[Pipeline] expected {self._group.size - 1} shapes, one between each two stages, "
                f"got {len(shapes)}."
            )
        self.shapes = [tuple(shape) for shape in shapes]

    def step(self, inputs: Sequence[Any], targets: Sequence[Any]) -> Tensor:
        """The mean loss over the micro-batches, on every rank; gradients are added to `.grad`.

        Every rank is given the inputs and targets; the first stage uses the ones, the last stage
        the others."""
        rank, size = self._group.rank, self._group.size
        flying: deque[Tensor] = deque()
        losses: list[Tensor] = []
        done = 0
        for what in schedule(rank, size, len(inputs)):
            if what == "F":
                flying.append(self._forward(inputs[done], targets[done], len(inputs)))
                if rank == size - 1:
                    losses.append(flying[-1].detach())
                done += 1
            else:
                flying.popleft().backward(accumulate=True, create_graph=False)
        flush(self._group)
        total = losses[0] if losses else Tensor(0.0, dtype=self.dtype, requires_grad=False)
        for loss in losses[1:]:
            total = total + loss
        return broadcast(total, size - 1, self._group)

    def _forward(self, x: Any, target: Any, batches: int) -> Tensor:
        """One micro-batch through this stage: its loss, or what stands for the message."""
        rank, group = self._group.rank, self._group
        if rank > 0:
            x = recv(rank - 1, self.shapes[rank - 1], self.dtype, group)
        y = self.stage(x)
        if rank < group.size - 1:
            return send(y, rank + 1, group)
        return self.loss_fn(y, target) / batches
