"""New tensors: constants, ranges, random numbers, and tensors around existing data.

Sizes are given one by one, `zeros(2, 3)`, or as a tuple, `zeros((2, 3))`, which may be called
`size`. Nothing here requires a gradient unless it is asked to.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import numpy as np

from .. import config
from ..autograd import Tensor
from ..backend import BackendDevice, default_device, device_named
from ..dtype import DType, dtype_of, float32, int64
from ..ndarray import creation, functions as F, layout, random
from ..ndarray.array import NDArray, Scalar, as_scalar, from_numpy as copy_from_numpy
from ..ndarray.index import gather as select
from ..ndarray.interop import asarray as array_data, exchange
from ..ndarray.layout import Shape
from ..ops.common import Creation, check_tensor, either, flag, numpy_options, whole_number
from ..ops.shape.movement import is_dtype

if TYPE_CHECKING:
    from ..types import DTypeLike, NumpyArray, ShapeLike, TensorLike

__all__ = [
    "full", "ones", "zeros", "empty", "full_like", "ones_like", "zeros_like",
    "empty_like", "arange", "linspace", "eye", "one_hot", "rand", "randn", "randb", "randint",
    "randperm", "rand_like", "randn_like", "tensor", "asarray", "as_tensor", "from_numpy",
    "from_dlpack",
]  # fmt: skip

Device = BackendDevice | str | None


def _shape(
    sizes: tuple[ShapeLike, ...],
    op: str,
    size: ShapeLike | None = None,
    numpy: Creation | None = None,
) -> Shape:
    """(2, 3), ((2, 3),) and size=(2, 3) -> (2, 3); NumPy's keywords must ask for nothing."""
    if numpy:
        numpy_options(op, numpy, order="C")
    if sizes and not isinstance(sizes[-1], (int, tuple, list)) and is_dtype(sizes[-1]):
        raise TypeError(f"[{op}] expected sizes, got {sizes[-1]!r:.60}; use dtype=.")
    if size is not None and sizes:
        raise TypeError(f"[{op}] expected sizes once, got {sizes} and size={size}.")
    given = size if size is not None else sizes[0] if len(sizes) == 1 else sizes
    return layout.check_sizes(layout.normalize_shape(given, op), op)


def _number(op: str, value: object) -> Scalar:
    """A number, which may come in a tensor of one element."""
    return as_scalar(value.item() if isinstance(value, Tensor) else value, op)


def _device(device: Device) -> BackendDevice:
    return default_device() if device is None else device_named(device)


# Constants --------------------------------------------------------------------------------------


def full(
    shape: ShapeLike,
    fill_value: Scalar,
    dtype: DTypeLike = "float32",
    *,
    device: Device = None,
    requires_grad: bool = False,
    **numpy: Unpack[Creation],
) -> Tensor:
    """Every element is fill_value."""
    kind = dtype_of(dtype)
    value = as_scalar(fill_value, "full")
    if kind.kind != "f":
        if not math.isfinite(value):
            raise ValueError(f"[full] {value} does not fit into {kind}.")
        value = bool(value) if kind == "bool" else int(value)
        F.check_fits("full", kind, value)
    return Tensor.make_const(
        F.full(_shape((shape,), "full", None, numpy), value, kind, _device(device)), requires_grad
    )


def constant(
    *shape: ShapeLike,
    c: Scalar = 1.0,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Every element is c."""
    sizes = _shape(shape, "constant")
    return full(sizes, c, device=device, dtype=dtype, requires_grad=requires_grad)


def ones(
    *shape: ShapeLike,
    size: ShapeLike | None = None,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    **numpy: Unpack[Creation],
) -> Tensor:
    """Every element is 1."""
    data = F.full(_shape(shape, "ones", size, numpy), 1, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def zeros(
    *shape: ShapeLike,
    size: ShapeLike | None = None,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    **numpy: Unpack[Creation],
) -> Tensor:
    """Every element is 0."""
    data = F.full(_shape(shape, "zeros", size, numpy), 0, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def empty(
    *shape: ShapeLike,
    size: ShapeLike | None = None,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    **numpy: Unpack[Creation],
) -> Tensor:
    """Memory whose elements are not set."""
    data = creation.empty(_shape(shape, "empty", size, numpy), dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


class Drawn(TypedDict, total=False):
    """Options of random tensors."""

    device: Device
    dtype: DTypeLike
    requires_grad: bool
    generator: random.RandomSource | None


class Like(TypedDict, total=False):
    """What may differ from the tensor that a new one is like. The others have NumPy's defaults."""

    shape: ShapeLike | None
    device: Device
    requires_grad: bool
    order: Literal["K"]
    subok: Literal[True]


def _like(op: str, a: Tensor, dtype: DTypeLike | None, options: Like) -> dict[str, Any]:
    """The size, dtype and device of a, where no others are given."""
    given = numpy_options(op, options, "shape", "device", "requires_grad") if options else {}
    shape, device = given.pop("shape", None), given.pop("device", None)
    size = check_tensor(op, a).shape if shape is None else _shape((shape,), op)
    return {"size": size, "dtype": dtype or a.dtype, "device": device or a.device, **given}


def full_like(
    a: Tensor, fill_value: Scalar, dtype: DTypeLike | None = None, **options: Unpack[Like]
) -> Tensor:
    """fill_value in the shape, dtype and device of a, or others."""
    made = _like("full_like", a, dtype, options)
    return full(made.pop("size"), fill_value, **made)


def ones_like(a: Tensor, dtype: DTypeLike | None = None, **options: Unpack[Like]) -> Tensor:
    """Ones in the shape, dtype and device of a, or others."""
    return ones(**_like("ones_like", a, dtype, options))


def zeros_like(a: Tensor, dtype: DTypeLike | None = None, **options: Unpack[Like]) -> Tensor:
    """Zeros in the shape, dtype and device of a, or others."""
    return zeros(**_like("zeros_like", a, dtype, options))


def empty_like(a: Tensor, dtype: DTypeLike | None = None, **options: Unpack[Like]) -> Tensor:
    """Memory in the shape, dtype and device of a, or others, whose elements are not set."""
    return empty(**_like("empty_like", a, dtype, options))


# Patterns ---------------------------------------------------------------------------------------


def arange(
    start: Scalar,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    device: Device = None,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    like: None = None,
) -> Tensor:
    """start, start + step, ... below stop; `arange(n)` counts from 0. Integers give int64."""
    numpy_options("arange", {"like": like})
    first, last = (0, start) if stop is None else (start, stop)
    first, last, step = [_number("arange", value) for value in (first, last, step)]
    if step == 0:
        raise ValueError("[arange] expected a step other than 0.")
    try:
        values = np.arange(first, last, step)
    except (ValueError, OverflowError) as error:  # NaN, or too many
        raise ValueError(f"[arange] from {first} to {last} by {step}: {error}.") from None
    kind = _natural(values[:0], exact=False) if dtype is None else dtype_of(dtype)
    if kind.is_integer and values.dtype != kind.storage:
        for end in values[:: max(values.size - 1, 1)].tolist():  # the rest lies between
            F.check_fits("arange", kind, end)
    return _from_host(values, kind, device, requires_grad)


def linspace(
    start: float,
    stop: float,
    num: int | None = None,
    endpoint: bool = True,
    retstep: bool = False,
    *,
    steps: int | None = None,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    axis: Literal[0] = 0,
) -> Any:
    """num (or steps, 50 if not given) evenly spaced numbers from start to stop; without stop itself
    if endpoint is False. With retstep, also the distance between two. Integers are rounded down."""
    count = whole_number("linspace", "num", either("linspace", 50, num=num, steps=steps))
    if count < 0:
        raise ValueError(f"[linspace] expected num >= 0, got {count}.")
    if axis != 0:
        raise TypeError(f"[linspace] axis={axis!r:.60} is not supported: start is a number.")
    first, last = (_number("linspace", value) for value in (start, stop))
    closed = flag("linspace", "endpoint", endpoint)
    values, step = np.linspace(first, last, count, endpoint=closed, retstep=True)
    kind = dtype_of(dtype)
    values = np.floor(values) if kind.is_integer else values
    made = _from_host(values, kind, device, requires_grad)
    return (made, float(step)) if flag("linspace", "retstep", retstep) else made


def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: DTypeLike = "float32",
    *,
    device: Device = None,
    requires_grad: bool = False,
    M: int | None = None,
    **numpy: Unpack[Creation],
) -> Tensor:
    """An (n, m) matrix with ones on the k-th diagonal; M is NumPy's name of m."""
    rows, columns = _shape((n, either("eye", n, m=m, M=M)), "eye", None, numpy)
    offset = whole_number("eye", "k", k)
    return _from_host(np.eye(rows, columns, offset), dtype_of(dtype), device, requires_grad)


def one_hot(
    n: int,
    i: TensorLike,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """1 at position i and 0 elsewhere: shape i.shape + (n,). Floats must be whole."""
    if not isinstance(n, (int, np.integer)):
        raise TypeError(
            f"[one_hot] expected the number of classes first, got {type(n).__name__}; "
            "use one_hot(n, i)."
        )
    index = i if isinstance(i, Tensor) else tensor(i, device=device)
    data = _moved(index.realize_cached_data(), device)
    return Tensor.make_const(select.one_hot(data, n, dtype_of(dtype)), requires_grad)


# Random -----------------------------------------------------------------------------------------


def _source(generator: random.RandomSource | None) -> random.RandomSource:
    if generator is None:
        return random.default_generator()
    if not hasattr(generator, "uniform"):
        got = type(generator).__name__
        raise TypeError(f"[random] expected a needle.Generator as generator, got {got}.")
    return generator


def rand(
    *shape: ShapeLike,
    size: ShapeLike | None = None,
    low: float = 0.0,
    high: float = 1.0,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    generator: random.RandomSource | None = None,
) -> Tensor:
    """Evenly distributed numbers in [low, high)."""
    sizes = _shape(shape, "rand", size)
    data = _source(generator).uniform(sizes, low, high, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def randn(
    *shape: ShapeLike,
    size: ShapeLike | None = None,
    mean: float = 0.0,
    std: float = 1.0,
    device: Device = None,
    dtype: DTypeLike = "float32",
    requires_grad: bool = False,
    generator: random.RandomSource | None = None,
) -> Tensor:
    """Normally distributed numbers."""
    sizes = _shape(shape, "randn", size)
    data = _source(generator).normal(sizes, mean, std, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def randb(
    *shape: ShapeLike,
    p: float = 0.5,
    device: Device = None,
    dtype: DTypeLike = "bool",
    requires_grad: bool = False,
    generator: random.RandomSource | None = None,
) -> Tensor:
    """True with probability p."""
    sizes = _shape(shape, "randb")
    data = _source(generator).bernoulli(sizes, p, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def randint(
    low: int,
    high: ShapeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    size: ShapeLike | None = None,
    device: Device = None,
    dtype: DTypeLike = "int64",
    requires_grad: bool = False,
    generator: random.RandomSource | None = None,
) -> Tensor:
    """Whole numbers in [low, high); randint(high, shape) starts at 0. size is the shape, too."""
    given = [x for x in (low, high, shape, size) if x is not None]
    if not 2 <= len(given) <= 3:
        raise TypeError(f"[randint] expected (high, shape) or (low, high, shape), got {given}.")
    first, last, sides = given if len(given) == 3 else (0, *given)
    low, high = (whole_number("randint", "a bound", cast(int, n)) for n in (first, last))
    if low >= high:
        raise ValueError(f"[randint] expected low < high, got {low} and {high}.")
    sizes = _shape((sides,), "randint")
    kind = dtype_of(dtype)
    if not kind.is_floating and kind != "bool":
        F.check_fits("randint", kind, low)
        F.check_fits("randint", kind, high - 1)
    data = _source(generator).integers(low, high, sizes, dtype, _device(device))
    return Tensor.make_const(data, requires_grad)


def randperm(
    n: int, *, device: Device = None, generator: random.RandomSource | None = None
) -> Tensor:
    """0 .. n-1 in random order, int64."""
    (count,) = _shape((n,), "randperm")
    return Tensor.make_const(_source(generator).permutation(count, _device(device)), False)


def rand_like(a: Tensor, **options: Unpack[Drawn]) -> Tensor:
    """`rand` in the shape, dtype and device of a."""
    x = check_tensor("rand_like", a)
    given: Drawn = {"dtype": x.dtype, "device": x.device, **options}
    return rand(*x.shape, **given)


def randn_like(a: Tensor, **options: Unpack[Drawn]) -> Tensor:
    """`randn` in the shape, dtype and device of a."""
    x = check_tensor("randn_like", a)
    given: Drawn = {"dtype": x.dtype, "device": x.device, **options}
    return randn(*x.shape, **given)


# Around existing data ---------------------------------------------------------------------------


def tensor(
    data: TensorLike,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A copy of data as a tensor. Arrays keep their dtype; Python floats become float32.

    >>> tensor([1, 2]).dtype, tensor([1.0, 2.0]).dtype, tensor(np.ones(2)).dtype
    (needle.int64, needle.float32, needle.float64)
    """
    if isinstance(data, Tensor):
        data = data.realize_cached_data()
    if isinstance(data, NDArray):
        moved = _moved(data, device)
        changed = F.cast(moved, moved.dtype if dtype is None else dtype)
        made = Tensor.make_const(F.copy(data) if changed is data else changed, False)
        return made.requires_grad_(requires_grad)
    exact = hasattr(data, "dtype")  # an array or a NumPy number, not Python's
    values = array_data.numbers("tensor", data, dtype)
    kind = _natural(values, exact) if dtype is None else dtype_of(dtype)
    return _from_host(values, kind, device, False).requires_grad_(requires_grad)


def asarray(
    data: TensorLike, dtype: DTypeLike | None = None, device: Device = None, *,
    copy: bool | None = None, **numpy: Unpack[Creation],
) -> Tensor:  # fmt: skip
    """data as a tensor: itself when nothing has to change and copy is not True, else
    `tensor(data, ...)`, which is an error if copy is False."""
    numpy_options("asarray", numpy, order=None)
    if isinstance(data, Tensor) and not copy:
        same_type = dtype is None or data.dtype == dtype_of(dtype)
        if same_type and (device is None or data.device == device_named(device)):
            return data
    if copy is not None and not flag("asarray", "copy", copy):
        raise ValueError("[asarray] copy=False needs a copy; from_numpy shares an array's memory.")
    return tensor(data, dtype, device)


as_tensor = asarray


def from_numpy(array: NumpyArray, requires_grad: bool = False) -> Tensor:
    """A tensor that shares the memory of a NumPy array: writes are seen on both sides."""
    return Tensor.make_const(exchange.from_numpy(array), requires_grad)


def from_dlpack(
    source: object, requires_grad: bool = False, *, device: Device = None, copy: bool | None = None
) -> Tensor:
    """A tensor that shares the memory of another library's array; with copy=True or on another
    device a copy, which is an error if copy is False."""
    data = cast(NDArray, exchange.from_dlpack(source))
    moved = _moved(data, device)
    is_copy = copy is not None and flag("from_dlpack", "copy", copy)
    if moved is data:
        return Tensor.make_const(F.copy(data) if is_copy else data, requires_grad)
    if copy is not None and not is_copy:
        raise ValueError(f"[from_dlpack] copy=False needs a copy: the memory is on {data.device}.")
    return Tensor.make_const(moved, requires_grad)


def _natural(values: NumpyArray, exact: bool) -> DType:
    """The dtype that data asks for: float64 only when an array says so."""
    if values.dtype.kind == "f" and not exact:
        return float32
    if values.dtype.kind in "iuO" and not exact:
        array_data.check_values("tensor", values, int64)
        return int64
    return dtype_of(values.dtype)


def _from_host(values: NumpyArray, kind: DType, device: Device, requires_grad: bool) -> Tensor:
    if config.BACKEND == "np":
        return Tensor.make_const(
            np.array(values, dtype=array_data.numpy_dtype(kind)), requires_grad
        )
    return Tensor.make_const(copy_from_numpy(values, kind, _device(device)), requires_grad)


def _moved(data: NDArray, device: Device) -> NDArray:
    if device is None or not isinstance(data, NDArray):
        return data
    return data.to(device_named(device))
