"""Which kernels there are: every file with the definitions that it is compiled for.

What is checked for every GPU is read here. Tile programs are not in it: they are written when they
are run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...dtype import DTYPES, bool_, float32, int64
from ..protocol import BINARY, KINDS, REDUCE, UNARY, takes
from .elementwise import STORED
from .reduce import THREADS, WARP

RANKS = (1, 2, 4)  # 8 is compiled where it is needed
TEAMS = (1, WARP, THREADS)


class Configured(NamedTuple):
    """A file of native/cuda/kernels, without .cu, and what is defined for it."""

    file: str
    definitions: dict[str, Any]


def catalog() -> Iterator[Configured]:
    """All kernels, the same ones in the same order each time."""
    yield from _elementwise()
    yield from _reductions()


def _elementwise() -> Iterator[Configured]:
    for rank in RANKS:
        for dtype in DTYPES:
            stored = {"DTYPE": STORED[dtype], "RANK": rank}
            yield Configured("fill", stored)
            yield Configured("where", stored)
            for out in DTYPES:
                yield Configured("copy", {"OUT": STORED[out], **stored})
            for name in KINDS:
                if takes(name, dtype):
                    file = "unary" if name in UNARY else "binary"
                    assert name in UNARY or name in BINARY
                    yield Configured(file, {"FUNCTION": name, **stored})


def _reductions() -> Iterator[Configured]:
    given: dict[str, Any]
    for dtype in DTYPES:
        for team in TEAMS:
            for name, kind in REDUCE.items():
                out = {"total": dtype, "extreme": dtype, "truth": bool_}[kind]
                out = int64 if kind == "total" and not dtype.is_floating else out
                given = {"OP": name, "DTYPE": STORED[dtype], "OUT": STORED[out], "TEAM": team}
                yield Configured("reduce", {**given, "KEPT": 1, "REDUCED": 1})
            for largest in (0, 1):
                given = {"IS_LARGEST": largest, "DTYPE": STORED[dtype], "KEPT": 1, "TEAM": team}
                yield Configured("arg_reduce", given)
        for team in (1, THREADS):
            out = dtype if dtype.is_floating else int64
            given = {"DTYPE": STORED[dtype], "OUT": STORED[out], "KEPT": 1, "TEAM": team}
            yield from (Configured("scan", {"OP": op, **given}) for op in ("sum", "prod"))


def sample() -> Iterator[Configured]:
    """Enough of them to see each file in each form once."""
    for one in catalog():
        is_plain = one.definitions.get("DTYPE") in (STORED[float32], None)
        if is_plain and one.definitions.get("RANK", 4) == 4 and one.file != "copy":
            yield one
