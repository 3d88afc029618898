"""Functions of networks under `torch` whose arguments come in another order than in
`nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import functional as N


def dropout(input: Any, p: float, train: bool) -> Any:
    """Each element is zero with probability p, else x / (1 - p)."""
    return N.dropout(input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """`dropout`, written into input."""
    return N.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """`dropout` that keeps the mean and deviation of what SELU gives."""
    return N.alpha_dropout(input, p, train)


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """The rows of weight at indices; -1 is no padding."""
    padding = None if padding_idx == -1 else padding_idx
    return N.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Each channel by the batch's statistics, or the running ones."""
    return N.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    """Mean 0 and deviation 1 over the last axes."""
    return N.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Mean 0 and deviation 1 over each group of channels."""
    return N.group_norm(input, num_groups, weight, bias, eps)
