"""The computational graph: values, the operators that made them, and reverse mode through both.

A `Value` is data plus how it was made: `op` and `inputs` (None and [] for a leaf). An `Op` computes
on raw arrays and differentiates by building new values, so gradients have gradients. This file
knows graphs; it knows no operator. Tensor gets its arithmetic from `ops/operators.py`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from . import _native, config
from .backend import BackendDevice, default_device, device_named
from .dtype import DType, dtype_of, float32
from .ndarray import abstract, functions, mutation
from .ndarray.array import NDArray, from_numpy

LAZY_MODE = False  # True: values compute when their data is asked for
TENSOR_COUNTER = 0  # live values; the course's memory checks read it

_next_stamp = itertools.count(1).__next__  # nodes are numbered in order of creation


class _GradMode(threading.local):
    enabled = True


_grad_mode = _GradMode()


class Observer:
    """Sees every operator's result and gradient (anomaly detection, profiling)."""

    def computed(self, op: Op, inputs: Sequence[Value], result: Value) -> None:
        """After a value was computed in eager mode."""

    def differentiated(self, node: Value, gradients: Sequence[Value | None]) -> None:
        """After node.op.gradient gave the adjoints of node.inputs."""


_observers: list[Observer] = []


class Op:
    """An operator: `compute` on raw arrays, `gradient` on values. Parameters are attributes."""

    differentiable: ClassVar[bool] = True  # False: the result never requires a gradient
    linear: ClassVar[bool] = False  # jointly linear in all inputs: the tangent is op(*tangents)
    elementwise: ClassVar[bool] = False  # output i depends on input element i only

    def __call__(self, *inputs: Any) -> Any:
        raise TypeError(f"[{type(self).__name__}] subclass TensorOp or TensorTupleOp.")

    def compute(self, *arrays: Any) -> Any:
        """The result's array, from the inputs' arrays."""
        raise TypeError(f"[{type(self).__name__}] has no compute.")

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The adjoints of node.inputs, given the adjoint of node; None where there is none."""
        raise TypeError(f"[{type(self).__name__}] has no gradient.")

    def gradient_as_tuple(self, out_grad: Any, node: Any) -> tuple[Any, ...]:
        """`gradient`, always as a tuple."""
        result = self.gradient(out_grad, node)
        if isinstance(result, (tuple, list)):
            return tuple(result)
        return (result,)


class TensorOp(Op):
    """An operator whose result is one Tensor."""

    def __call__(self, *inputs: Any) -> Tensor:
        return Tensor.make_from_op(self, inputs)


class TensorTupleOp(Op):
    """An operator whose result is a TensorTuple."""

    def __call__(self, *inputs: Any) -> TensorTuple:
        return TensorTuple.make_from_op(self, inputs)


class Value(_native.BufferExporter):
    """A node of the graph."""

    __slots__ = (
        "op", "inputs", "cached_data", "requires_grad", "num_outputs",
        "grad", "_stamp", "_abstract", "_hooks", "__dict__", "__weakref__",
    )  # fmt: skip

    op: Op | None
    inputs: Sequence[Value]
    cached_data: Any
    requires_grad: bool
    num_outputs: int
    grad: Any

    def _init(
        self,
        op: Op | None,
        inputs: Sequence[Value],
        cached_data: Any = None,
        requires_grad: bool = False,
        num_outputs: int = 1,
    ) -> None:
        global TENSOR_COUNTER
        TENSOR_COUNTER += 1
        self.op = op
        self.inputs = inputs
        self.cached_data = cached_data
        self.requires_grad = requires_grad
        self.num_outputs = num_outputs
        self.grad = None
        self._stamp = _next_stamp()
        self._abstract = None
        self._hooks = None

    def __del__(self) -> None:
        global TENSOR_COUNTER
        TENSOR_COUNTER -= 1

    @classmethod
    def make_const(cls, data: Any, requires_grad: bool = False) -> Any:
        """A leaf around raw data."""
        value = cls.__new__(cls)
        value._init(None, [], data, requires_grad)
        return value

    @classmethod
    def make_from_op(cls, op: Op, inputs: Sequence[Value]) -> Any:
        """The value of op(*inputs): computed now, or when it is needed in lazy mode."""
        value = cls.__new__(cls)
        tracked = op.differentiable and _grad_mode.enabled and _any_requires_grad(inputs)
        if LAZY_MODE:
            value._init(op, inputs, None, tracked)
            return value
        data = op.compute(*[x.realize_cached_data() for x in inputs])
        if tracked:
            value._init(op, inputs, data, True)
        else:
            value._init(None, [], data, False)
        if _observers:
            for observer in _observers:
                observer.computed(op, inputs, value)
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
                    node.cached_data = node.op.compute(*[x.cached_data for x in node.inputs])
        return self.cached_data

    def _shape_data(self) -> Any:
        """Something with the data's shape and dtype, without computing the data (lazy mode)."""
        if self.cached_data is not None:
            return self.cached_data
        if self._abstract is None:
            for node in find_topo_sort([self], until=_has_shape):
                if not _has_shape(node):
                    _infer(node)
        return self._abstract if self._abstract is not None else self.cached_data


def _any_requires_grad(inputs: Iterable[Value]) -> bool:
    return any([x.requires_grad for x in inputs])


def _is_realized(node: Value) -> bool:
    return node.cached_data is not None


def _has_shape(node: Value) -> bool:
    return node.cached_data is not None or node._abstract is not None


def _infer(node: Value) -> None:
    """Shape and dtype by running `compute` on arrays without elements, else by computing."""
    assert node.op is not None
    stand_ins = [
        x._abstract if x._abstract is not None else abstract.of(x.cached_data) for x in node.inputs
    ]
    try:
        node._abstract = node.op.compute(*stand_ins)
    except abstract.NeedsData:
        node.realize_cached_data()


class TensorTuple(Value):
    """A value whose data is a tuple: what `split` gives."""

    def __len__(self) -> int:
        return len(self._shape_data())

    def __getitem__(self, index: int) -> Any:
        raise TypeError("[TensorTuple] indexing is installed by needle.ops.")

    def tuple(self) -> tuple[Any, ...]:
        """The elements as a Python tuple of tensors."""
        return tuple(self[i] for i in range(len(self)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tuple())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"needle.TensorTuple{self.tuple()!r}"

    def __str__(self) -> str:
        return self.__repr__()

    def detach(self) -> TensorTuple:
        """The same data without its history."""
        detached: TensorTuple = TensorTuple.make_const(self.realize_cached_data())
        return detached


class Tensor(Value):
    """An array in the computational graph.

    Data becomes float32 unless `dtype` says otherwise or it is an NDArray or Tensor already (with
    NEEDLE_BACKEND=np, NumPy's own dtype is kept). `needle.tensor` keeps integers and float64.
    """

    __array_priority__ = 2000

    def __init__(
        self,
        array: Any,
        *,
        device: BackendDevice | str | None = None,
        dtype: Any = None,
        requires_grad: bool = True,
        **kwargs: Any,
    ):
        if kwargs:
            raise TypeError(f"[Tensor] unknown arguments {sorted(kwargs)}.")
        device = None if device is None else device_named(device)
        self._init(None, [], _to_data(array, device, dtype), requires_grad)

    # Facts ----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._shape_data().shape
        return shape

    @property
    def dtype(self) -> Any:
        return self._shape_data().dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return functions.size_of(self.shape)

    @property
    def device(self) -> BackendDevice:
        if config.BACKEND == "np":
            return default_device()
        node: Value = self
        while node.cached_data is None and node.inputs:
            node = node.inputs[0]
        device: BackendDevice = node.realize_cached_data().device
        return device

    # Data -----------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The tensor without its history; assigning replaces the buffer, not the shape rules."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor) or value.dtype != self.dtype:
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise AssertionError(f"[data] expected a Tensor of dtype {self.dtype}, got {got}.")
        self.cached_data = value.realize_cached_data()

    def detach(self) -> Tensor:
        """The same data without its history and without a gradient."""
        detached: Tensor = Tensor.make_const(self.realize_cached_data())
        return detached

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether gradients are kept for this leaf; returns the tensor."""
        self.requires_grad = requires_grad
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy copy."""
        data = self.realize_cached_data()
        if isinstance(data, NDArray):
            return data.numpy()
        return np.array(data)

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.size != 1:
            raise ValueError(f"[item] expected one element, got shape {self.shape}.")
        return self.numpy().item()

    def tolist(self) -> Any:
        """Nested Python lists of the elements."""
        return self.numpy().tolist()

    def __repr__(self) -> str:
        return f"needle.Tensor({self.numpy()!s})"

    def __str__(self) -> str:
        return str(self.numpy())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("[len] a 0-d tensor has no length; use .item() for its value.")
        return self.shape[0]

    def __bool__(self) -> bool:
        """True, as course code expects (`if out_grad:`); a bool tensor has its one value."""
        if self.dtype != "bool":
            return True
        if self.size != 1:
            raise ValueError(
                f"[bool] the truth of a bool tensor of shape {self.shape} is ambiguous; "
                "use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if not dtype_of(self.dtype).is_integer:
            raise TypeError(f"[index] expected an integer tensor, got {self.dtype}.")
        return int(self.item())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = type(self).__new__(type(self))
        copied._init(None, [], functions.copy(self.realize_cached_data()), self.requires_grad)
        copied.__dict__.update(self.__dict__)
        memo[id(self)] = copied
        return copied

    # Exchange -------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        data = self.realize_cached_data()
        if isinstance(data, NDArray):
            return data.__array__(dtype, copy)
        return np.asarray(data, dtype) if copy is False else np.array(data, dtype)

    def _export_buffer(self) -> Any:
        return self.realize_cached_data()

    def __dlpack__(self, **options: Any) -> Any:
        return self.realize_cached_data().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.realize_cached_data().__dlpack_device__()

    # Reverse mode ---------------------------------------------------------------------------

    def backward(
        self, out_grad: Tensor | None = None, *, accumulate: bool = False, create_graph: bool = True
    ) -> None:
        """Set `.grad` of every value that this one depends on.

        out_grad defaults to ones. `.grad` is overwritten, or added to with `accumulate=True`. With
        `create_graph=False` the gradients are plain data: less memory, no second derivatives.
        """
        if out_grad is None:
            out_grad = Tensor.make_const(functions.full_like(self.realize_cached_data(), 1))
        elif out_grad.shape != self.shape:
            raise ValueError(
                f"[backward] expected out_grad of shape {self.shape}, got {out_grad.shape}."
            )
        compute_gradient_of_variables(
            self, out_grad, accumulate=accumulate, create_graph=create_graph
        )

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(grad)` in backward; what it returns (if not None) replaces the gradient.

        Returns a function that removes the hook."""
        if not self.requires_grad:
            raise ValueError("[register_hook] expected a tensor that requires a gradient.")
        hooks = self._hooks = self._hooks if self._hooks is not None else {}
        key = object()
        hooks[key] = hook
        return lambda: hooks.pop(key, None)


def _to_data(array: Any, device: BackendDevice | None, dtype: Any) -> Any:
    """Raw data for a new leaf: a numpy.ndarray in np mode, else an NDArray."""
    if isinstance(array, Tensor):
        array = array.realize_cached_data()
    if config.BACKEND == "np":
        if isinstance(array, np.ndarray) and (dtype is None or array.dtype == dtype):
            return array if device is None else np.array(array)
        return np.array(array, dtype=None if dtype is None else dtype_of(dtype).storage)
    if isinstance(array, NDArray):
        moved = array if device is None else array.to(device)
        return moved if dtype is None else functions.cast(moved, dtype)
    values = np.asarray(array)
    if values.dtype == object:
        raise TypeError(f"[Tensor] expected numbers, got {type(array).__name__} of objects.")
    wanted: DType = float32 if dtype is None else dtype_of(dtype)
    return from_numpy(values, wanted, device or default_device())


# Gradient modes -----------------------------------------------------------------------------------


@contextmanager
def _set_grad_mode(enabled: bool) -> Iterator[None]:
    before = _grad_mode.enabled
    _grad_mode.enabled = enabled
    try:
        yield
    finally:
        _grad_mode.enabled = before


def no_grad() -> Any:
    """Within this context (or decorated function) operators record nothing."""
    return _set_grad_mode(False)


def enable_grad() -> Any:
    """Within this context operators record again, inside `no_grad`."""
    return _set_grad_mode(True)


def is_grad_enabled() -> bool:
    """Do operators record what they do?"""
    return _grad_mode.enabled


# Graph walks ------------------------------------------------------------------------------------


def find_topo_sort(
    node_list: Sequence[Value], until: Callable[[Value], bool] | None = None
) -> list[Value]:
    """Every node that node_list depends on, inputs before users: post-order depth-first.

    Nodes for which `until` holds are listed, but not looked behind. Iterative: graphs may be deep.
    """
    order: list[Value] = []
    seen: set[int] = set()
    for root in node_list:
        if id(root) in seen:
            continue
        seen.add(id(root))
        stack: list[tuple[Value, Iterator[Value]]] = [(root, _inputs_of(root, until))]
        while stack:
            node, inputs = stack[-1]
            for child in inputs:
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, _inputs_of(child, until)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def _inputs_of(node: Value, until: Callable[[Value], bool] | None) -> Iterator[Value]:
    return iter(()) if until is not None and until(node) else iter(node.inputs)


def compute_gradient_of_variables(
    output_tensor: Value, out_grad: Value, *, accumulate: bool = False, create_graph: bool = True
) -> None:
    """Reverse mode: set `.grad` on every node that output_tensor depends on."""

    def store(node: Value, grad: Value) -> None:
        if not node.requires_grad and node is not output_tensor:
            return
        node.grad = node.grad + grad if accumulate and node.grad is not None else grad

    propagate([output_tensor], [out_grad], store, create_graph=create_graph)


def propagate(
    outputs: Sequence[Value],
    out_grads: Sequence[Value],
    store: Callable[[Value, Value], None],
    *,
    create_graph: bool,
    stop: frozenset[int] = frozenset(),
) -> None:
    """Walk the graph backwards from outputs and give every node's adjoint to `store`.

    adjoint(x) = sum over users y of x:  adjoint(y) * dy/dx

    Nodes whose id is in `stop` are stored, but not looked behind.
    """
    partials: dict[int, list[Value]] = {}
    for output, out_grad in zip(outputs, out_grads, strict=True):
        partials.setdefault(id(output), []).append(out_grad)
    order = find_topo_sort(outputs, until=lambda n: id(n) in stop or not n.requires_grad)
    with _set_grad_mode(create_graph):
        for node in reversed(order):
            pending = partials.pop(id(node), None)
            if pending is None:
                continue
            adjoint = _run_hooks(node, _sum_adjoints(pending))
            store(node, adjoint)
            if node.op is None or id(node) in stop:
                continue
            mutation.check_unchanged(node)
            gradients = node.op.gradient_as_tuple(adjoint, node)
            _check_gradients(node, gradients)
            for observer in _observers:
                observer.differentiated(node, gradients)
            for source, gradient in zip(node.inputs, gradients, strict=True):
                if gradient is not None and source.requires_grad:
                    partials.setdefault(id(source), []).append(gradient)


def _sum_adjoints(partials: list[Value]) -> Any:
    total: Any = partials[0]
    for other in partials[1:]:
        total = total + other
    return total


def _run_hooks(node: Value, adjoint: Any) -> Any:
    if node._hooks:
        for hook in tuple(node._hooks.values()):
            replaced = hook(adjoint)
            adjoint = adjoint if replaced is None else replaced
    return adjoint


def _check_gradients(node: Value, gradients: Sequence[Value | None]) -> None:
    """An operator's gradient must fit its inputs; else the user's operator is wrong."""
    name = type(node.op).__name__
    if len(gradients) != len(node.inputs):
        raise ValueError(
            f"[{name}.gradient] expected one gradient per input ({len(node.inputs)}), "
            f"got {len(gradients)}."
        )
    for source, gradient in zip(node.inputs, gradients, strict=True):
        if isinstance(source, Tensor) and isinstance(gradient, Tensor):
            if gradient.shape != source.shape and source.requires_grad:
                raise ValueError(
                    f"[{name}.gradient] expected a gradient of the input's shape {source.shape}, "
                    f"got {gradient.shape}."
                )
