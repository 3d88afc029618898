"""The methods of `torch.Tensor`: its functions of a first tensor, and what only tensors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Tensor as EngineTensor
from ...dtype import DType
from ...ndarray.layout import Size as EngineSize
from ...ops import arithmetic as engine
from ..functions import (
    arithmetic,
    creation,
    indexing,
    joining,
    linear,
    others,
    pointwise,
    reduction,
    shape,
    sorting,
)
from ..functions.common import cast, check, fail, sizes_of
from . import inplace
from .device import Size, device, place
from .dtypes import dtype_in_engine as kind, face_dtype, in_engine
from .tensor import Tensor, wrap

# Functions of a first tensor, which are methods under their own name.
ARITHMETIC = """
add sub mul div subtract multiply divide true_divide floor_divide remainder fmod pow float_power
atan2 arctan2 maximum minimum fmax fmin eq ne not_equal lt less le less_equal gt greater ge
greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
bitwise_not bitwise_left_shift bitwise_right_shift copysign hypot logaddexp logaddexp2 xlogy lerp
addcmul addcdiv gcd lcm nextafter ldexp heaviside
"""
POINTWISE = """
exp exp2 expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin arcsin acos arccos atan arctan sinh
cosh tanh sigmoid erf erfc erfinv lgamma digamma polygamma asinh arcsinh acosh arccosh atanh arctanh
sinc i0 floor ceil trunc fix round frac abs absolute neg negative positive sign sgn signbit square
reciprocal logit deg2rad rad2deg isnan isinf isfinite isposinf isneginf isreal clamp clip clamp_min
clamp_max nan_to_num relu prelu frexp conj resolve_conj resolve_neg conj_physical angle
"""
REDUCTION = """
sum nansum mean nanmean prod var std argmax argmin max min amax amin aminmax any all count_nonzero
logsumexp norm dist median nanmedian quantile nanquantile
"""
SHAPE = """
reshape view flatten ravel unflatten squeeze unsqueeze transpose swapaxes swapdims permute movedim
moveaxis t adjoint expand broadcast_to repeat tile repeat_interleave flip fliplr flipud roll rot90
diagonal diag diag_embed diagflat diagonal_scatter tril triu as_strided contiguous clone narrow
select unfold
"""
JOINING = "split split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind"
INDEXING = """
gather take_along_dim take index_select masked_select masked_fill masked_scatter nonzero argwhere
scatter scatter_add scatter_reduce index_add index_copy index_fill index_put put select_scatter
slice_scatter index_reduce
"""
SORTING = """
sort argsort msort topk kthvalue mode unique unique_consecutive bincount histc histogram cumsum
cumprod logcumsumexp cummax cummin diff
"""
LINEAR = """
matmul mm bmm mv dot vdot inner outer ger addmm addmv addr baddbmm addbmm matrix_power trace kron
cross cov corrcoef
"""
BY_FILE: tuple[tuple[Any, str], ...] = (
    (arithmetic, ARITHMETIC), (pointwise, POINTWISE), (reduction, REDUCTION), (shape, SHAPE),
    (joining, JOINING), (indexing, INDEXING), (sorting, SORTING), (linear, LINEAR),
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(file, name) for file, names in BY_FILE for name in names.split()
}


# Facts --------------------------------------------------------------------------------------------


def dim(x: Any) -> int:
    """The number of axes."""
    return len(x.shape)


def numel(x: Any) -> int:
    """The number of elements."""
    return int(x.cached_data.size)


def stride(x: Any, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each axis."""
    strides = tuple(x.cached_data.strides)
    return strides if dim is None else strides[dim]


def storage_offset(x: Any) -> int:
    """The position of the first element in memory."""
    return int(x.cached_data.offset)


def is_contiguous(x: Any, memory_format: object = None) -> bool:
    """Do the elements lie in C order?"""
    return bool(x.cached_data.is_row_major())


def element_size(x: Any) -> int:
    """The bytes of one element."""
    return int(kind(x).itemsize)


def data_ptr(x: Any) -> int:
    """The address of the first element."""
    data = x.realize_cached_data()
    return int(data._handle.ptr() + data.offset * data.dtype.itemsize)


def is_floating_point(x: Any) -> bool:
    """Has it a floating dtype?"""
    return bool(kind(x).is_floating)


def is_complex(x: Any) -> bool:
    """Has it complex numbers? None has."""
    return False


def is_signed(x: Any) -> bool:
    """Has its dtype negative numbers?"""
    return kind(x).kind in "if"


def is_same_size(x: Any, other: Any) -> bool:
    """Have two tensors one shape?"""
    return tuple(x.shape) == tuple(other.shape)


def equal(input: Any, other: Any) -> bool:
    """Are shapes and all elements equal?"""
    if tuple(check("equal", input).shape) != tuple(other.shape):
        return False
    return bool(reduction.all(arithmetic.eq(input.detach(), other.detach())))


def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """|input - other| <= atol + rtol |other|, or equal"""
    if rtol < 0 or atol < 0:
        raise fail("isclose", "rtol and atol must be greater than or equal to zero")
    if kind(input) is not kind(other):
        raise fail("isclose", f"{input.dtype} did not match {other.dtype}")
    same = arithmetic.eq(input, other)
    if equal_nan and is_floating_point(input):
        same = same | (pointwise.isnan(input) & pointwise.isnan(other))
    if rtol == 0 and atol == 0:
        return same
    a, b = (v if is_floating_point(v) else v.to(face_dtype("float64")) for v in (input, other))
    near = (a - b).abs() <= atol + (rtol * b).abs()
    return same | (near & pointwise.isfinite(b))


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Is every element close to the other's?"""
    return bool(reduction.all(isclose(input, other, rtol, atol, equal_nan)))


# Other dtypes and places --------------------------------------------------------------------------


def to(x: Any, *args: Any, **options: Any) -> Any:
    """x in another dtype, on another device, or both; itself if it is there."""
    copy = options.pop("copy", False)
    target = options.get("dtype")
    where: Any = options.get("device")
    for given in args:
        if isinstance(given, EngineTensor):
            target = given.dtype
        elif isinstance(given, DType) or (given in (float, int, bool) and isinstance(given, type)):
            target = given
        elif isinstance(given, (str, device, int)) and not isinstance(given, bool):
            where = given
    if where is not None:
        place(where)
    found = x if target is None else cast(x, in_engine(target))
    return found.clone() if copy and found is x else found


def to_sparse(x: Any, sparse_dim: object = None, *, layout: object = None) -> Any:
    """What is not zero, as a sparse tensor."""
    from ..sparse import coo

    if layout is not None or sparse_dim not in (None, x.ndim):
        raise NotImplementedError("[to_sparse] expected all axes and layout torch.sparse_coo.")
    return coo.to_sparse(x)


def _casting(name: str) -> Callable[..., Any]:
    target = in_engine(name)

    def method(x: Any, memory_format: object = None) -> Any:
        return cast(x, target)

    method.__name__, method.__doc__ = name, f"x as {name}; itself when it is that already."
    return method


CASTS = {
    "half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64",
    "char": "int8", "short": "int16", "int": "int32", "long": "int64", "byte": "uint8",
    "bool": "bool",
}  # fmt: skip


def type_of(x: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """x in another dtype; without one, the name of PyTorch's old class."""
    from .typed import class_of, dtype_of_class

    return class_of(kind(x)) if dtype is None else cast(x, dtype_of_class(dtype))


def type_as(x: Any, other: Any) -> Any:
    """x in another tensor's dtype."""
    return cast(x, kind(other))


def cpu(x: Any, memory_format: object = None) -> Any:
    """x itself: there is only the CPU."""
    return x


def cuda(x: Any, device: object = None, non_blocking: bool = False, **rest: Any) -> Any:
    """x on the GPU: an error, as in PyTorch's build for the CPU."""
    return place("cuda")


def same(x: Any, *args: Any, **options: Any) -> Any:
    """x itself"""
    return x


def no(x: Any, *args: Any, **options: Any) -> bool:
    """No."""
    return False


# New tensors of x's dtype -------------------------------------------------------------------------


def _new(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(x: Any, *size: Any, **options: Any) -> Any:
        if options.get("dtype") is None:
            options["dtype"] = x.dtype
        return function(*size, **options)

    method.__doc__ = f"`{function.__name__}` in x's dtype, unless another is given."
    return method


def new(x: Any, *data: Any, device: object = None) -> Any:
    """Memory of a shape, or data, in x's dtype."""
    return wrap(creation.typed(kind(x), data, device))


# Shapes of others ---------------------------------------------------------------------------------


def view_as(x: Any, other: Any) -> Any:
    """x in another tensor's shape."""
    return shape.view(x, tuple(other.shape))


def reshape_as(x: Any, other: Any) -> Any:
    """x in another tensor's shape."""
    return shape.reshape(x, tuple(other.shape))


def expand_as(x: Any, other: Any) -> Any:
    """x stretched to another tensor's shape."""
    return shape.expand(x, tuple(other.shape))


def sum_to_size(x: Any, *size: Any) -> Any:
    """x summed over what would be broadcast from this shape."""
    wanted = sizes_of(size)
    extra = x.ndim - len(wanted)
    axes = [
        *range(extra),
        *(i + extra for i, n in enumerate(wanted) if n == 1 != x.shape[i + extra]),
    ]
    return shape.reshape(reduction.sum(x, axes, True) if axes else x, wanted)


def softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """e^x over its sum along an axis"""
    from .normalizing import softmax as function

    return function(x, dim, dtype=dtype)


def log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """ln softmax"""
    from .normalizing import log_softmax as function

    return function(x, dim, dtype=dtype)


class SizeOf(EngineSize):
    """`x.size()`, `x.size(i)`; as a number, which needle's operators ask for, of elements."""

    def __call__(self, dim: int | None = None) -> Any:
        found = Size(self.shape)
        if dim is None:
            return found
        from ..functions.common import axis_of

        if not found:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return found[axis_of("size", dim, len(found))]


def size_of(x: Any) -> SizeOf:
    """The shape, when called."""
    return SizeOf.of(tuple(x.shape))  # type: ignore[return-value]


def register_hook(x: Any, hook: Callable[[Any], Any]) -> Any:
    """Call hook(grad) in backward; what it returns, if not None, replaces the gradient."""
    if not x.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return EngineTensor.register_hook(x, hook)


def register_post_accumulate_grad_hook(x: Any, hook: Callable[[Any], None]) -> Any:
    """Call hook(x) after a backward pass added to x's gradient."""
    from ...autograd.graph import HookHandle

    hooks = vars(x).setdefault("_after_accumulating", {})
    key = object()
    hooks[key] = hook
    return HookHandle(lambda: hooks.pop(key, None))


def reversed_binary(function: Callable[..., Any]) -> Callable[..., Any]:
    """function(other, self)"""

    def method(x: Any, other: Any) -> Any:
        if not isinstance(other, (int, float, EngineTensor)) and not hasattr(other, "dtype"):
            return NotImplemented
        if (
            hasattr(other, "__array__")
            and not isinstance(other, EngineTensor)
            and bool(getattr(other, "ndim", False))
        ):
            other = creation.tensor(other)
        return function(other, x)

    return method


def dunder(function: Callable[..., Any], op: Any = None) -> Callable[..., Any]:
    """function(self, other); arrays of NumPy's are tensors. op, if there is one, is the operator of
    two tensors of one floating dtype."""

    def method(x: Any, other: Any) -> Any:
        if op is not None and isinstance(other, EngineTensor):
            dtype = kind(x)
            if dtype is kind(other) and dtype.kind == "f":
                return op()(x, other)
        if isinstance(other, (EngineTensor, float, int)):
            return function(x, other)
        if hasattr(other, "__array__"):
            return function(
                x, creation.as_tensor(other) if getattr(other, "ndim", 0) else other.item()
            )
        return NotImplemented

    return method


def eq_or_not(x: Any, other: Any) -> Any:
    """x == other, element by element; anything else is not equal."""
    if isinstance(other, (EngineTensor, float, int)):
        return arithmetic.eq(x, other)
    if hasattr(other, "__array__"):
        return arithmetic.eq(x, creation.as_tensor(other))
    return False


def ne_or_not(x: Any, other: Any) -> Any:
    """x != other, element by element; anything else is not equal."""
    if isinstance(other, (EngineTensor, float, int)):
        return arithmetic.ne(x, other)
    if hasattr(other, "__array__"):
        return arithmetic.ne(x, creation.as_tensor(other))
    return True


A = arithmetic
DUNDERS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": dunder(f) for name, f in (
        ("pow", A.pow), ("floordiv", A.floor_divide), ("mod", A.remainder), ("and", A.bitwise_and),
        ("or", A.bitwise_or), ("xor", A.bitwise_xor), ("lshift", A.bitwise_left_shift),
        ("rshift", A.bitwise_right_shift), ("lt", A.lt), ("le", A.le), ("gt", A.gt), ("ge", A.ge),
        ("matmul", linear.matmul),
    )},
    "__add__": dunder(A.add, engine.EWiseAdd), "__sub__": dunder(A.sub, A.Subtract),
    "__mul__": dunder(A.mul, engine.EWiseMul),
    "__truediv__": dunder(A.true_divide, engine.EWiseDiv),
    **{f"__r{name}__": reversed_binary(f) for name, f in (
        ("add", A.add), ("sub", A.sub), ("mul", A.mul), ("truediv", A.true_divide), ("pow", A.pow),
        ("floordiv", A.floor_divide), ("mod", A.remainder), ("and", A.bitwise_and),
        ("or", A.bitwise_or), ("xor", A.bitwise_xor), ("lshift", A.bitwise_left_shift),
        ("rshift", A.bitwise_right_shift), ("matmul", linear.matmul),
    )},
    "__eq__": eq_or_not, "__ne__": ne_or_not, "__neg__": pointwise.neg,
    "__pos__": pointwise.positive, "__abs__": pointwise.abs, "__invert__": A.bitwise_not,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem,
}  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {
    **FUNCTIONS,
    **{f.__name__: f for f in (
        dim, numel, stride, storage_offset, is_contiguous, element_size, data_ptr,
        is_floating_point, is_complex, is_signed, is_same_size, equal, isclose, allclose, to,
        type_as, cpu, cuda, new,
        view_as, reshape_as, expand_as, sum_to_size, softmax, log_softmax, register_hook,
        register_post_accumulate_grad_hook,
    )},
    "ndimension": dim, "nelement": numel, "type": type_of,
    "where": lambda x, condition, other: indexing.where(condition, x, other),
    "new_tensor": _new(creation.tensor), "new_zeros": _new(creation.zeros),
    "new_ones": _new(creation.ones), "new_empty": _new(creation.empty),
    "new_full": _new(creation.full), "new_empty_strided": _new(creation.empty_strided),
    **{name: getattr(others, name) for name in (
        "mvlgamma", "renorm", "igamma", "igammac", "resize_as_", "as_strided_scatter",
        "narrow_copy", "nonzero_static", "unsafe_chunk", "unsafe_split", "is_distributed",
    )},
    "pin_memory": same, "share_memory_": same, "is_pinned": no, "is_shared": no,
    "to_sparse": to_sparse, "to_sparse_coo": to_sparse, "to_dense": same,
    "record_stream": same, "is_inference": no, "is_conj": no, "is_neg": no, "cdist": linear.cdist,
    **{name: _casting(target) for name, target in CASTS.items()},
}  # fmt: skip
PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": shape.reversed_axes, "mT": shape.adjoint, "H": shape.t, "mH": shape.adjoint,
    "size": size_of, "ndim": dim, "itemsize": element_size,
    "nbytes": lambda x: numel(x) * element_size(x), "is_cuda": no, "is_sparse": no, "is_mps": no,
    "is_quantized": no, "is_meta": no, "is_xpu": no, "is_mkldnn": no, "is_cpu": lambda x: True,
    "layout": lambda x: strided(), "output_nr": lambda x: 0, "name": lambda x: None,
    "_version": lambda x: 0, "real": same, "names": lambda x: (None,) * dim(x),
    "is_nested": no,
}  # fmt: skip


def strided() -> Any:
    """The layout of all tensors."""
    from .constants import strided as layout

    return layout


def install() -> None:
    """Give Tensor its methods."""
    from ..random.sampling import METHODS as RANDOM

    given = FUNCTIONS | {"threshold": pointwise.threshold}
    for name, method in {**METHODS, **DUNDERS, **inplace.methods(given), **RANDOM}.items():
        setattr(Tensor, name, method)
    for name, getter in PROPERTIES.items():
        setattr(Tensor, name, property(getter))
    for absent in ("values", "indices"):
        setattr(Tensor, absent, property(_absent(absent)))


def _absent(name: str) -> Callable[[Any], Any]:
    def get(x: Any) -> Any:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    return get
