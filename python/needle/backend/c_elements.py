"""The functions of one element as C: those of native/common that a program uses, and no others.

The headers in native/common/elements are C11 once the macros that they are written with are known.
These are replaced in the text here, so that programs contain plain functions. A formula of
elementwise.def becomes a function for each type that its kind has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..dtype import bool_, float32, float64, int32, int64
from .protocol import KINDS, OF_NOTHING, REDUCE, ROW_REDUCTIONS, takes

_HERE = Path(__file__).parent
_TREES = (_HERE.parent, _HERE.parents[2])  # installed, or beside the sources
COMMON = next(tree / "native/common" for tree in _TREES if (tree / "native/common").is_dir())

TYPES = {"f32": float32, "f64": float64, "i32": int32, "i64": int64, "b8": bool_}
LANES = {t: 256 // dtype.itemsize for t, dtype in TYPES.items()}  # of the kernels' row reductions
MACROS = {"ELEMENT": "static inline", "LIB(name)": "name", "choose": "CHOOSE"}
# Names that a paragraph of C defines: functions, macros, types.
_NAMES = re.compile(
    r"^static inline \w+ \*?(\w+)\(|^#define (\w+)|^(?:typedef \w+|}) (\w+)[;(]", re.M
)


class Dialect(NamedTuple):
    """What differs between dialects of C around the functions of one element, which they share."""

    prelude: Path  # how every program begins
    rows: Path  # the reduction of a row


C11 = Dialect(_HERE / "c_prelude.h", _HERE / "c_rows.h")


def elements_of(text: str, dialect: Dialect = C11) -> str:
    """The definitions that a program in C uses, to stand before it."""
    paragraphs, place = _library(dialect)
    needed: set[int] = set()
    unread = [text]
    while unread:
        words = set(re.findall(r"\w+", unread.pop()))
        found = {place[word] for word in words & place.keys()} - needed
        needed |= found
        unread += [paragraphs[n] for n in found]
    return "\n\n".join([paragraphs[0], *(paragraphs[n] for n in sorted(needed)), ""])


@cache
def _library(dialect: Dialect) -> tuple[list[str], dict[str, int]]:
    """Paragraphs of C in the order in which they may stand, and the number of each by what it
    defines. The first one is for every program."""
    paragraphs = [*_read(dialect.prelude), *_read(COMMON / "elements/elements.h")]
    known = {name for text in paragraphs for name in _names(text)}
    paragraphs += [text for text in _formulas() if known.isdisjoint(_names(text))]
    paragraphs += [_row(dialect.rows, name, t) for name in ROW_REDUCTIONS.values() for t in TYPES]
    return paragraphs, {name: n for n, text in enumerate(paragraphs) for name in _names(text)}


def _names(paragraph: str) -> list[str]:
    return ["".join(found) for found in _NAMES.findall(paragraph)]


def _read(path: Path, macros: dict[str, str] = MACROS) -> list[str]:
    """The paragraphs of a header that define something, with macros replaced; what it includes is
    read in its place, with the macros that are defined there."""
    found, macros = [], dict(macros)
    for paragraph in path.read_text().strip().split("\n\n"):
        included = re.search(r'^#include "(.+)"', paragraph, re.M)
        if included is None:
            text = _replaced(paragraph, macros)
            found += [text] if _NAMES.search(text) or "#include <" in text else []
            continue
        here = dict(re.findall(r"^#define (\S+) (.+)$", paragraph, re.M))
        for name in re.findall(r'^#include "(.+)"', paragraph, re.M):
            found += _read(path.parent / name, {**here, **macros})
    return found


def _replaced(text: str, macros: dict[str, str]) -> str:
    for macro, body in macros.items():
        name, _, parameter = macro.partition("(")
        if parameter:
            pasted = body.replace("name", r"\1").replace("##", "")
            text = re.sub(rf"\b{name}\((\w+)\)", pasted, text)
        else:
            text = re.sub(rf"\b{name}\b", body, text)
    return text


def _formulas() -> Iterator[str]:
    """The functions that elementwise.def has formulas of, and the steps of reduce.def."""
    tables = "".join((COMMON / f"{name}.def").read_text() for name in ("elementwise", "reduce"))
    for macro, name, formula in re.findall(r"(?ms)^([A-Z]+)\((\w+), \w+, (.*?)\)$", tables):
        for t, dtype in TYPES.items():
            if macro == "REDUCTION":
                yield _function(t, f"{name}_step", t, "xy", formula.partition(", ")[2])
            elif takes(name, dtype):
                result = "b8" if KINDS[name] == "predicate" else t
                yield _function(result, name, t, "x" if macro == "UNARY" else "xy", formula)


def _function(result: str, name: str, t: str, arguments: str, formula: str) -> str:
    """A formula as a function of type t, whose functions are those for t."""
    value = re.sub(r"\b(?!CHOOSE\b)(\w+)\(", rf"\1_{t}(", _replaced(formula, MACROS))
    given = ", ".join(f"{t} {x}" for x in arguments)
    return f"static inline {result} {name}_{t}({given}) {{ return {value}; }}"


def of_nothing(name: str, t: str) -> str:
    """What a reduction starts with."""
    nothing = OF_NOTHING[name]
    return f"{nothing}_{t}" if nothing in ("LOWEST", "HIGHEST") else nothing


def _row(path: Path, name: str, t: str) -> str:
    """The reduction of a row, in c_rows.h say. Totals that are no sums are taken one by one."""
    is_total = REDUCE[name] == "total"
    one_by_one = is_total and name != "sum"
    macros = {
        "BLOCK": "1" if one_by_one else "block",
        "LANES": "1" if one_by_one else str(LANES[t]),
        "IDENTITY": of_nothing(name, t),
        "TOTAL": "f64" if is_total and t == "f32" else t,
        "T": t,
        "ROW": f"row_{name}_{t}",
        "STEP(name)": f"{name}_step_name",
    }
    (text,) = _read(path, macros)
    return text
