"""How a tensor changes in place: `assign` for what autograd records, `overwrite` for the rest.

A recorded change makes the tensor another value of the graph. Where somebody else shows the same
memory (views, or what it is a view of), they become other values, too: the base becomes
`Written(base, value)`, the views are taken of it anew. What was computed before keeps the values
that it used, in a copy of the memory.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import _native
from ...autograd import Tensor as EngineTensor, TensorOp, is_grad_enabled, rebind, write_in_place
from ...autograd.writing import next_stamp, note_write, replace_data
from ...dtype import DType
from ...ndarray import functions as F, versions
from ...ndarray.array import make_view
from ...ndarray.index.gather import has_overlap
from ...ops.common import zeros_like
from .dtypes import dtype_in_engine
from .tensor import Tensor, make_node

if TYPE_CHECKING:
    from ...types import Gradients, NDArray


def is_recorded(*operands: object) -> bool:
    """Is there a gradient to record of an operator on these?"""
    return is_grad_enabled() and any(
        isinstance(x, EngineTensor) and x.requires_grad for x in operands
    )


def overwrite(x: Tensor, result: EngineTensor) -> None:
    """Write a result into x's memory, cast; x gets other memory if it has another shape."""
    data = F.cast(result.realize_cached_data(), dtype_in_engine(x))
    if tuple(x.shape) != data.shape:
        replace_data((x,), (F.copy(data),))
        return
    write_in_place("out", x, lambda memory: F.assign(memory, data))


def check_writable(op: str, x: Tensor) -> None:
    """Raise if x is a leaf that requires a gradient, or a view of one."""
    if not is_grad_enabled():
        return
    if x.requires_grad and x.op is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    base = base_of(x)[0]
    if base is not x and base.requires_grad and base.op is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )


def assign(op: str, x: Tensor, result: Any) -> Tensor:
    """Let x be this result, of x's shape, cast to x's dtype: the end of all methods in place."""
    check_writable(op, x)
    if has_overlap(x.cached_data):
        raise RuntimeError(
            f"[{op}] unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the "
            "operation."
        )
    if is_recorded(x, result):
        become(x, cast_to(result, dtype_in_engine(x)))
        return x
    data = F.cast(result.realize_cached_data(), dtype_in_engine(x))
    write_in_place(op, x, lambda memory: F.assign(memory, data))
    return x


def cast_to(x: Any, dtype: DType) -> Any:
    """x in this dtype."""
    from ...ops.elementwise import Cast

    return x if dtype_in_engine(x) is dtype else Cast(dtype)(x)


# Views --------------------------------------------------------------------------------------------


def shares(x: Any, source: Any) -> bool:
    """Do two values show the same memory?"""
    a, b = x.cached_data, source.cached_data
    return getattr(a, "_handle", a) is getattr(b, "_handle", None)


def base_of(x: Any) -> tuple[Any, list[Any]]:
    """What x is a view of (x itself, if it is none), and the views from there to x."""
    chain: list[Any] = []
    while x.op is not None and x.inputs and shares(x, x.inputs[0]) and not is_write(x):
        chain.append(x)
        x = x.inputs[0]
    return x, chain[::-1]


def is_write(x: Any) -> bool:
    """Is it a value whose memory was written by a recorded change?"""
    return isinstance(x.op, (Written, Replaced))


class Written(TensorOp):
    """y = x with a view of it replaced by v;  x gets g but where v went, v gets g's view"""

    def __init__(self, views: Sequence[Callable[..., Any]]):
        self.views = views  # of arrays, from the whole to the part

    def compute(self, a: NDArray, value: NDArray) -> NDArray:
        out = F.copy(a)
        F.assign(self.part(out), value)
        return out

    def part(self, a: Any) -> Any:
        """The part that was written."""
        for view in self.views:
            a = view(a)
        return a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        part = out_grad
        for view in self.views:
            part = view.of_tensor(part)  # type: ignore[attr-defined]
        return Written(self.views)(out_grad, zeros_like(part)), part


class Replaced(TensorOp):
    """y = v, in the place of x"""

    def compute(self, a: NDArray, value: NDArray) -> NDArray:
        return value

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return None, out_grad


class View:
    """One step from a whole to a part: an operator with the inputs behind its first one."""

    def __init__(self, node: Any):
        self.op, self.others = node.op, tuple(node.inputs[1:])

    def __call__(self, a: Any) -> Any:
        return self.op.compute(a, *(x.cached_data for x in self.others))

    def of_tensor(self, x: Any) -> Any:
        """The same of a tensor."""
        return self.op(x, *self.others)


def is_alone(x: Any) -> bool:
    """Does nobody else show x's memory, as far as reference counts tell?"""
    data = x.cached_data
    handle = getattr(data, "_handle", None)
    # The array and this function's name hold the handle; the node and this name hold the array.
    return handle is not None and sys.getrefcount(handle) <= 3 and sys.getrefcount(data) <= 3


def become(x: Any, result: Any) -> None:
    """Turn x into a recorded result that was computed of x as it was."""
    base, chain = base_of(x)
    if not chain and (is_alone(x) or not versions.is_seen_elsewhere(x)):
        rebind.become(x, Replaced(), result)
        return
    family = [base, *views_of(base)]
    formers = {id(member): former_of(member) for member in family}
    kept = F.copy(whole_memory(base.cached_data))
    for member in family:
        old = formers[id(member)]
        old.cached_data = same_view(member.cached_data, kept)
    for member in family:
        hand_over_family(member, formers)
    write_memory(x, result)
    renew(family, formers, x, chain, result)


def former_of(x: Any) -> Any:
    """A value with x's place in the graph as it is."""
    former = make_node(type(x) if type(x) is Tensor else Tensor, None, [], None, False)
    for name in (*rebind.IDENTITY, "_replaced"):
        setattr(former, name, getattr(x, name))
    former._hooks = x._hooks
    return former


def users_of(x: Any) -> list[Any]:
    """The values that were computed of x."""
    held = [t for t in gc.get_referrers(x) if isinstance(t, (tuple, list))]
    owners: list[Any] = [
        n for t in held for n in gc.get_referrers(t) if isinstance(n, _native.NodeBase)
    ]
    for node in owners:
        rebind.restore_inputs(node)
    return [n for n in {id(n): n for n in owners}.values() if any(s is x for s in n.inputs)]


def hand_over_family(member: Any, formers: dict[int, Any]) -> None:
    for node in users_of(member):
        put(node, formers)


def put(node: Any, formers: dict[int, Any]) -> None:
    node.inputs = tuple([formers.get(id(s), s) for s in node.inputs])


def views_of(base: Any) -> list[Any]:
    """All values that are views of base, each behind what it is a view of."""
    found, pending = [], [base]
    while pending:
        node = pending.pop(0)
        for user in users_of(node):
            if user.inputs[0] is node and shares(user, node) and not is_write(user):
                found.append(user)
                pending.append(user)
    return list({id(v): v for v in found}.values())


def whole_memory(data: NDArray) -> NDArray:
    """All of the memory that an array shows, as a row."""
    handle = data._handle
    return make_view((handle.size,), (1,), 0, data.dtype, data.device, handle)


def same_view(data: NDArray, memory: NDArray) -> NDArray:
    """An array of the same shape and strides in other memory."""
    return make_view(data.shape, data.strides, data.offset, data.dtype, data.device, memory._handle)


def write_memory(x: Any, result: Any) -> None:
    F.assign(x.cached_data, result.cached_data)
    note_write(x)


def renew(
    family: list[Any], formers: dict[int, Any], x: Any, chain: list[Any], result: Any
) -> None:
    """Make the base a value in which x is the result, and the views views of that."""
    base, views = family[0], family[1:]
    steps = [(v, v.op, v.inputs) for v in views]
    if chain:
        op, inputs = Written([View(v) for v in chain]), (formers[id(base)], result)
    else:
        op, inputs = Replaced(), (formers[id(base)], result)  # type: ignore[assignment]
    restamp(base, op, inputs)
    back = {id(formers[id(member)]): member for member in family}
    for view, op_of_view, inputs_of_view in steps:
        source = back.get(id(inputs_of_view[0]), inputs_of_view[0])
        restamp(view, op_of_view, (source, *inputs_of_view[1:]))


def restamp(x: Any, op: Any, inputs: Sequence[Any]) -> None:
    """Give x another place in the graph, from now on."""
    x.requires_grad = True
    x.op, x.inputs, x._stamp = op, tuple(inputs), next_stamp()
    x._hooks, x.grad = None, None
    rebind.happened = True
