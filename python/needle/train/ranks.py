"""A training loop on many ranks: who takes which samples, and what all of them know together.

Every rank draws the same batches, and takes its rows of each. So a run with the same batch size is
the same for any number of ranks, but for the order in which floats are added; and a checkpoint,
which rank 0 writes, knows nothing of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..autograd import Tensor, no_grad
from ..distributed.collectives import all_reduce
from ..distributed.data_parallel import average_gradients, broadcast_state
from ..distributed.sync_norm import SyncBatchNorm
from ..mpi.group import Group, described, world

if TYPE_CHECKING:
    from ..nn.module import Module

LONG = 600  # seconds that ranks wait for rank 0 to write a file


class Ranks:
    """The ranks of a Trainer; one, unless a launcher has started more."""

    def __init__(self) -> None:
        self.group: Group = world()
        self.rank, self.count = self.group.rank, self.group.size

    @property
    def is_first(self) -> bool:
        """Does this rank write files and show progress?"""
        return self.rank == 0

    def prepare(self, model: Module) -> None:
        """All ranks start with the weights of rank 0; batch norms see the whole batch."""
        if self.count > 1:
            SyncBatchNorm.convert(model, self.group)
            broadcast_state(model, self.group)

    def share(self, batch: Any) -> Any:
        """This rank's rows of a batch."""
        if self.count == 1:
            return batch
        rows = batch[-1].shape[0]
        if rows % self.count:
            raise ValueError(
                f"[Trainer] expected batches that {self.count} ranks divide, got {rows} samples; "
                "change the batch size, and leave out a short last batch (drop_last=True)."
            )
        size = rows // self.count
        return tuple(x[self.rank * size : (self.rank + 1) * size] for x in batch)

    def own_batches(self, loader: Iterable[Any]) -> Iterable[Any]:
        """Every count-th batch, for what is only measured."""
        return loader if self.count == 1 else islice(loader, self.rank, None, self.count)

    def average(self, parameters: Iterable[Tensor]) -> None:
        """Gradients become means over the ranks."""
        average_gradients([*parameters], self.group)

    def totals(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Sums over the ranks, which have the same names; one without samples has none."""
        if self.count == 1:
            return dict(sums)
        with no_grad():
            own = Tensor([*sums.values()], dtype="float64", requires_grad=False)
            found = all_reduce(own, "sum", self.group).numpy()
        return dict(zip(sums, found.tolist(), strict=True))

    def wait(self) -> None:
        """Until rank 0 has written its files."""
        self.group.barrier(LONG)

    def first_text(self, text: str) -> str:
        """What rank 0 says."""
        if self.count == 1:
            return text
        data = text.encode().ljust(1000)
        return self.group.gather_bytes(data, described("first_text"))[0].decode().rstrip()
