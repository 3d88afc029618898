"""The same weights, inputs and adjoints for Needle and PyTorch, and the comparison of the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import nn

torch = pytest.importorskip("torch")

DEVICES = [ndl.cpu(), ndl.cpu_numpy()]
# Relative to the largest value of an array.
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "float16": 6e-3, "bfloat16": 5e-2}

on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)
in_floats = pytest.mark.parametrize("dtype", ["float64", "float32"])


def draw(*shape: int, seed: int = 0, low: float | None = None, high: float = 1.0) -> np.ndarray:
    """Normal numbers, or even ones between two bounds."""
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)


def tensors(
    array: np.ndarray, dtype: str = "float64", device: Any = None, requires_grad: bool = True
) -> tuple[ndl.Tensor, torch.Tensor]:
    """One array as Needle's tensor and as PyTorch's; integers and bools keep their dtype."""
    if array.dtype.kind != "f":
        return ndl.tensor(array, device=device), torch.tensor(array)
    ours = ndl.tensor(array, dtype, device, requires_grad=requires_grad)
    theirs = torch.tensor(array).to(getattr(torch, dtype)).requires_grad_(requires_grad)
    return ours, theirs


# Weights ----------------------------------------------------------------------------------------

Pair = tuple[ndl.Tensor, Any, Callable[[np.ndarray], np.ndarray]]


def transposed(a: np.ndarray) -> np.ndarray:
    return a.T


def as_row(a: np.ndarray) -> np.ndarray:
    return a.reshape(1, -1)


def unchanged(a: np.ndarray) -> np.ndarray:
    return a


def pairs(ours: nn.Module, theirs: Any) -> Iterator[Pair]:
    """(our tensor, theirs, how their array becomes ours) for all parameters of two equal trees."""
    if isinstance(ours, nn.Linear):
        yield ours.weight, theirs.weight, transposed
        if ours.bias is not None:
            yield ours.bias, theirs.bias, as_row
        return
    if isinstance(ours, (nn.RNN, nn.LSTM, nn.GRU)):
        yield from _recurrent_pairs(ours, theirs)
        return
    if isinstance(ours, (nn.RNNCell, nn.LSTMCell, nn.GRUCell)):
        yield from _cell_pairs(ours, theirs, "")
        return
    for name, value in ours._named_items():
        if isinstance(value, nn.Module):
            yield from pairs(value, theirs.get_submodule(name))
        elif isinstance(value, nn.Parameter):
            matrix = name.endswith("_proj_weight")
            row = name in ("bias_k", "bias_v")
            how = transposed if matrix else as_row if row else unchanged
            yield value, getattr(theirs, name), how


def _recurrent_pairs(ours: Any, theirs: Any) -> Iterator[Pair]:
    for i, cell in enumerate(getattr(ours, ours.cells_name)):
        layer, backwards = divmod(i, ours.directions)
        yield from _cell_pairs(cell, theirs, f"_l{layer}" + "_reverse" * backwards)


def _cell_pairs(cell: Any, theirs: Any, suffix: str) -> Iterator[Pair]:
    for side in ("ih", "hh"):
        yield getattr(cell, f"W_{side}"), getattr(theirs, f"weight_{side}{suffix}"), transposed
        if cell.bias_ih is not None:
            bias = getattr(theirs, f"bias_{side}{suffix}")
            yield getattr(cell, f"bias_{side}"), bias, unchanged


def copy_weights(theirs: Any, ours: nn.Module) -> None:
    """Give our module PyTorch's weights and buffers (random ones, also where it starts at 0)."""
    rng = np.random.default_rng(1)
    for mine, other, how in pairs(ours, theirs):
        with torch.no_grad():
            other.add_(torch.tensor(0.1 * rng.standard_normal(other.shape)).to(other.dtype))
        values = how(other.detach().to(torch.float64).numpy())
        mine.data = ndl.Tensor(values, dtype=mine.dtype, device=mine.device)
    own = dict(ours.named_buffers())
    for name, buffer in theirs.named_buffers():
        if name in own:
            own[name].data = ndl.Tensor(
                buffer.numpy(), dtype=own[name].dtype, device=own[name].device
            )


def build(
    make: Callable[[Any], Any], dtype: str = "float64", device: Any = None
) -> tuple[Any, Any]:
    """`make(library.nn)` for both libraries, with one set of weights."""
    theirs = make(torch.nn).to(getattr(torch, dtype))
    ours = make(nn).to(device or ndl.cpu(), dtype)
    copy_weights(theirs, ours)
    return ours, theirs


# Comparison -------------------------------------------------------------------------------------


def flat(out: Any) -> list[Any]:
    """The tensors in nested tuples."""
    if isinstance(out, (tuple, list)):
        return [x for item in out for x in flat(item)]
    return [] if out is None else [out]


def assert_near(ours: Any, theirs: Any, about: str = "", tolerance: float | None = None) -> None:
    """Equal shapes and dtypes, and values within the dtype's tolerance."""
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch."), about
    expected = theirs.detach().to(torch.float64).numpy()
    found = ours.numpy().astype(np.float64)
    assert found.shape == expected.shape, about
    relative = TOLERANCE.get(str(ours.dtype), 0) if tolerance is None else tolerance
    finite = expected[np.isfinite(expected)]
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=relative, atol=relative * scale, err_msg=about)


def compare(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    arrays: Sequence[Any],
    dtype: str = "float64",
    device: Any = None,
    modules: tuple[Any, Any] | None = None,
    tolerance: float | None = None,
) -> None:
    """Forward and backward of two functions of the same arrays (what is no array is passed on)."""
    given = [tensors(a, dtype, device) if isinstance(a, np.ndarray) else (a, a) for a in arrays]
    out, expected = (
        f(*side) for f, side in zip((ours, theirs), zip(*given, strict=True), strict=True)
    )
    results = list(zip(flat(out), flat(expected), strict=True))
    for a, b in results:
        assert_near(a, b, "forward", tolerance)
    total, their_total = (
        ndl.zeros((), dtype=dtype, device=device),
        torch.zeros((), dtype=torch.float64),
    )
    for i, (a, b) in enumerate(results):
        if not b.requires_grad:
            continue
        adjoint, their_adjoint = tensors(draw(*a.shape, seed=i + 7), dtype, device, False)
        total = total + (a * adjoint).sum()
        their_total = their_total + (b * their_adjoint).sum()
    total.backward()
    their_total.backward()
    for i, (a, b) in enumerate(given):
        if isinstance(b, torch.Tensor) and b.requires_grad:
            assert (a.grad is None) == (b.grad is None), f"gradient of input {i}"
            if b.grad is not None:
                assert_near(a.grad, b.grad, f"gradient of input {i}", tolerance)
    if modules is not None:
        for mine, other, how in pairs(*modules):
            expected_grad = torch.tensor(np.ascontiguousarray(how(other.grad.numpy())))
            assert_near(mine.grad, expected_grad, f"gradient of a weight {mine.shape}", tolerance)


def compare_modules(
    make: Callable[[Any], Any],
    arrays: Sequence[Any],
    dtype: str = "float64",
    device: Any = None,
    call: Callable[..., Any] | None = None,
    training: bool = True,
    tolerance: float | None = None,
) -> tuple[Any, Any]:
    """Two modules of one description: results, gradients of inputs and weights; returns both."""
    ours, theirs = build(make, dtype, device)
    ours.train(training)
    theirs.train(training)
    run = call or (lambda module, *args: module(*args))
    compare(
        lambda *args: run(ours, *args),
        lambda *args: run(theirs, *args),
        arrays,
        dtype,
        device,
        (ours, theirs),
        tolerance,
    )
    return ours, theirs
