"""Which rank this process is, and the groups of ranks."""

from __future__ import annotations

import os

from .. import config
from ..backend.native import kernels
from ..mpi.group import Group, world
from ..mpi.world import WORLD, local_size
from ..ndarray.random import manual_seed

__all__ = ["Group", "barrier", "init", "rank", "seed_rank", "world", "world_size"]


def init() -> Group:
    """Start MPI, if a launcher has started this process; gives the group of all ranks.

    The ranks of a machine share its processors: each gets its part of the threads, unless
    NEEDLE_NUM_THREADS says otherwise. The first collective calls it too."""
    group = world()
    if group.size > 1 and config.NUM_THREADS is None:
        available = len(os.sched_getaffinity(0))
        kernels.set_num_threads(max(1, available // local_size()))
    return group


def rank() -> int:
    """The number of this process, from 0."""
    return WORLD.rank


def world_size() -> int:
    """How many ranks there are; 1 without a launcher."""
    return WORLD.size


def barrier(group: Group | None = None, timeout: float | None = None) -> None:
    """Wait until every rank is here, `timeout` seconds at most (default: NEEDLE_RANK_TIMEOUT)."""
    (group or world()).barrier(timeout)


def seed_rank(seed: int) -> None:
    """`manual_seed` with a stream of random numbers for each rank, the same in every run."""
    manual_seed((seed * 0x9E3779B97F4A7C15 + WORLD.rank) % 2**63)
