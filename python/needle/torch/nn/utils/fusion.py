"""Batch norm as part of the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from .... import torch
from ..parameter import Parameter

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float,
    scale: Tensor | None, shift: Tensor | None, axis: int,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    with torch.no_grad():
        bias = torch.zeros_like(mean) if bias is None else bias
        factor = (var + eps).rsqrt()
        factor = factor if scale is None else factor * scale
        shape = [1] * weight.ndim
        shape[axis] = -1
        moved = (bias - mean) * factor
        moved = moved if shift is None else moved + shift
        return (
            Parameter(weight * factor.reshape(shape), weight.requires_grad),
            Parameter(moved, bias.requires_grad),
        )


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a convolution that does what it and a batch norm do."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a linear map that does what it and a batch norm do."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fuse(layer: Any, bn: Any, transpose: bool) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = _fused(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        1 if transpose else 0,
    )  # fmt: skip
    return fused


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what it and a batch norm do."""
    return _fuse(conv, bn, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear map that does what it and a batch norm do."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    return _fuse(linear, bn, transpose=False)
