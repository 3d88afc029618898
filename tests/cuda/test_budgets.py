"""Memory traffic of the real kernels, by the simulator's counters: the same in each run.

A warp's request of neighbours is 4 sectors of 32 bytes for words of 4 bytes, 16 for 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import needle as ndl
from needle.nn.functional import softmax

from .calls import drawn
from .driver import launches, settings


class Budget(NamedTuple):
    """Of the first launch: sectors that a load and a store request, barriers of a warp."""

    kernel: str
    call: Callable[[Any], ndl.Tensor]
    load: int
    store: int
    barriers: int = 0


def product(m: int, k: int, n: int, *turned: int) -> Callable[[Any], ndl.Tensor]:
    def call(device: Any) -> ndl.Tensor:
        a, b = drawn(device, *(k, m) if 0 in turned else (m, k)), drawn(device, k, n)
        if 1 in turned:
            b = drawn(device, n, k).transpose()
        return (a.transpose() if 0 in turned else a) @ b

    return call


BUDGETS = {
    "small tiles": Budget("matmul", product(64, 64, 64), 16, 16, 8),
    "transposed left factor": Budget("matmul", product(64, 64, 64, 0), 16, 16, 8),
    "transposed right factor": Budget("matmul", product(64, 64, 64, 1), 16, 16, 8),
    "large tiles": Budget("matmul", product(1024, 16, 1024), 16, 16, 2),
    "short rows": Budget("reduce", lambda d: drawn(d, 64, 256).sum(1), 4, 1),
    "long rows": Budget("reduce", lambda d: drawn(d, 4, 4096).sum(1), 4, 1, 2),
    "columns": Budget("reduce", lambda d: drawn(d, 256, 256).sum(0), 4, 32),
    "softmax": Budget("tile_softmax_program_rows", lambda d: softmax(drawn(d, 64, 256), 1), 4, 4),
    "elementwise": Budget("binary", lambda d: drawn(d, 64, 256) + 1, 4, 4),
    "transpose": Budget(
        "transpose", lambda d: ndl.cat([drawn(d, 256, 256).transpose()], 1), 4, 4, 1
    ),
}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=list(BUDGETS))
def test_traffic(device, budget):
    with settings():
        budget.call(device).numpy()
        launch = next(x for x in launches() if x.kernel.decode() == budget.kernel)
        warps = launch.grid[0] * launch.grid[1] * launch.block[0] // 32
        assert launch.global_load_sectors <= budget.load * launch.global_loads
        assert launch.global_store_sectors <= budget.store * launch.global_stores
        assert launch.shared_conflicts == 0
        assert launch.barriers == budget.barriers * warps
