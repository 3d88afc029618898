"""Shared by the autograd tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import needle as ndl


def leaf(data: Any, requires_grad: bool = True) -> ndl.Tensor:
    """A float64 tensor."""
    return ndl.Tensor(np.asarray(data), dtype="float64", requires_grad=requires_grad)


def plain(data: Any) -> ndl.Tensor:
    """A float64 tensor that requires no gradient."""
    return leaf(data, requires_grad=False)
