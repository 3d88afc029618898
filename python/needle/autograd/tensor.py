"""The computational graph: values, the operators that made them, and gradients of both.

A `Value` is data plus how it was made: `op` and `inputs` (None and [] for a leaf). An `Op` computes
on raw arrays and differentiates by building new values, so gradients have gradients. This file
knows no operator: Tensor gets its arithmetic from
`ops/tensor_table.py`. The walks are in `graph.py`, what `backward` does with them in `backward.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from .. import _native, autograd, config
from ..backend import BackendDevice, default_device, device_named
from ..dtype import dtype_of
from ..facts import changed
from ..ndarray import abstract, functions
from ..ndarray.array import NDArray
from ..ndarray.interop import asarray, numpy_mode
from ..ndarray.interop.numpy_calls import call_numpy, check_graph
from ..ndarray.layout import Size
from .backward import compute_gradient_of_variables
from .grad_mode import is_grad_enabled
from .graph import HookHandle, find_topo_sort, observers
from .op import Op
from .writing import pending, replace_data

if TYPE_CHECKING:
    from ..tensor_methods import TensorMethods
    from ..types import DTypeLike, NumpyArray, TensorLike
else:
    TensorMethods = object  # ops/tensor_table.py installs them

__all__ = [
    "TensorOp", "TensorTupleOp", "Value", "TensorTuple", "Tensor",
]  # fmt: skip

_make_node = _native.make_node


class TensorOp(Op):
    """An operator whose result is one Tensor."""

    def __call__(self, *inputs: Any) -> Tensor:
        return Tensor.make_from_op(self, inputs)


class TensorTupleOp(Op):
    """An operator whose result is a TensorTuple."""

    def __call__(self, *inputs: Any) -> TensorTuple:
        return TensorTuple.make_from_op(self, inputs)


class Value(_native.NodeBase):
    """A node of the graph."""

    __slots__ = ("__dict__", "__weakref__")

    op: Op | None
    inputs: Sequence[Tensor]  # or TensorTuples, where the operator takes them
    cached_data: Any
    requires_grad: bool
    grad: Any
    num_outputs = 1
    _abstract: Any = None  # stands for the data in lazy mode: shape and dtype, no elements
    _hooks: dict[object, Callable[[Any], Any]] | None = None
    _adds_up = False  # does a backward pass add to grad?

    @classmethod
    def make_const(cls, data: object, requires_grad: bool = False) -> Self:
        """A leaf around raw data."""
        return _make_node(cls, None, [], data, requires_grad)

    @classmethod
    def make_from_op(cls, op: Op, inputs: Sequence[Value]) -> Self:
        """The value of op(*inputs): computed now, or when it is needed in lazy mode."""
        if autograd.LAZY_MODE:
            return cls._postpone(op, inputs)
        value = _native.apply(cls, op, inputs)
        if observers:
            _notify(op, inputs, value)
        return value

    @classmethod
    def _postpone(cls, op: Op, inputs: Sequence[Value]) -> Self:
        """A value of lazy mode: it knows how it is made, and has no data yet."""
        _check_inputs(op, inputs)
        tracked = any(x.requires_grad for x in inputs) and op.differentiable and is_grad_enabled()
        value = _make_node(cls, op, inputs, None, tracked)
        pending.add(value)
        if observers:
            _notify(op, inputs, value)
        return value

    def is_leaf(self) -> bool:
        """Was this value given, not computed?"""
        return self.op is None

    def realize_cached_data(self) -> Any:
        """The raw data, computed once and kept."""
        if self.cached_data is None:
            for node in find_topo_sort([self], until=_is_realized):
                if node.cached_data is None:
                    assert node.op is not None
                    arrays = [x.realize_cached_data() for x in node.inputs]
                    node.cached_data = node.op.compute(*arrays)
                    if observers:
                        _notify(node.op, node.inputs, node)
        return self.cached_data

    def _shape_data(self) -> Any:
        """Something with the data's shape and dtype, without computing the data (lazy mode)."""
        if self.cached_data is not None:
            return self.cached_data
        if self._abstract is None:
            for node in find_topo_sort([self], until=_has_shape):
                if not _has_shape(node):
                    _infer(node)
        return self.cached_data if self._abstract is None else self._abstract

    def complete(self) -> Value:
        """This value; an adjoint that left out zeros puts them in."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Copies and pickles are leaves: the data, not its history."""
        data, attributes = self.realize_cached_data(), _own_attributes(self)
        return _restore, (type(self), data, self.requires_grad, attributes)


def _restore(
    cls: type[Value], data: TensorLike, requires_grad: bool, attributes: dict[str, object]
) -> Value:
    value = cls.make_const(data, requires_grad)
    value.__dict__.update(attributes)
    return value


_NOT_COPIED = ("_hooks", "_abstract")


def _own_attributes(value: Value) -> dict[str, object]:
    """What the user set on the value: it goes with copies, hooks and shapes do not."""
    return {k: v for k, v in value.__dict__.items() if k not in _NOT_COPIED}


def _check_inputs(op: Op, inputs: Sequence[object]) -> None:
    for i, x in enumerate(inputs):
        if not isinstance(x, Value):
            raise TypeError(
                f"[{type(op).__name__}] expected Tensors, got {type(x).__name__} as input {i}; "
                "wrap it with needle.Tensor(...)."
            ) from None


def _notify(op: Op, inputs: Sequence[Value], value: Value) -> None:
    for observer in tuple(observers):
        if value.cached_data is None:
            observer.recorded(value)
        else:
            observer.computed(op, inputs, value)


def _is_realized(node: Value) -> bool:
    return node.cached_data is not None


def _has_shape(node: Value) -> bool:
    return node.cached_data is not None or node._abstract is not None


def _infer(node: Value) -> None:
    """Shape and dtype by running `compute` on arrays without elements, else by computing."""
    assert node.op is not None
    stand_ins = [abstract.of(x._shape_data()) for x in node.inputs]
    try:
        node._abstract = node.op.compute(*stand_ins)
    except abstract.NeedsData:
        node.realize_cached_data()


def _is_recorded(x: object) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and is_grad_enabled()


class TensorTuple(Value):
    """A value whose data is a tuple: what `split` gives."""

    _face: ClassVar[type[Tensor]]  # the class of its elements

    def __len__(self) -> int:
        return len(self._shape_data())

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensor | tuple[Tensor, ...]:
        raise TypeError("[TensorTuple] indexing is installed by needle.ops.")

    def tuple(self) -> tuple[Tensor, ...]:
        """The elements as a Python tuple of tensors."""
        raise TypeError("[TensorTuple] taking it apart is installed by needle.ops.")

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tuple())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"needle.TensorTuple{self.tuple()!r}"

    def __str__(self) -> str:
        return self.__repr__()

    def detach(self) -> TensorTuple:
        """The same data without its history."""
        return TensorTuple.make_const(self.realize_cached_data())


class Tensor(Value, TensorMethods):
    """An array in the computational graph.

    Data becomes float32 unless `dtype` says otherwise or it is an NDArray or Tensor already (with
    NEEDLE_BACKEND=np, NumPy's own dtype is kept). `needle.tensor` keeps integers and float64.
    """

    __array_priority__ = 2000
    _face: ClassVar[type[Tensor]]  # the class of results of operators on it

    def __init__(
        self,
        array: TensorLike,
        *,
        device: BackendDevice | str | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool = True,
        **kwargs: object,
    ):
        if kwargs:
            raise TypeError(f"[Tensor] unknown arguments {sorted(kwargs)}.")
        self._init(None, [], None, requires_grad)
        place = None if device is None else device_named(device)
        source = array.realize_cached_data() if isinstance(array, Tensor) else array
        self.cached_data = asarray.as_array_data(source, place, dtype, share=source is not array)

    # Facts ----------------------------------------------------------------------------------

    shape = _native.NodeBase.shape  # of the data, or of what stands for it in lazy mode
    dtype = _native.NodeBase.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements; `x.size()` is the shape, `x.size(i)` one of its sizes."""
        return Size.of(self.shape)

    @property
    def device(self) -> BackendDevice:
        """Where the data is; `x.to(device)` moves it."""
        if config.BACKEND == "np":
            return default_device()
        if self.cached_data is None:  # the stand-in's device has the real one's name
            return device_named(self._shape_data().device.name)
        device: BackendDevice = self.cached_data.device
        return device

    home = device  # the same for operators: a face may have devices of its own

    # Data -----------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The tensor without its history; assigning replaces the buffer, of any shape."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor) or value.dtype != self.dtype:
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise AssertionError(f"[data] expected a Tensor of dtype {self.dtype}, got {got}.")
        replace_data((self,), (value.realize_cached_data(),))

    def detach(self) -> Tensor:
        """The same data without its history and without a gradient."""
        return Tensor.make_const(self.realize_cached_data())

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether gradients are wanted for this leaf; returns the tensor."""
        if self.op is not None and not requires_grad:
            raise ValueError(
                f"[requires_grad_] expected a leaf, got a result of {type(self.op).__name__}; "
                "use .detach()."
            )
        if requires_grad and config.BACKEND == "nd" and not dtype_of(self.dtype).is_floating:
            raise TypeError(
                f"[requires_grad_] expected a floating dtype, got {self.dtype}, in which gradients "
                "would be cut to whole numbers; cast it first."
            )
        self.requires_grad = requires_grad
        return self

    def numpy(self) -> NumpyArray:
        """A NumPy copy; bfloat16 widens to float32, since NumPy has no such type."""
        data = self.realize_cached_data()
        if isinstance(data, NDArray):
            return data.numpy()
        return np.array(data)

    def item(self) -> Any:
        """The only element as a Python number."""
        array = self.numpy()
        if array.size != 1:
            raise ValueError(f"[item] expected one element, got shape {self.shape}.")
        return array.item()

    def tolist(self) -> Any:
        """Nested Python lists of the elements."""
        return self.numpy().tolist()

    def __repr__(self) -> str:
        return f"needle.Tensor({self.numpy()!s})"

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        """One number takes a format, as in f"{loss:.3f}"."""
        return format(self.item(), spec) if spec and not self.shape else super().__format__(spec)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("[len] a 0-d tensor has no length; use .item() for its value.")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Is the only element true? With NEEDLE_BACKEND=np, where course code expects it, every
        tensor of numbers is true (`if out_grad:`)."""
        if config.BACKEND == "np" and self.dtype != "bool":
            return True
        if self.size != 1:
            raise ValueError(
                f"[bool] the truth of a tensor of shape {self.shape} is ambiguous; "
                "use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.shape or not dtype_of(self.dtype).is_integer:
            raise TypeError(
                f"[index] expected a 0-d integer tensor, got {self.dtype} of shape {self.shape}."
            )
        return int(self.item())

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        data = functions.copy(self.realize_cached_data())
        copied = type(self).make_const(data, self.requires_grad)
        memo[id(self)] = copied  # first: what the user set on the tensor may lead back to it
        copied.__dict__.update(deepcopy(_own_attributes(self), memo))
        return copied

    # Exchange -------------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NumpyArray:
        data = self.realize_cached_data()
        if isinstance(data, NDArray):
            return data.__array__(dtype, copy)
        return np.asarray(data, dtype) if copy is False else np.array(data, dtype)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        lists = (list, tuple, TensorTuple)
        return call_numpy(Tensor, function, args, kwargs, lists, _is_recorded)

    def __array_wrap__(
        self, array: NumpyArray, context: Any = None, return_scalar: bool = False
    ) -> NumpyArray:
        """The result of a ufunc, `np.exp(x)`: it stays NumPy's."""
        name, operands = (context[0].__name__, context[1]) if context else ("numpy", (self,))
        check_graph(name, any(map(_is_recorded, operands)), array)
        return array if array.ndim else array[()]

    def _export_buffer(self) -> NDArray:
        data = self.realize_cached_data()
        return (data if isinstance(data, NDArray) else numpy_mode.wrap(data))._export_buffer()

    def __dlpack__(self, **options: Any) -> Any:
        return self.realize_cached_data().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.realize_cached_data().__dlpack_device__()
        return device

    # Reverse mode ---------------------------------------------------------------------------

    def backward(
        self,
        out_grad: Tensor | None = None,
        *,
        accumulate: bool = False,
        create_graph: bool = True,
        retain_graph: bool | None = None,
    ) -> None:
        """Set `.grad` of every value that this one depends on.

        out_grad defaults to ones. `.grad` is overwritten, or added to with `accumulate=True` and
        for parameters for which `zero_grad` was called (of an optimizer, or a module). With
        `create_graph=False` the gradients are plain data, and only leaves keep them: less memory,
        no second derivatives. The graph is then freed on the way, unless `retain_graph=True`.
        """
        if not self.requires_grad:
            raise ValueError(
                f"[backward] expected a result of tensors that require gradients, got {self.dtype} "
                f"of shape {self.shape} without a graph: was it computed in no_grad(), detached, "
                "or made from tensors without requires_grad=True?"
            )
        if out_grad is None:
            ones = functions.full(self.shape, 1, self.dtype, self.home)
            out_grad = Tensor.make_const(ones)
        elif not isinstance(out_grad, Tensor):
            raise TypeError(f"[backward] expected a Tensor, got {type(out_grad).__name__}.")
        elif out_grad.shape != self.shape:
            raise ValueError(
                f"[backward] expected out_grad of shape {self.shape}, got {out_grad.shape}."
            )
        compute_gradient_of_variables(
            self,
            out_grad,
            accumulate=accumulate,
            create_graph=create_graph,
            retain_graph=retain_graph,
        )

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call `hook(grad)` in backward; what it returns (if not None) replaces the gradient.

        Returns a handle: called, or by its `remove()`, it takes the hook away.
        """
        if not self.requires_grad:
            raise ValueError("[register_hook] expected a tensor that requires a gradient.")
        if not callable(hook):
            raise TypeError(f"[register_hook] expected a function, got {type(hook).__name__}.")
        hooks = {} if self._hooks is None else self._hooks
        self._hooks = hooks
        key = object()
        hooks[key] = hook
        is_leaf = self.op is None
        if is_leaf:  # compiled functions may use it
            changed()

        def remove() -> None:
            hooks.pop(key, None)
            if is_leaf:
                changed()

        return HookHandle(remove)


Tensor._face = TensorTuple._face = Tensor
