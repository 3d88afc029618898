"""The items of a rank: each rank of a distributed job takes its own part of every pass."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import cast

import numpy as np

from ..mpi.world import WORLD
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every num_replicas-th item, from number `rank` on: of a new order for each epoch (`shuffle`),
    which the seed and `set_epoch` give, the same on all ranks.

    The items are filled up with the first ones to an equal number for each rank, or cut
    (drop_last)."""

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        super().__init__(dataset)
        self.num_replicas = WORLD.size if num_replicas is None else num_replicas
        self.rank = WORLD.rank if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"[DistributedSampler] expected a rank from 0 to {self.num_replicas - 1}, got "
                f"{self.rank}."
            )
        self.length = len(dataset)
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    def __len__(self) -> int:
        rounded = self.length if self.drop_last else self.length + self.num_replicas - 1
        return rounded // self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self.length)
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.length)
        filled = np.resize(order, len(self) * self.num_replicas)
        return iter(cast("list[int]", filled[self.rank :: self.num_replicas].tolist()))
