"""Where the first NaN or infinity came from: `with needle.detect_anomaly(): ...`."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from ..dtype import dtype_of
from ..ndarray import functions as F
from ..system.user_code import Line, user_line
from .graph import Observer, observers
from .tensor import Tensor, TensorTuple, Value

if TYPE_CHECKING:
    from ..autograd.op import Op
    from ..types import NDArray

T = TypeVar("T")


class AnomalyError(ValueError):
    """An operator's result or gradient is NaN or infinite."""


class _Differentiating(threading.local):
    depth = 0  # gradients at work in this thread; what becomes of their steps is checked at the end


class Notes(Generic[T]):
    """What is noted of values, as long as they live; by identity, because == compares elements."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Value], T]] = {}

    def __setitem__(self, value: Value, note: T) -> None:
        key = id(value)
        self._found[key] = weakref.ref(value, lambda _: self._found.pop(key, None)), note

    def __contains__(self, value: Value) -> bool:
        return id(value) in self._found

    def __getitem__(self, value: Value) -> T:
        return self._found[id(value)][1]

    def get(self, value: Value) -> T | None:
        found = self._found.get(id(value))
        return found and found[1]


class Anomalies(Observer):
    """Checks every result and every gradient."""

    def __init__(self) -> None:
        self._lines = Notes[Line | None]()
        self._steps = Notes[None]()  # lazy values that were made inside a gradient
        self._origins = Notes[Value]()
        self._differentiating = _Differentiating()

    def recorded(self, value: Value) -> None:
        self._lines[value] = user_line()
        if self._differentiating.depth:
            self._steps[value] = None

    def computed(self, op: Op, inputs: Sequence[Value], result: Value) -> None:
        if result not in self._lines:
            self._lines[result] = user_line()
        if result in self._origins:
            self._check_gradients(self._origins[result], [result])
        elif not self._differentiating.depth and result not in self._steps:
            found = _first_flaw([result])
            if found:
                raise AnomalyError(
                    f"[detect_anomaly] forward: the result of {type(op).__name__} has {found}.\n"
                    f"  inputs: {_shapes(inputs)}; output: {_shapes([result])}\n"
                    f"  at {self._lines[result]}"
                )

    def differentiating(self, node: Value) -> None:
        self._differentiating.depth += 1

    def differentiated(self, node: Value, gradients: Sequence[Value | None] | None) -> None:
        self._differentiating.depth -= 1
        pairs = zip(gradients or (), node.inputs, strict=False)
        wanted = [g for g, x in pairs if g is not None and x.requires_grad]
        for gradient in wanted:
            if gradient in self._steps and gradient.cached_data is None:
                self._origins[gradient] = node  # lazy: checked when it is computed
        self._check_gradients(node, [g for g in wanted if g not in self._origins])

    def _check_gradients(self, node: Value, gradients: Sequence[Value]) -> None:
        found = _first_flaw(gradients)
        if found:
            name = type(node.op).__name__
            line = self._lines.get(node) or "a line outside detect_anomaly()"
            raise AnomalyError(
                f"[detect_anomaly] backward: the gradient of {name} has {found}.\n"
                f"  inputs: {_shapes(node.inputs)}; output: {_shapes([node])}\n"
                f"  computed forward at {line}"
            )


def _arrays(value: Value) -> list[NDArray]:
    data = value.realize_cached_data()
    return list(data) if isinstance(data, tuple) else [data]


def _first_flaw(values: Sequence[Value]) -> str | None:
    """What is wrong in the first value that is not finite."""
    for array in (a for value in values for a in _arrays(value)):
        if not dtype_of(array.dtype).is_floating or _all(F.unary("isfinite", array)):
            continue
        return "infinity" if _all(F.unary("logical_not", F.unary("isnan", array))) else "NaN"
    return None


def _all(condition: NDArray) -> bool:
    return bool(F.reduce("all", condition).item())


def _shapes(values: Sequence[Value]) -> str:
    """Shapes and dtypes, with a mark on what is not finite already."""
    parts = []
    for x in values:
        arrays = _arrays(x) if isinstance(x, TensorTuple) else [x._shape_data()]
        parts += [f"{tuple(a.shape)} {a.dtype}" for a in arrays]
        flaw = _first_flaw([x]) if isinstance(x, Tensor) and x.cached_data is not None else None
        if flaw:
            parts[-1] += f" (with {flaw})"
    return ", ".join(parts)


@contextlib.contextmanager
def detect_anomaly() -> Iterator[None]:
    """Within this context the first NaN or infinity raises AnomalyError.

    The error names the operator, its shapes and the line of your program that called it; for a
    gradient, the line that called the operator forward. In lazy mode results are checked when they
    are computed, if that is within the context; the line is still that of the operator. The check
    reads every result once more and concerns all threads: use it to find a fault, not always.

    >>> x = ndl.tensor([1.0, 0.0])
    >>> with ndl.detect_anomaly():
    ...     ndl.log(x)
    Traceback (most recent call last):
    ...
    needle.autograd.anomaly.AnomalyError: [detect_anomaly] forward: the result of Log has infinity.
      inputs: (2,) float32; output: (2,) float32 (with infinity)
      at ...
    """
    observer = Anomalies()
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)
