"""Collectives on 1 to 4 ranks, against what one process computes: values, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl

from .launch import needs_mpi, run

WORKERS = ["values.py", "gradients.py", "messages.py", "training.py", "overlap.py"]


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "worker", ["values.py", "gradients.py", "messages.py", "training.py", "overlap.py"]
)
def test_on_ranks(worker: str, ranks: int) -> None:
    out = run(ranks, worker)
    assert out.count("passed") == ranks, out


def test_a_world_of_one() -> None:
    """Without a launcher everything works, and sends nothing."""
    d = ndl.distributed
    d.init()
    assert (d.rank(), d.world_size()) == (0, 1)
    x = ndl.tensor(np.arange(4.0), requires_grad=True)
    for y in (d.all_reduce(x), d.all_gather(x), d.reduce_scatter(x), d.broadcast(x)):
        assert y is x
    d.barrier()
    d.flush()
    assert d.world().split(3).size == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, x: d.all_reduce(x, "median"), "how must be one of sum, mean, max, min"),
        (lambda d, x: d.all_reduce(x.astype("int32"), "mean"), "numbers that have a mean"),
        (lambda d, x: d.all_reduce(x > 0), "max is any"),
        (lambda d, x: d.all_gather(x, axis=3), "expected an axis of"),
        (lambda d, x: d.broadcast(x, 1), "expected a rank from 0 to 0, got 1"),
        (lambda d, x: d.send(x, 0), "expected another rank, got 0"),
        (lambda d, x: d.recv(0, (2,)), "expected another rank, got 0"),
    ],
)
def test_errors(call: object, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call(ndl.distributed, ndl.ones(2, 3))  # type: ignore[operator]
