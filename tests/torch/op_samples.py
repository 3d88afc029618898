"""PyTorch's own samples of its operators, run through both libraries and compared.

A sample passes if both raise, or if both give results of one dtype, shape and value (and, for
floats, of one gradient).
"""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import needle.torch as face

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


def op_database() -> list[Any]:
    """PyTorch's table of operators with samples; one package that it imports is not needed."""
    if "expecttest" not in sys.modules:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def torch() -> Any:
    import torch as real

    return real


# From one library to the other --------------------------------------------------------------------


def to_face(value: Any) -> Any:
    """A value of PyTorch's as one of the face: tensors keep strides and requires_grad."""
    real = torch()
    if isinstance(value, real.Tensor):
        return _tensor(value)
    if isinstance(value, real.dtype):
        return getattr(face, str(value).removeprefix("torch."))
    if isinstance(value, real.device):
        return face.device(str(value))
    if isinstance(value, real.Generator):
        return None
    if isinstance(value, (real.memory_format, real.layout)):
        return getattr(face, str(value).removeprefix("torch."))
    if isinstance(value, real.Size):
        return face.Size(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_face(v) for v in value)
    if isinstance(value, dict):
        return {k: to_face(v) for k, v in value.items()}
    return value


def _tensor(x: Any) -> Any:
    if x.is_complex() or x.layout is not torch().strided:
        raise Unsupported(str(x.dtype))
    kind = getattr(face, str(x.dtype).removeprefix("torch."), None)
    if kind is None:
        raise Unsupported(str(x.dtype))
    plain = x.detach()
    array = (plain.float() if x.dtype is torch().bfloat16 else plain).contiguous().numpy()
    made = face.tensor(array.copy(), dtype=kind).reshape(tuple(x.shape))
    if x.ndim and not x.is_contiguous() and 0 not in x.shape:
        order = sorted(range(x.ndim), key=lambda i: -x.stride(i))
        if order != list(range(x.ndim)):
            back = [order.index(i) for i in range(x.ndim)]
            made = made.permute(order).contiguous().permute(back)
    return made.requires_grad_() if x.requires_grad else made


class Unsupported(Exception):
    """A sample with a dtype or layout that the face has not."""


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a result."""
    if hasattr(value, "detach"):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


def as_numpy(x: Any) -> Any:
    x = x.detach()
    return np.asarray(
        (x.float() if "bfloat16" in str(x.dtype) else x).resolve_conj().numpy(force=True)
    )


# Operators whose elements are not set.
UNSET = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ "
    "resize_as_".split()
)

# Comparison ---------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Whether a sample passed, and if not, why."""

    ok: bool
    why: str = ""


def compare(expected: Any, found: Any, what: str) -> str:
    """Why two results are not the same; nothing, if they are."""
    if isinstance(expected, (bool, int, float, str)) or expected is None:
        return (
            ""
            if expected == found or expected != expected
            else f"{what}: {found!r} for {expected!r}"
        )
    a, b = list(tensors(expected)), list(tensors(found))
    if len(a) != len(b):
        return f"{what}: {len(b)} tensors for {len(a)}"
    for x, y in zip(a, b, strict=True):
        if str(x.dtype) != str(y.dtype):
            return f"{what}: {y.dtype} for {x.dtype}"
        if tuple(x.shape) != tuple(y.shape):
            return f"{what}: {tuple(y.shape)} for {tuple(x.shape)}"
        p, q = as_numpy(x), as_numpy(y)
        tolerance = TOLERANCE.get(str(x.dtype).removeprefix("torch."), 0)
        if not np.allclose(p, q, tolerance, tolerance, equal_nan=True):
            with np.errstate(all="ignore"):
                return f"{what}: off by {np.nanmax(np.abs(p.astype(float) - q.astype(float))):g}"
    return ""


def _method(name: str) -> Any:
    return lambda x, *args, **options: getattr(x, name)(*args, **options)


def _property(name: str) -> Any:
    return lambda x: getattr(x, name)


# Operators whose samples name their operands in another order than the function does.
ADAPTED: dict[str, Any] = {
    "where": lambda x, condition, other: face.where(condition, x, other),
    "einsum": lambda operands, equation: face.einsum(equation, *operands),
    "polygamma": lambda x, n: face.polygamma(n, x),
    "isin": face.isin,
    **{name: _property(name) for name in ("T", "H", "mT", "mH")},
    **{
        name: _method(name)
        for name in ("bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long",
                     "short")
    },
    **{
        name: lambda x, *args, name=name, **o: getattr(x.clone(), name + "_")(*args, **o)
        for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform", "zero")
    },
}  # fmt: skip


def function_of(op: Any) -> Any:
    """The face's function of an operator, by its name; None if it is missing."""
    found: Any = face
    if op.name in ADAPTED:
        return ADAPTED[op.name]
    if op.name.endswith("_"):
        return lambda x, *args, **options: getattr(x.clone(), op.name)(*args, **options)
    if op.name == "normal" and op.variant_test_name == "in_place":
        return lambda x, *args, **options: x.clone().normal_(*args, **options)
    for part in op.name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return getattr(face.Tensor, op.name, None)
    return found


def run(function: Any, sample: Any) -> tuple[Any, Exception | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(sample.input, *sample.args, **sample.kwargs), None
    except Exception as error:  # what kind is compared by the caller
        return None, error


class FaceSample(NamedTuple):
    """A sample as the face takes it."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def check(op: Any, sample: Any, with_gradient: bool) -> Outcome:
    """Run a sample through both libraries."""
    function = function_of(op)
    if function is None:
        return Outcome(False, "missing")
    given = FaceSample(to_face(sample.input), to_face(sample.args), to_face(sample.kwargs))
    expected, error = run(op.op, sample)
    face.manual_seed(42)  # as the samples of random operators do
    found, own_error = run(function, given)
    if error is not None:
        return Outcome(own_error is not None, "does not raise")
    if own_error is not None:
        return Outcome(False, f"raises {type(own_error).__name__}: {str(own_error)[:150]}")
    why = compare(expected, found, "value") if op.name not in UNSET else ""
    if not why and with_gradient:
        why = compare_gradients(sample, expected, given, found)
    return Outcome(not why, why)


def leaves(sample: Any) -> list[Any]:
    every = [sample.input, *sample.args, *sample.kwargs.values()]
    return [x for x in tensors(every) if x.requires_grad]


def compare_gradients(sample: Any, expected: Any, given: Any, found: Any) -> str:
    real = torch()
    ys = [y for y in tensors(expected) if y.requires_grad]
    own = [y for y in tensors(found) if y.requires_grad]
    if len(ys) != len(own):
        return f"{len(own)} results require a gradient, not {len(ys)}"
    xs = leaves(sample)
    if not ys or not xs:
        return ""
    torch().manual_seed(0)
    seeds = [real.randn_like(y) for y in ys]
    try:
        wanted = real.autograd.grad(ys, xs, seeds, allow_unused=True)
    except RuntimeError:
        return ""
    try:
        got = face.autograd.grad(own, leaves(given), to_face(seeds), allow_unused=True)
    except Exception as error:  # reported
        return f"gradient raises {type(error).__name__}: {str(error)[:150]}"
    for a, b in zip(wanted, got, strict=True):
        if (a is None) != (b is None):
            zero = a if b is None else b
            if bool((zero == 0).all()):
                continue
            return "gradient: None on one side"
        if a is not None and (why := compare(a, b, "gradient")):
            return why
    return ""


def samples_of(op: Any, dtype: Any, limit: int) -> Sequence[Any]:
    real = torch()
    needs_grad = dtype.is_floating_point and op.supports_autograd
    real.manual_seed(0)
    np.random.seed(0)
    made = op.sample_inputs("cpu", dtype, requires_grad=needs_grad)
    found = []
    for sample in made:
        found.append(sample)
        if len(found) == limit:
            break
    return found
