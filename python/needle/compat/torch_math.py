"""Small functions that PyTorch names, each composed of other operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ..autograd import Tensor, TensorOp
from ..dtype import dtype_of
from ..ndarray import functions as F, layout
from ..ops.common import Scalar, Ufunc, check_tensor, constant, reporting_as, whole_number
from ..ops.compare import clip
from ..ops.elementwise import astype, ufunc
from ..ops.index.along_axis import AlongIntoZeros
from ..ops.matmul import matmul
from ..ops.reduce import norm
from ..ops.shape.movement import broadcast_to

if TYPE_CHECKING:
    from ..types import Gradients, NDArray, TensorLike

__all__ = [
    "reciprocal", "clamp_min", "clamp_max", "lerp", "addcmul", "addcdiv", "addmm", "baddbmm",
    "broadcast_tensors", "bincount", "cdist",
]  # fmt: skip


def reciprocal(x: Tensor, **numpy: Unpack[Ufunc]) -> Tensor:
    """1 / x; of integers in float64."""
    if numpy:
        return ufunc(reciprocal, numpy, x)
    return 1 / check_tensor("reciprocal", x)


def clamp_min(x: Tensor, min: Scalar | Tensor) -> Tensor:
    """x, or min where that is larger."""
    return clip(x, min=min)


def clamp_max(x: Tensor, max: Scalar | Tensor) -> Tensor:
    """x, or max where that is smaller."""
    return clip(x, max=max)


class Lerp(TensorOp):
    """y = a + w (b - a),  dy/da = 1 - w,  dy/db = w,  dy/dw = b - a

    Computed from the nearer end, |w| < 1/2 or not, so that w = 1 gives b."""

    elementwise = True

    def compute(self, a: Any, b: Any, w: Any) -> NDArray:
        span = F.binary("subtract", b, a)
        from_a = F.binary("add", a, F.binary("multiply", span, w))
        from_b = F.binary("subtract", b, F.binary("multiply", span, F.binary("subtract", 1, w)))
        return F.where(F.binary("less", F.unary("abs", w), 0.5), from_a, from_b)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b, w = node.inputs
        return out_grad * (1 - w), out_grad * w, out_grad * (b - a)


@reporting_as("lerp")
def lerp(x: Tensor, end: TensorLike, weight: TensorLike) -> Tensor:
    """x + weight (end - x)"""
    return Lerp()(*(constant(v, check_tensor("lerp", x)) for v in (x, end, weight)))


@reporting_as("addcmul")
def addcmul(x: Tensor, a: Tensor, b: TensorLike, *, value: float = 1) -> Tensor:
    """x + value a b"""
    product: Tensor = check_tensor("addcmul", a) * b
    return check_tensor("addcmul", x) + (product if value == 1 else product * value)


@reporting_as("addcdiv")
def addcdiv(x: Tensor, a: Tensor, b: TensorLike, *, value: float = 1) -> Tensor:
    """x + value a / b"""
    quotient: Tensor = check_tensor("addcdiv", a) / b
    return check_tensor("addcdiv", x) + (quotient if value == 1 else quotient * value)


@reporting_as("addmm")
def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha a @ b, also of batches of matrices"""
    product = matmul(a, b)
    scaled = check_tensor("addmm", x) if beta == 1 else x * beta
    return scaled + (product if alpha == 1 else product * alpha)


baddbmm = addmm


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All of them stretched to their common shape."""
    shapes = [check_tensor("broadcast_tensors", x).shape for x in tensors]
    shape = layout.broadcast_shapes("broadcast_tensors", *shapes)
    return tuple(broadcast_to(x, shape) for x in tensors)


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, ... is among x's elements, or the sums of their weights.

    The size depends on the data: on the largest element, or minlength if that is more."""
    ids = check_tensor("bincount", x)
    least = whole_number("bincount", "minlength", minlength)
    if ids.ndim != 1 or not dtype_of(ids.dtype).is_integer or (ids.size and ids.amin().item() < 0):
        raise ValueError(
            f"[bincount] expected a vector of integers >= 0, got {ids.dtype} of shape {ids.shape}."
        )
    size = least if not ids.size else max(least, int(ids.amax().item()) + 1)
    ones = astype(ids * 0 + 1, "int64") if weights is None else check_tensor("bincount", weights)
    return AlongIntoZeros(0, (size,))(ones, ids)


def cdist(a: Tensor, b: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all rows: (..., N, D) and (..., M, D) -> (..., N, M), in the p-norm."""
    if check_tensor("cdist", a).ndim < 2 or check_tensor("cdist", b).ndim < 2:
        raise ValueError(f"[cdist] expected rows (..., N, D), got {a.shape} and {b.shape}.")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"[cdist] expected rows of one length, got {a.shape} and {b.shape}.")
    return norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


METHODS = {
    f.__name__: f
    for f in (reciprocal, clamp_min, clamp_max, lerp, addcmul, addcdiv, addmm, bincount)
}
