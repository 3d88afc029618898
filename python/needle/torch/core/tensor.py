"""`torch.Tensor`: needle's tensor under PyTorch's meaning.

A value of the same graph, with the same data; operators that take one give one (the native core
sees to it). This file has what a tensor is; its methods are in `methods.py`, by table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _native
from ...autograd import Tensor as EngineTensor, TensorTuple
from ...autograd.tensor import _own_attributes
from ...dtype import DType
from ...ndarray import functions as F
from ...ndarray.array import NDArray, from_numpy
from . import dtypes
from .device import CPU, Size, device
from .dtypes import dtype, dtype_in_engine, face_dtype

if TYPE_CHECKING:
    from ...types import NumpyArray, Scalar

make_node = _native.make_node
_NODE: Any = _native.NodeBase
_shape_in_engine = _NODE.shape.__get__


class Tensor(EngineTensor):
    """A tensor with PyTorch's meaning."""

    _keeps_grad = False

    def __init__(self, *data: Any, device: object = None, requires_grad: bool = False):
        """`Tensor(2, 3)` has this shape, `Tensor([1, 2])` this data, in the default dtype."""
        from ..functions.creation import typed

        self._init(None, [], typed(dtypes.default_in_engine(), data, device), requires_grad)

    # Facts --------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The sizes of all axes."""
        return Size(_shape_in_engine(self))

    @property
    def dtype(self) -> dtype:
        """The type of the elements."""
        return face_dtype(dtype_in_engine(self))

    @property
    def device(self) -> device:
        """Where the data is."""
        return CPU

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        """Was it made by the user, or does it need no gradient?"""
        return self.op is None or not self.requires_grad

    @property
    def grad_fn(self) -> object:
        """What computed it, if it needs a gradient."""
        from ..autograd.nodes import node_of

        return node_of(self) if self.op is not None and self.requires_grad else None

    # Data ---------------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same elements without history; assigning replaces the memory."""
        return wrap(self.realize_cached_data())

    @data.setter
    def data(self, value: EngineTensor) -> None:
        from ...autograd.writing import replace_data

        replace_data((self,), (value.realize_cached_data(),))

    def detach(self) -> Tensor:
        """The same memory without history."""
        return wrap(self.realize_cached_data())

    def numpy(self, *, force: bool = False) -> NumpyArray:
        """The elements as NumPy's array, in the same memory."""
        if self.requires_grad and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        data = self.realize_cached_data()
        if data.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(data.__array__(None, False))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NumpyArray:
        array: Any = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)  # type: ignore[no-any-return]

    def item(self) -> Any:
        """The only element as Python's number."""
        data = self.realize_cached_data()
        if data.size != 1:
            raise RuntimeError(f"a Tensor with {data.size} elements cannot be converted to Scalar")
        return data.numpy().item()

    def tolist(self) -> Any:
        """The elements in nested lists."""
        return self.realize_cached_data().numpy().tolist()

    # Python's questions -------------------------------------------------------------------------

    def __bool__(self) -> bool:
        size = self.cached_data.size
        if size == 1:
            return bool(self.item())
        word = "no values" if size == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {word} is ambiguous")

    def __len__(self) -> int:
        shape = _shape_in_engine(self)
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return int(shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not _shape_in_engine(self):
            raise TypeError("iteration over a 0-d tensor")
        each: list[Any] = [self[i] for i in range(len(self))]
        return iter(each)

    def __index__(self) -> int:
        if self.cached_data.size != 1 or dtype_in_engine(self).is_floating:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value: object) -> bool:
        same: Any = self == value
        return bool(same.any().item())

    def __hash__(self) -> int:
        return id(self)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if not _shape_in_engine(self) and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)})

    # Copies -------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[return-value]
        from copy import deepcopy

        copied = make_node(
            type(self), None, [], F.copy(self.realize_cached_data()), self.requires_grad
        )
        memo[id(self)] = copied
        if self.grad is not None:
            copied.grad = deepcopy(self.grad, memo)
        copied.__dict__.update(deepcopy(_own_attributes(self), memo))
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        data = self.realize_cached_data()
        array = data.numpy() if data.dtype != "bfloat16" else F.cast(data, "float32").numpy()
        fields = (type(self), array, str.__str__(data.dtype), self.requires_grad)
        return rebuild, (*fields, _own_attributes(self))

    # Reverse mode -------------------------------------------------------------------------------

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether a gradient is wanted of this leaf."""
        if requires_grad and not dtype_in_engine(self).is_floating:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        self.requires_grad = requires_grad
        return self

    def backward(  # type: ignore[override]
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Add the gradient of this value to `.grad` of the leaves that it depends on."""
        from ..autograd.reverse import backward

        backward(self, gradient, retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Let backward set `.grad` of this value, which is no leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            self._keeps_grad = True

    @property
    def retains_grad(self) -> bool:
        """Does backward set `.grad` of this value, which is no leaf?"""
        return self._keeps_grad


def rebuild(
    cls: type[Tensor],
    array: NumpyArray,
    kind: str,
    requires_grad: bool,
    attributes: dict[str, object],
) -> Tensor:
    """A tensor that was pickled."""
    data = from_numpy(array, DType_of(kind), CPU_HOME())
    value: Tensor = make_node(cls, None, [], data, requires_grad)
    value.__dict__.update(attributes)
    return value


def DType_of(name: str) -> DType:
    """Needle's dtype of this name."""
    return dtypes.ENGINE[name]


def CPU_HOME() -> Any:
    """Where the engine makes tensors."""
    from ...backend import cpu

    return cpu()


def wrap(data: NDArray | Any, requires_grad: bool = False) -> Tensor:
    """A leaf around data."""
    return make_node(Tensor, None, [], data, requires_grad)


class TensorTupleFace(TensorTuple):
    """A tuple of such tensors, as a value of the graph."""

    _face = Tensor


Tensor._face = Tensor
_native.set_face(0, EngineTensor, Tensor)
_native.set_face(1, TensorTuple, TensorTupleFace)


class Parameter(Tensor):
    """A tensor that a module owns and an optimizer changes."""

    def __init__(self, data: EngineTensor | None = None, requires_grad: bool = True):
        if data is None:
            data = wrap(F.full((0,), 0, dtypes.default_in_engine(), CPU_HOME()))
        if requires_grad and not dtype_in_engine(data).is_floating:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        self._init(None, [], data.realize_cached_data(), requires_grad)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return "Parameter containing:\n" + tensor_text(self)

    __str__ = __repr__


def number_or_none(x: object) -> Scalar | None:
    """x as a number of Python's; None for what is none."""
    if isinstance(x, (int, float)):
        return x
    return x.item() if isinstance(x, np.generic) else None


Method = Callable[..., Any]
