"""Eager operators that `kernels.py` leaves out, beside PyTorch's: what a call costs on ten
elements, and everyday functions on a hundred thousand.

python benchmarks/calls.py [--only NAME] [--seconds 0.1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from peer import torch
from timing import compare

import needle as ndl

Call = Callable[[], Any]
rng = np.random.default_rng(0)


class Row(NamedTuple):
    """One operator in both libraries; `drawn` says that its results are random."""

    name: str
    ours: Call
    theirs: Call
    drawn: bool = False


def small() -> Iterator[Row]:
    """Ten elements: the time of a call."""
    x, y = (rng.standard_normal(10, dtype=np.float32) for _ in range(2))
    a, b = ndl.tensor(x), ndl.tensor(y)
    ta, tb = torch.tensor(x), torch.tensor(y)
    ga, gb = (ndl.tensor(v, requires_grad=True) for v in (x, y))
    tga, tgb = (torch.tensor(v, requires_grad=True) for v in (x, y))
    m, tm = a.reshape((2, 5)), ta.reshape(2, 5)
    yield Row("10: a + b", lambda: a + b, lambda: ta + tb)
    yield Row("10: a + b with gradient", lambda: ga + gb, lambda: tga + tgb)
    yield Row("10: a - b", lambda: a - b, lambda: ta - tb)
    yield Row("10: a * 2", lambda: a * 2.0, lambda: ta * 2.0)
    yield Row("10: a.sum()", lambda: a.sum(), lambda: ta.sum())
    yield Row("10: a[2:7]", lambda: a[2:7], lambda: ta[2:7])
    yield Row("10: m[0]", lambda: m[0], lambda: tm[0])
    yield Row("10: m[:, 1:3]", lambda: m[:, 1:3], lambda: tm[:, 1:3])
    yield Row("10: m.reshape", lambda: m.reshape((5, 2)), lambda: tm.reshape((5, 2)))
    yield Row("10: m.T", lambda: m.T, lambda: tm.T)
    yield Row("10: cat", lambda: ndl.cat([a, b]), lambda: torch.cat([ta, tb]))
    yield Row("10: arange", lambda: ndl.arange(10), lambda: torch.arange(10, dtype=torch.float64))
    yield Row("10: zeros", lambda: ndl.zeros(10), lambda: torch.zeros(10))


def large() -> Iterator[Row]:
    """A hundred thousand elements, where nothing else is said."""
    yield from _elementwise()
    yield from _indexing()
    yield from _others()


def _elementwise() -> Iterator[Row]:
    whole = rng.integers(-1000, 1000, 100_000)
    i, j = ndl.tensor(whole), ndl.tensor(whole | 1)
    ti, tj = torch.tensor(whole), torch.tensor(whole | 1)
    x = rng.standard_normal(100_000)
    d, td = ndl.tensor(x), torch.tensor(x)
    f, tf = d.float(), td.float()
    yield Row("int64 // int64", lambda: i // j, lambda: ti // tj)
    yield Row("int64 // 7", lambda: i // 7, lambda: ti // 7)
    yield Row("int64 % 7", lambda: i % 7, lambda: ti % 7)
    yield Row("exp, float64", lambda: d.exp(), lambda: td.exp())
    yield Row("tanh, float64", lambda: d.tanh(), lambda: td.tanh())
    yield Row("clamp", lambda: f.clamp(-1, 1), lambda: tf.clamp(-1, 1))
    yield Row("where", lambda: ndl.where(f > 0, f, 0.0), lambda: torch.where(tf > 0, tf, 0.0))
    yield Row("abs", lambda: abs(f), lambda: abs(tf))


def _indexing() -> Iterator[Row]:
    x = rng.standard_normal((300, 333), dtype=np.float32)
    rows, columns = rng.integers(0, 300, 100_000), rng.integers(0, 333, 100_000)
    f, tf = ndl.tensor(x), torch.tensor(x)
    i, j, ti, tj = ndl.tensor(rows), ndl.tensor(columns), torch.tensor(rows), torch.tensor(columns)
    places = rng.integers(0, 333, (300, 333))
    p, tp = ndl.tensor(places), torch.tensor(places)
    mask, tmask = f > 0, tf > 0
    yield Row("x[i, j]", lambda: f[i, j], lambda: tf[ti, tj])
    yield Row("x[i[:1000]]", lambda: f[i[:1000]], lambda: tf[ti[:1000]])
    yield Row("x[mask]", lambda: f[mask], lambda: tf[tmask])
    yield Row("gather", lambda: ndl.gather(f, 1, p), lambda: torch.gather(tf, 1, tp))
    yield Row("nonzero", lambda: ndl.nonzero(mask), lambda: torch.nonzero(tmask))

    def assign() -> Any:
        f[10:20] = 1.0
        return f

    def assign_torch() -> Any:
        tf[10:20] = 1.0
        return tf

    yield Row("x[10:20] = 1", assign, assign_torch)


def _others() -> Iterator[Row]:
    x = rng.standard_normal((300, 333), dtype=np.float32)
    f, tf = ndl.tensor(x), torch.tensor(x)
    whole = rng.integers(0, 1000, 100_000)
    i, ti = ndl.tensor(whole), torch.tensor(whole)
    images = rng.standard_normal((4, 16, 32, 32), dtype=np.float32)
    n, tn = ndl.tensor(images), torch.tensor(images)
    near, tnear = ndl.nn.functional.interpolate, torch.nn.functional.interpolate
    yield Row("repeat", lambda: f.repeat_interleave(2), lambda: tf.repeat_interleave(2))
    yield Row("tile", lambda: f.tile(2, 2), lambda: tf.tile(2, 2))
    yield Row("norm", lambda: ndl.norm(f), lambda: torch.linalg.norm(tf))
    yield Row("norm of rows", lambda: ndl.norm(f, axis=1), lambda: torch.linalg.norm(tf, dim=1))
    yield Row("unique, int64", lambda: ndl.unique(i), lambda: torch.unique(ti))
    yield Row("sort", lambda: ndl.sort(f), lambda: torch.sort(tf)[0])
    yield Row("median of all", lambda: ndl.median(f[:, :-1].reshape((-1,))[1:]),
              lambda: torch.median(tf[:, :-1].reshape(-1)[1:]))  # fmt: skip
    yield Row("cumsum", lambda: f.cumsum(1), lambda: tf.cumsum(1))
    yield Row("arange", lambda: ndl.arange(100_000), lambda: torch.arange(100_000.0).double())
    yield Row("randperm", lambda: ndl.randperm(100_000), lambda: torch.randperm(100_000), True)
    yield Row("interpolate, nearest", lambda: near(n, scale_factor=2),
              lambda: tnear(tn, scale_factor=2))  # fmt: skip
    yield Row("interpolate, bilinear", lambda: near(n, scale_factor=2, mode="bilinear"),
              lambda: tnear(tn, scale_factor=2, mode="bilinear"))  # fmt: skip


def check(row: Row) -> None:
    """Do both give the same array?"""
    ours, theirs = (np.asarray(call().detach().numpy()) for call in (row.ours, row.theirs))
    if ours.shape != theirs.shape:
        raise SystemExit(f"{row.name}: {ours.shape} and {theirs.shape}")
    if not row.drawn and not np.allclose(ours, theirs, 1e-5, 1e-5):
        raise SystemExit(f"{row.name}: the results differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each row")
    options = parser.parse_args()
    print("| call | speed | needle, us | PyTorch, us |\n|---|---|---|---|")
    for row in (*small(), *large()):
        if options.only not in row.name:
            continue
        check(row)
        found = compare(row.ours, row.theirs, options.seconds)
        print(f"| {row.name} | {found.speed:.2f} | {found.ours * 1e6:.1f} | "
              f"{found.theirs * 1e6:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
