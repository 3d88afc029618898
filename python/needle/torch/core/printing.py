"""Tensors as text, as PyTorch prints them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ndarray import functions as F
from . import dtypes
from .dtypes import dtype_in_engine

if TYPE_CHECKING:
    from .tensor import Tensor


class Options:
    """How numbers are printed."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors are printed."""
    for name, value in PROFILES.get(profile or "", {}).items():
        setattr(Options, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems,
             "linewidth": linewidth}  # fmt: skip
    for name, chosen in given.items():
        if chosen is not None:
            setattr(Options, name, chosen)
    Options.sci_mode = sci_mode


class Formatter:
    """The form of all numbers of one tensor: their width, and digits or powers of ten."""

    def __init__(self, values: Any, kind: str):
        self.kind, self.width = kind, 1
        self.whole, self.scientific = True, False
        values = values.reshape(-1)
        if kind != "f":
            self.width = max((len(str(v)) for v in values.tolist()), default=1)
            return
        finite = values[np.isfinite(values) & (values != 0)].astype(np.float64)
        if finite.size == 0:
            return
        size = np.abs(finite)
        largest, least = float(size.max()), float(size.min())
        self.whole = bool((finite == np.ceil(finite)).all())
        limits = largest / least > 1000.0 or largest > 1e8
        self.scientific = limits if self.whole else limits or least < 1e-4
        if Options.sci_mode is not None:
            self.scientific = Options.sci_mode
        self.width = self.widest(finite.astype(values.dtype))

    def widest(self, values: Any) -> int:
        return max((len(self.text(v)) for v in values.tolist()), default=1)

    def text(self, value: Any) -> str:
        if self.kind != "f":
            return str(value)
        if self.scientific:
            return f"{value:.{Options.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{Options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self.text(value).rjust(self.width)


def vector_text(row: Any, indent: int, form: Formatter, summarize: bool) -> str:
    width = form.width + 2
    per_line = max(1, int((Options.linewidth - indent) // width))
    edge = Options.edgeitems
    if summarize and not edge:
        words = ["..."]
    elif summarize and len(row) > 2 * edge:
        words = [*map(form, row[:edge].tolist()), " ...", *map(form, row[-edge:].tolist())]
    else:
        words = [form(v) for v in row.tolist()]
    lines = [words[i : i + per_line] for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"


def array_text(a: Any, indent: int, form: Formatter, summarize: bool) -> Any:
    if a.ndim == 0:
        return form(a.item())
    if a.ndim == 1:
        return vector_text(a, indent, form, summarize)
    edge = Options.edgeitems
    if summarize and a.shape[0] > 2 * edge:
        rows = [array_text(r, indent + 1, form, summarize) for r in a[:edge]]
        rows += ["..."]
        rows += [array_text(r, indent + 1, form, summarize) for r in a[-edge:]]
    else:
        rows = [array_text(r, indent + 1, form, summarize) for r in a]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def corners(a: Any) -> Any:
    """What is shown of an array that is shown in part."""
    edge = Options.edgeitems
    for axis in range(a.ndim):
        if a.shape[axis] > 2 * edge:
            ends = np.r_[0:edge, a.shape[axis] - edge : a.shape[axis]]
            a = np.take(a, ends, axis)
    return a


def tensor_text(x: Tensor) -> str:
    """x as PyTorch prints it."""
    data = x.realize_cached_data()
    kind = dtype_in_engine(x)
    array = (F.cast(data, "float32") if kind == "bfloat16" else data).numpy()
    suffixes: list[str] = []
    implied = ("bool", "int64", str(dtypes.default_in_engine()))
    if array.size == 0:
        if array.ndim != 1:
            suffixes.append(f"size={tuple(array.shape)}")
        if kind != dtypes.default_in_engine():
            suffixes.append(f"dtype={x.dtype}")
        body = "[]"
    else:
        if str.__str__(kind) not in implied:
            suffixes.append(f"dtype={x.dtype}")
        summarize = array.size > Options.threshold
        form = Formatter(corners(array) if summarize else array, kind.kind)
        body = array_text(array, len("tensor("), form, summarize)
    if x.grad_fn is not None:
        suffixes.append(f"grad_fn=<{x.grad_fn.name()}>")  # type: ignore[attr-defined]
    elif x.requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes("tensor(" + body, suffixes)


def with_suffixes(text: str, suffixes: list[str]) -> str:
    """The text with what is said behind the numbers, on new lines where there is no room."""
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > Options.linewidth:
            text += ",\n" + " " * len("tensor(") + suffix
            last = len("tensor(") + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"
