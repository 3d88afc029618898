"""Moving data without changing it: other shapes, orders, places. Views wherever a view will do.

All of these are linear, and the gradient is the movement back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from ...autograd import Tensor, TensorOp
from ...backend import BackendDevice, device_named
from ...dtype import dtype_of
from ...ndarray import functions as F, layout
from ..common import (
    check_tensor,
    check_tensors,
    either,
    flag,
    numpy_options,
    one_of,
    whole_number,
)
from ..elementwise import astype

if TYPE_CHECKING:
    from ...types import Axes, DeviceLike, DTypeLike, NDArray, Shape, ShapeLike, Sizes

__all__ = [
    "Reshape", "reshape", "flatten", "squeeze", "expand_dims", "unsqueeze", "BroadcastTo",
    "broadcast_to", "meshgrid", "Transpose", "transpose", "swapaxes", "Permute", "permute",
    "Flip", "flip", "Diagonal", "OnDiagonal", "diagonal", "Triangle", "tril", "triu", "Clone",
    "clone", "ToDevice", "to",
]  # fmt: skip


def sequence(op: str, values: tuple[object, ...], named: object) -> Any:
    """f(x, (2, 3)), f(x, 2, 3) and f(x, name=(2, 3)) mean the same."""
    if named is not None:
        if values:
            raise TypeError(f"[{op}] expected sizes once, got {values!r:.60} and {named!r:.60}.")
        return named
    return values[0] if len(values) == 1 else values


# Shape --------------------------------------------------------------------------------------------


class Reshape(TensorOp):
    """y = the elements of x in C order, in another shape"""

    linear = True

    def __init__(self, shape: Sizes):
        self.shape = shape

    def compute(self, a: NDArray) -> NDArray:
        return F.reshape(a, self.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x = node.inputs[0]
        return reshape(out_grad, x.shape)


class InOrder(TypedDict, total=False):
    """NumPy's keywords of other shapes, with the values that they have here."""

    order: Literal["C"]
    copy: None


def reshape(
    a: Tensor, *sizes: ShapeLike, shape: ShapeLike | None = None, **numpy: Unpack[InOrder]
) -> Tensor:
    """The same elements in another shape, reshape(a, (2, 3)) or (a, 2, 3); one size may be -1."""
    if numpy:
        numpy_options("reshape", numpy, order="C")
    given = layout.normalize_shape(sequence("reshape", sizes, shape), "reshape")
    return Reshape(given)(check_tensor("reshape", a))


def flatten(a: Tensor, start_dim: int = 0, end_dim: int = -1, **numpy: Unpack[InOrder]) -> Tensor:
    """The axes from start_dim to end_dim (both included) as one."""
    if numpy:
        numpy_options("flatten", numpy, order="C")
    shape = check_tensor("flatten", a).shape
    if not shape:
        return reshape(a, 1)
    start = layout.normalize_axis(start_dim, len(shape), "flatten")
    end = layout.normalize_axis(end_dim, len(shape), "flatten")
    if start > end:
        raise ValueError(f"[flatten] expected start_dim <= end_dim, got {start_dim} and {end_dim}.")
    size = math.prod(shape[start : end + 1])
    return reshape(a, (*shape[:start], size, *shape[end + 1 :]))


def squeeze(a: Tensor, axes: Axes = None, *, axis: Axes = None, dim: Axes = None) -> Tensor:
    """Without the given axes of size 1; None: without all of them."""
    shape = check_tensor("squeeze", a).shape
    given = one_of("squeeze", axes, axis, dim)
    if given is None:
        return reshape(a, tuple(n for n in shape if n != 1))
    gone = layout.normalize_axes(given, len(shape), "squeeze")
    for i in gone:
        if shape[i] != 1:
            raise ValueError(f"[squeeze] expected size 1 on axis {i}, got {shape[i]} in {shape}.")
    return reshape(a, layout.reduced_shape(shape, gone, False))


def expand_dims(a: Tensor, axes: Axes = None, *, axis: Axes = None, dim: Axes = None) -> Tensor:
    """With new axes of size 1 at these positions of the result."""
    shape = list(check_tensor("expand_dims", a).shape)
    given = one_of("expand_dims", axes, axis, dim)
    if given is None:
        raise TypeError("[expand_dims] expected the position of the new axis, got none.")
    count = len(given) if isinstance(given, Sequence) else 1
    for i in layout.normalize_axes(given, len(shape) + count, "expand_dims"):
        shape.insert(i, 1)
    return reshape(a, tuple(shape))


unsqueeze = expand_dims


class BroadcastTo(TensorOp):
    """y = x with its sizes of 1 stretched; the gradient sums over what was stretched"""

    linear = True

    def __init__(self, shape: Shape):
        self.shape = shape

    def compute(self, a: NDArray) -> NDArray:
        return F.broadcast_to(a, self.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def broadcast_to(
    a: Tensor, *sizes: ShapeLike, shape: ShapeLike | None = None, subok: Literal[False] = False
) -> Tensor:
    """a stretched to a shape by NumPy's rules."""
    if subok is not False:
        numpy_options("broadcast_to", {"subok": subok}, subok=False)
    given = layout.normalize_shape(sequence("broadcast_to", sizes, shape), "broadcast_to")
    layout.check_sizes(given, "broadcast_to")
    return BroadcastTo(given)(check_tensor("broadcast_to", a))


def meshgrid(
    *tensors: Tensor, indexing: str | None = None, sparse: bool = False, copy: bool = False
) -> tuple[Tensor, ...]:
    """The coordinates of a grid: result i is vector i along axis i, stretched over the others.

    indexing="ij" (PyTorch's default) or "xy" (NumPy's), which exchanges the first two axes. With
    sparse, results have size 1 in place of being stretched. They are views unless copy is True."""
    one_list = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    vectors = check_tensors("meshgrid", tensors[0] if one_list else tensors)
    if any(x.ndim > 1 for x in vectors):
        shapes = [x.shape for x in vectors]
        raise ValueError(f"[meshgrid] expected vectors, got shapes {shapes}.")
    if indexing not in ("ij", "xy") and (indexing is not None or len(vectors) > 1):
        raise ValueError(
            f"[meshgrid] expected indexing='ij' (PyTorch's default) or indexing='xy' (NumPy's), "
            f"got {indexing!r}."
        )
    axes = [*range(len(vectors))]  # the axis of each vector
    if indexing == "xy":
        axes[:2] = axes[1::-1]
    shape = tuple(math.prod(vectors[i].shape) for i in axes)
    forms = (tuple(n if i == axis else 1 for i, n in enumerate(shape)) for axis in axes)
    lying = (reshape(x, form) for x, form in zip(vectors, forms, strict=True))
    if not flag("meshgrid", "sparse", sparse):
        lying = (broadcast_to(x, shape) for x in lying)
    return tuple(map(clone, lying) if flag("meshgrid", "copy", copy) else lying)


# Order --------------------------------------------------------------------------------------------


class Transpose(TensorOp):
    """y = x with two axes exchanged (None: the last two)"""

    linear = True

    def __init__(self, axes: Sequence[int] | None = None):
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        if self.axes is None and len(a.shape) < 2:
            raise ValueError(f"[transpose] expected at least 2 axes, got {len(a.shape)}.")
        i, j = (-2, -1) if self.axes is None else self.axes
        return F.exchange(a, i, j)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return transpose(out_grad, self.axes)


def transpose(a: Tensor, axes: Axes = None, other: int | None = None) -> Tensor:
    """Two axes exchanged: transpose(a, (0, 1)) or (a, 0, 1); the last two when none are named."""
    if other is not None:
        axes = (cast(int, axes), other)
    if axes is not None and (not isinstance(axes, (tuple, list)) or len(axes) != 2):
        raise ValueError(
            f"[transpose] expected two axes to exchange, got {axes!r}; permute takes a full order."
        )
    return Transpose(None if axes is None else tuple(axes))(check_tensor("transpose", a))


def swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    ndim = max(check_tensor("swapaxes", a).ndim, 1)  # axis 0 of a 0-d tensor stays
    return Transpose(tuple(layout.normalize_axis(i, ndim, "swapaxes") for i in (axis1, axis2)))(a)


class Permute(TensorOp):
    """y = x with its axes in another order"""

    linear = True

    def __init__(self, axes: Sequence[int]):
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        return F.permute(a, self.axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        order = layout.normalize_permutation(self.axes, out_grad.ndim, "permute")
        return permute(out_grad, inverse_order(order))


def inverse_order(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one.

    >>> inverse_order((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def permute(a: Tensor, *order: Sizes, axes: Axes = None) -> Tensor:
    """All axes in another order: permute(a, (2, 0, 1)) or (a, 2, 0, 1)."""
    given = layout.normalize_shape(sequence("permute", order, axes), "permute")
    return Permute(given)(check_tensor("permute", a))


def reverse_axes(a: Tensor) -> Tensor:
    """All axes in reverse order: NumPy's a.T."""
    return transpose(a) if a.ndim == 2 else permute(a, tuple(reversed(range(a.ndim))))


class Flip(TensorOp):
    """y = x reversed along axes"""

    linear = True

    def __init__(self, axes: Axes = None):
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        return F.flip(a, self.axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return flip(out_grad, self.axes)


def flip(a: Tensor, axes: Axes = None, *, axis: Axes = None, dim: Axes = None) -> Tensor:
    """Reversed along axes (None: all), as a view."""
    return Flip(one_of("flip", axes, axis, dim))(check_tensor("flip", a))


# Diagonals ----------------------------------------------------------------------------------------


class Diagonal(TensorOp):
    """y[..., i] = x[i, i + offset] on two axes"""

    linear = True

    def __init__(self, offset: int, axis1: int, axis2: int):
        self.offset = offset
        self.axis1 = axis1
        self.axis2 = axis2

    def compute(self, a: NDArray) -> NDArray:
        return F.diagonal(a, self.offset, self.axis1, self.axis2)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x = node.inputs[0]
        return OnDiagonal(x.shape, self.offset, self.axis1, self.axis2)(out_grad)


class OnDiagonal(TensorOp):
    """y[i, i + offset] = x[..., i] on two axes, zero elsewhere: the reverse of Diagonal"""

    linear = True

    def __init__(self, shape: tuple[int, ...], offset: int, axis1: int, axis2: int):
        self.shape = shape
        self.offset = offset
        self.axis1 = axis1
        self.axis2 = axis2

    def compute(self, a: NDArray) -> NDArray:
        out = F.full_like(a, 0, shape=self.shape)
        F.assign(F.diagonal(out, self.offset, self.axis1, self.axis2), a)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Diagonal(self.offset, self.axis1, self.axis2)(out_grad)


def diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """A diagonal of two axes, as the last axis of a view."""
    ndim = check_tensor("diagonal", a).ndim
    first, second = (layout.normalize_axis(i, ndim, "diagonal") for i in (axis1, axis2))
    if first == second:
        raise ValueError(f"[diagonal] expected two different axes, got {axis1} and {axis2}.")
    return Diagonal(whole_number("diagonal", "offset", offset), first, second)(a)


class Triangle(TensorOp):
    """y = x on and above (upper), or on and below diagonal k of the last two axes; else 0"""

    linear = True

    def __init__(self, k: int, upper: bool):
        self.k = k
        self.upper = upper

    def compute(self, a: NDArray) -> NDArray:
        return F.triangle(a, self.k, self.upper)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Triangle(self.k, self.upper)(out_grad)


def _triangle(op: str, a: Tensor, upper: bool, **named: object) -> Tensor:
    k = either(op, 0, **named)
    if check_tensor(op, a).ndim < 2:
        raise ValueError(f"[{op}] expected at least 2 axes, got shape {a.shape}.")
    rows, columns = a.shape[-2:]
    k = max(-rows, min(whole_number(op, "k", k), columns))  # diagonals beyond are empty, too
    return Triangle(k, upper)(a)


def tril(a: Tensor, k: int | None = None, *, diagonal: int | None = None) -> Tensor:
    """The lower triangle of the last two axes: zero above diagonal k."""
    return _triangle("tril", a, upper=False, k=k, diagonal=diagonal)


def triu(a: Tensor, k: int | None = None, *, diagonal: int | None = None) -> Tensor:
    """The upper triangle of the last two axes: zero below diagonal k."""
    return _triangle("triu", a, upper=True, k=k, diagonal=diagonal)


# Memory -------------------------------------------------------------------------------------------


class Clone(TensorOp):
    """y = x, in memory of its own"""

    linear = True
    elementwise = True

    def compute(self, a: NDArray) -> NDArray:
        return F.copy(a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def clone(a: Tensor) -> Tensor:
    """A copy that stays in the graph."""
    return Clone()(check_tensor("clone", a))


class ToDevice(TensorOp):
    """y = x on another device; the gradient moves back"""

    linear = True

    def __init__(self, device: BackendDevice):
        self.device = device

    def compute(self, a: NDArray) -> NDArray:
        return F.to_device(a, self.device)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x = node.inputs[0]
        return to(out_grad, x.home)


def is_dtype(x: object) -> bool:
    """Is this a dtype, or a name of one?"""
    if isinstance(x, BackendDevice):
        return False
    try:
        dtype_of(x)
    except TypeError:
        return False
    return True


def to(
    a: Tensor,
    device: DeviceLike | DTypeLike | Tensor | None = None,
    dtype: DTypeLike | None = None,
    non_blocking: bool = False,
    *,
    memory_format: object = None,
) -> Tensor:
    """a on another device, in another dtype, or both; a itself when it is there already.

    A dtype, or a tensor to be like, may come first. non_blocking and memory_format change
    nothing."""
    moved = check_tensor("to", a)
    if isinstance(device, Tensor):
        device, dtype = device.home, device.dtype if dtype is None else dtype
    elif device is not None and dtype is None and is_dtype(device):
        device, dtype = None, device
    target = None if device is None else device_named(device)  # type: ignore[arg-type]
    if target is not None and target != a.home:
        moved = ToDevice(target)(a)
    return moved if dtype is None else astype(moved, dtype)
