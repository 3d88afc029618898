"""A call for each kernel file of cuda(), by the public interface, of several blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.ndarray.functions import sparse_matmul

Call = Callable[[Any], ndl.Tensor]
F = nn.functional


def drawn(device: Any, *shape: int, dtype: str = "float32", seed: int = 0) -> ndl.Tensor:
    """Multiples of 1/8, many of them equal, some of them zero."""
    values = np.random.default_rng(seed).integers(-24, 24, shape) / 8
    return ndl.Tensor(values, device=device, dtype=dtype)


def leaf(device: Any, *shape: int, seed: int = 0) -> ndl.Tensor:
    return ndl.Tensor(drawn(device, *shape, seed=seed), requires_grad=True)


def places(device: Any, count: int, size: int) -> ndl.Tensor:
    values = np.random.default_rng(1).integers(-size, size, count)
    return ndl.Tensor(values, device=device, dtype="int64")


def slopes(result: ndl.Tensor, *inputs: ndl.Tensor) -> ndl.Tensor:
    """What backward gives to the inputs, as one vector."""
    (result * drawn(result.device, *result.shape, seed=9)).sum().backward()
    return ndl.cat([x.grad.reshape(-1) for x in inputs], 0)


def conv_slopes(d: Any) -> ndl.Tensor:
    x, w = leaf(d, 2, 3, 9, 9), leaf(d, 4, 3, 3, 3, seed=1)
    return slopes(F.conv2d(x, w, padding=1), w, x)


def attention(d: Any) -> ndl.Tensor:
    q, k, v = (drawn(d, 2, 90, 40, seed=i) for i in range(3))
    return F.scaled_dot_product_attention(q, k, v)


def attention_slopes(d: Any) -> ndl.Tensor:
    q, k, v = (leaf(d, 2, 90, 40, seed=i) for i in range(3))
    return slopes(F.scaled_dot_product_attention(q, k, v), q, k, v)


def cell(d: Any) -> tuple[ndl.Tensor, ndl.Tensor]:
    ndl.manual_seed(0)
    x = leaf(d, 3, 4, 5)
    return nn.LSTM(5, 40).to(d)(x)[0], x


def random(d: Any) -> ndl.Tensor:
    ndl.manual_seed(0)  # else NumPy's numbers are taken
    return ndl.rand(3000, device=d)


def sparse(d: Any) -> ndl.Tensor:
    """A matrix with three entries in each of 50 rows, times a dense one."""
    starts = ndl.Tensor(np.arange(0, 151, 3), device=d, dtype="int64")
    operands = drawn(d, 20, 30), starts, places(d, 150, 20) % 20, drawn(d, 150)
    return ndl.Tensor(sparse_matmul(*(o.cached_data for o in operands), 0))


CALLS: dict[str, Call] = {
    "fill": lambda d: ndl.full((70, 40), 2.5, device=d),
    "copy": lambda d: ndl.cat([drawn(d, 40, 70), drawn(d, 40, 2)], 1),
    "transpose": lambda d: ndl.cat([drawn(d, 3, 40, 70).transpose(), drawn(d, 3, 70, 2)], 2),
    "unary": lambda d: drawn(d, 70, 40).exp(),
    "binary": lambda d: drawn(d, 70, 40) + drawn(d, 40, seed=1),
    "where": lambda d: ndl.where(drawn(d, 70, 40) > 0, drawn(d, 70, 40), drawn(d, 1, 40)),
    "reduce": lambda d: drawn(d, 3, 5000).sum(1),
    "arg_reduce": lambda d: drawn(d, 3, 5000).argmax(1),
    "scan": lambda d: drawn(d, 3, 5000).cumsum(1),
    "matmul": lambda d: drawn(d, 70, 50) @ drawn(d, 50, 90),
    "product_parts": lambda d: drawn(d, 20, 900) @ drawn(d, 900, 30),
    "conv": lambda d: F.conv2d(drawn(d, 2, 3, 9, 9), drawn(d, 4, 3, 3, 3, seed=1), padding=1),
    "conv_by_weight": conv_slopes,
    "attention": attention,
    "attention_shift": attention_slopes,
    "attention_by_query": attention_slopes,
    "attention_by_key": attention_slopes,
    "recurrence_step": lambda d: cell(d)[0],
    "recurrence_slopes": lambda d: slopes(*cell(d)),
    "index_places": lambda d: drawn(d, 50, 30)[places(d, 100, 50)],
    "gather": lambda d: drawn(d, 50, 30)[places(d, 100, 50)],
    "scatter_add": lambda d: slopes((x := leaf(d, 50, 30))[places(d, 100, 50)], x),
    "scatter_set": lambda d: drawn(d, 400).scatter(0, places(d, 300, 400) % 400, drawn(d, 300)),
    "sort_chunks": lambda d: drawn(d, 2, 700).argsort(1),
    "sort_merge": lambda d: drawn(d, 2, 3000).argsort(1),
    "searchsorted": lambda d: ndl.searchsorted(ndl.arange(300, device=d) / 8, drawn(d, 70, 40)),
    "mix": sparse,
    "mix_check": sparse,
    "nonzero": lambda d: drawn(d, 70, 40).nonzero(),
    "random": random,
    "softmax": lambda d: F.softmax(drawn(d, 3, 5000), 1),
}
