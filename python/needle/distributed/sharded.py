"""Sharded training: what an optimizer keeps is divided over the ranks (ZeRO).

Each rank updates its own parameters and sends them to the others, so averages (two more numbers for
each weight with Adam) are kept once, not once on every rank. With `stage=2` a gradient is kept only
where its parameter is updated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..autograd import Tensor, no_grad
from ..dtype import dtype_of
from ..mpi.group import Group, described, world
from ..optim.optimizer import Optimizer
from .collectives import all_reduce, broadcast

__all__ = ["ShardedOptimizer"]


class ShardedOptimizer:
    """An optimizer whose state is divided over the ranks.

        optimizer = ShardedOptimizer(model.parameters(), lambda own: AdamW(own, 1e-3))

    `make` gets the parameters of this rank. Gradients are those of each rank's own batch: `step`
    averages them, so the model needs no DistributedDataParallel. Every rank must have a gradient
    for the same parameters."""

    def __init__(
        self,
        parameters: Any,
        make: Callable[[list[Tensor]], Optimizer],
        stage: int = 1,
        group: Group | None = None,
    ):
        if stage not in (1, 2):
            raise ValueError(f"[ShardedOptimizer] stage must be 1 or 2, got {stage}.")
        self.params: list[Tensor] = [p for p in parameters if p.requires_grad]
        self._group = group or world()
        if len(self.params) < self._group.size:
            raise ValueError(
                f"[ShardedOptimizer] expected at least {self._group.size} parameters, one for each "
                f"rank, got {len(self.params)}."
            )
        self.stage = stage
        self.owners = owners(self.params, self._group.size)
        own = [p for p, r in zip(self.params, self.owners, strict=True) if r == self._group.rank]
        self.optimizer = make(own)

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self.optimizer.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self.optimizer.lr = value

    def step(self) -> None:
        """Average the gradients, update this rank's parameters, and send them to the others."""
        group = self._group
        with no_grad():
            for p, owner in zip(self.params, self.owners, strict=True):
                if p.grad is None:
                    continue
                p.grad = all_reduce(p.grad.detach(), "mean", group)
                if self.stage == 2 and owner != group.rank:
                    p.grad = None  # the memory is free for the next gradient
            self.optimizer.step()
            for p, owner in zip(self.params, self.owners, strict=True):
                p.data = broadcast(p.detach(), owner, group)

    def reset_grad(self) -> None:
        """Forget the gradients; from then on, each backward() overwrites them."""
        self.optimizer.reset_grad()
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The whole state, gathered on every rank: that of the same optimizer in one process."""
        own = self.optimizer.state_dict()
        mine = [i for i, owner in enumerate(self.owners) if owner == self._group.rank]
        state: dict[int, dict[str, Tensor]] = {}
        for i, (p, owner) in enumerate(zip(self.params, self.owners, strict=True)):
            held = own["state"].get(mine.index(i), {}) if owner == self._group.rank else {}
            names = self._names(held, owner)
            state[i] = {
                name: broadcast(held.get(name, _room(p, kind, shape)), owner, self._group)
                for name, kind, shape in names
            }
        groups = [{**g, "params": [*range(len(self.params))]} for g in own["param_groups"][:1]]
        return {"state": {i: s for i, s in state.items() if s}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take this rank's part of a whole state, of any number of ranks."""
        mine = [i for i, owner in enumerate(self.owners) if owner == self._group.rank]
        state = {str(k): v for k, v in state_dict["state"].items()}
        own = {j: state[str(i)] for j, i in enumerate(mine) if str(i) in state}
        groups = [{**state_dict["param_groups"][0], "params": [*range(len(mine))]}]
        self.optimizer.load_state_dict({"state": own, "param_groups": groups})

    def _names(
        self, held: Mapping[str, Tensor], owner: int
    ) -> list[tuple[str, str, tuple[int, ...]]]:
        """Name, dtype and shape of what the owner keeps for a parameter."""
        text = ";".join(f"{n} {t.dtype} {'x'.join(map(str, t.shape))}" for n, t in held.items())
        everyone = self._group.gather_bytes(text.encode().ljust(200), described("state_dict"))
        entries = everyone[owner].decode().strip().split(";")
        parts = [entry.split(" ") for entry in entries if entry]
        return [(n, k, tuple(map(int, filter(None, s.split("x"))))) for n, k, s in parts]


def _room(p: Tensor, kind: str, shape: tuple[int, ...]) -> Tensor:
    """What a broadcast fills."""
    return Tensor(0, dtype=dtype_of(kind), device=p.device, requires_grad=False).broadcast_to(shape)


def owners(parameters: list[Tensor], ranks: int) -> list[int]:
    """Which rank updates which parameter: the largest first, each to the rank with the least."""
    found, load = [0] * len(parameters), [0] * ranks
    for i in sorted(range(len(parameters)), key=lambda i: (-parameters[i].size, i)):
        found[i] = load.index(min(load))
        load[found[i]] += parameters[i].size
    return found
