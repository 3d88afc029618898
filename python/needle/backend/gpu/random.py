"""Random numbers: the same Philox stream as on the CPU."""

from __future__ import annotations

import math

from ..protocol import Operand
from . import views
from .elementwise import STORED
from .modules import kernel

THREADS = 256
WORD = 1 << 64


def random(name: str, out: Operand, seed: int, offset: int) -> None:
    _launch(name, out, None, seed % WORD, offset % WORD)


def random_from(name: str, out: Operand, counter: Operand) -> None:
    _launch(name, out, counter, 0, 0)


def _launch(name: str, out: Operand, counter: Operand | None, seed: int, offset: int) -> None:
    size = math.prod(out.shape)
    if size == 0:
        return
    given = {} if counter is None else {"COUNTER": 1}
    call = kernel("random", DTYPE=STORED[out.dtype], NAME=name, **given)
    tail = views.members("2QI", seed, offset, size)
    call.launch(-(-size // THREADS), THREADS, (out,), (out if counter is None else counter,), tail)
