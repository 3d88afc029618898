"""Unbroadcast: an adjoint of a broadcast, promoted result in the form of the input it belongs to.

Gradient rules do not know what was broadcast: y = a + b has the adjoints (g, g), whatever the
shapes of a and b. `Op.gradient_as_tuple`, the step of the backward walk, sums each one over the
axes along which its input was repeated, and casts it to the input's dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native

if TYPE_CHECKING:
    from ..types import Adjoint, Tensor
    from .tensor import Value


def unbroadcast_all(node: Value, gradients: tuple[Adjoint, ...]) -> tuple[Adjoint, ...]:
    """What the operator of `node` gave for its inputs, in their forms."""
    if len(gradients) != len(node.inputs):
        raise ValueError(
            f"[{type(node.op).__name__}.gradient] expected one gradient per input "
            f"({len(node.inputs)}), got {len(gradients)}."
        )
    pairs = zip(node.inputs, gradients, strict=True)
    return tuple(
        unbroadcast(node, x, g) if g is not None and x.requires_grad else g for x, g in pairs
    )


def unbroadcast(node: Value, source: Tensor, gradient: Adjoint) -> Adjoint:
    """A gradient of the input `source` of `node`, in the source's form.

    If b (3, 1) was broadcast to (2, 3, 4), db = Σ over axes 0 and 2 of g, as (3, 1)."""
    if not isinstance(gradient, _native.NodeBase):
        raise _misfit(node, source, gradient)
    shape = getattr(source, "shape", None)
    if shape is None:  # a TensorTuple
        return gradient
    adjoint: Tensor = gradient  # type: ignore[assignment]
    if adjoint.shape != shape:
        extra = adjoint.ndim - len(shape)
        pairs = list(zip(shape, adjoint.shape[max(extra, 0) :], strict=False))
        if extra < 0 or any(n not in (1, m) for n, m in pairs):
            raise _misfit(node, source, adjoint.shape)
        stretched = (i + extra for i, (n, m) in enumerate(pairs) if n != m)
        adjoint = adjoint.sum((*range(extra), *stretched)).reshape(shape)
    dtype = source.dtype
    is_same = adjoint.dtype is dtype or adjoint.dtype == dtype  # the first takes no time
    return adjoint if is_same else adjoint.astype(dtype)


def _misfit(node: Value, source: object, got: object) -> ValueError:
    return ValueError(
        f"[{type(node.op).__name__}.gradient] expected a Tensor of the input's shape "
        f"{getattr(source, 'shape', None)}, got {got}."
    )
