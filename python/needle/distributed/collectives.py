"""Collectives as operators: all ranks of a group call them together, in the same order.

The gradient of each is a collective too, so gradients have gradients. With y_r = f(x_0, x_1, ...)
on rank r, the gradient on rank r is that of the sum of all ranks' losses by x_r.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..autograd import Tensor, TensorOp
from ..backend.null import is_null
from ..dtype import dtype_of
from ..mpi.group import Group, world
from ..ndarray.array import NDArray, empty
from ..ops.compare import equal
from ..ops.elementwise import astype
from ..ops.shape.movement import transpose
from ..tracing import active
from . import calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..types import DTypeLike, Gradients

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "broadcast", "flush", "gather", "recv",
    "reduce_scatter", "scatter", "send",
]  # fmt: skip

HOW = ("sum", "mean", "max", "min")


class Collective(TensorOp):
    """An operator on a group of ranks."""

    linear: ClassVar[bool] = True

    def __init__(self, group: Group, call: calls.Call):
        self.group, self.call = group, call

    def exchange(self, a: NDArray, shape: tuple[int, ...]) -> NDArray:
        """The result of the call, of this shape."""
        if not isinstance(a, NDArray):
            raise TypeError(f"[{self.call.name}] expected NEEDLE_BACKEND=nd, got NumPy arrays.")
        out = empty(shape, a.dtype, a.device)
        communicate(self.call, out, a)
        return out


def communicate(call: calls.Call, out: NDArray, a: NDArray) -> None:
    """Make the call now, or note it if a function is traced."""
    a = a if a.is_row_major() else a.copy()
    if is_null(a.device):
        return
    tracer = active()
    if tracer is None:
        call.run((out,), (a,))
    else:
        tracer.communicate(call, (out,), (a,))


class AllReduce(Collective):
    """y = Σ_r x_r, or their mean,  dx_r = Σ_s dy_s, or their mean"""

    def __init__(self, group: Group, how: str):
        super().__init__(group, calls.AllReduce(group, how))
        self.how = how

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, a.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return AllReduce(self.group, self.how)(out_grad)


class AllExtreme(AllReduce):
    """y = max_r x_r or min_r x_r. The gradient goes to the ranks that have the extreme, in equal
    parts."""

    linear: ClassVar[bool] = False

    def _parts(self, x: Tensor, y: Tensor) -> Tensor:
        hits = astype(equal(x, y), x.dtype)
        return hits / AllReduce(self.group, "sum")(hits)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        total = AllReduce(self.group, "sum")(out_grad)
        return total * self._parts(node.inputs[0].detach(), node.detach())

    def jvp(self, node: Tensor, tangents: Sequence[Tensor]) -> Tensor:
        parts = self._parts(node.inputs[0].detach(), node.detach())
        return AllReduce(self.group, "sum")(tangents[0] * parts)


class AllGather(Collective):
    """y = x_0, x_1, ... along the first axis,  dx_r = Σ_s part r of dy_s"""

    def __init__(self, group: Group):
        super().__init__(group, calls.AllGather(group))

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, (self.group.size * a.shape[0], *a.shape[1:]))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return ReduceScatter(self.group, "sum")(out_grad)


class ReduceScatter(Collective):
    """y_r = part r of Σ_s x_s along the first axis, or of the mean,  dx = dy_0, dy_1, ..."""

    def __init__(self, group: Group, how: str):
        super().__init__(group, calls.ReduceScatter(group, how))
        self.how = how

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, (a.shape[0] // self.group.size, *a.shape[1:]))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        gathered = AllGather(self.group)(out_grad)
        return gathered / self.group.size if self.how == "mean" else gathered


class AllToAll(Collective):
    """y_r = part r of x_0, x_1, ... along the first axis,  dx is the same of dy"""

    def __init__(self, group: Group):
        super().__init__(group, calls.AllToAll(group))

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, a.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return AllToAll(self.group)(out_grad)


class Broadcast(Collective):
    """y = x_root,  dx_root = Σ_r dy_r, and 0 elsewhere"""

    def __init__(self, group: Group, root: int):
        super().__init__(group, calls.Broadcast(group, root))
        self.root = root

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, a.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        total = AllReduce(self.group, "sum")(out_grad)
        return total if self.group.rank == self.root else total * 0


class Scatter(Collective):
    """y_r = part r of x_root along the first axis,  dx_root = dy_0, dy_1, ..., and 0 elsewhere"""

    def __init__(self, group: Group, root: int):
        super().__init__(group, calls.Scatter(group, root))
        self.root = root

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, (a.shape[0] // self.group.size, *a.shape[1:]))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return Gather(self.group, self.root)(out_grad)


class Gather(Collective):
    """y_root = x_0, x_1, ... along the first axis, and 0 elsewhere,  dx_r = part r of dy_root"""

    def __init__(self, group: Group, root: int):
        super().__init__(group, calls.Gather(group, root))
        self.root = root

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, (self.group.size * a.shape[0], *a.shape[1:]))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return Scatter(self.group, self.root)(out_grad)


class Send(Collective):
    """x goes to another rank; y = 0 stands for it. dx is what that rank sends back."""

    linear: ClassVar[bool] = False

    def __init__(self, group: Group, to: int):
        super().__init__(group, calls.Send(group, to))
        self.to = to

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, ())

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        return Receive(self.group, self.to, x.shape)(out_grad)

    def jvp(self, node: Tensor, tangents: Sequence[Tensor]) -> Tensor:
        raise ValueError(f"[{self.call.name}] expected reverse mode: jvp sends no tangents.")


class Receive(Collective):
    """y comes from another rank; the input, 0, stands for it. dy is sent back."""

    linear: ClassVar[bool] = False

    def __init__(self, group: Group, source: int, shape: tuple[int, ...]):
        super().__init__(group, calls.Receive(group, source))
        self.source, self.shape = source, shape

    def compute(self, a: NDArray) -> NDArray:
        return self.exchange(a, self.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return Send(self.group, self.source)(out_grad)

    jvp = Send.jvp


# What users call ---------------------------------------------------------------------------------


def all_reduce(x: Tensor, how: str = "sum", group: Group | None = None) -> Tensor:
    """The sum ("mean", "max", "min") of every rank's x, on every rank.

    Ranks are added in order, so the bits are the same in every run."""
    group = group or world()
    _check_how("all_reduce", x, how, HOW)
    if group.size == 1:
        return x
    return (AllReduce if how in ("sum", "mean") else AllExtreme)(group, how)(x)


def all_gather(x: Tensor, axis: int = 0, group: Group | None = None) -> Tensor:
    """Every rank's x, one behind the other along an axis, on every rank."""
    group = group or world()
    return _along(AllGather(group), "all_gather", x, axis, group, divided=False)


def reduce_scatter(
    x: Tensor, how: str = "sum", axis: int = 0, group: Group | None = None
) -> Tensor:
    """Part r of the sum ("mean") of every rank's x, cut along an axis, on rank r."""
    group = group or world()
    _check_how("reduce_scatter", x, how, HOW[:2])
    return _along(ReduceScatter(group, how), "reduce_scatter", x, axis, group)


def all_to_all(x: Tensor, axis: int = 0, group: Group | None = None) -> Tensor:
    """Part r of every rank's x, cut along an axis, on rank r, one behind the other."""
    group = group or world()
    return _along(AllToAll(group), "all_to_all", x, axis, group)


def broadcast(x: Tensor, source: int = 0, group: Group | None = None) -> Tensor:
    """x of rank `source` on every rank; all give one of the same shape and dtype."""
    group = group or world()
    _check_rank("broadcast", source, group)
    return x if group.size == 1 else Broadcast(group, source)(x)


def scatter(x: Tensor, source: int = 0, axis: int = 0, group: Group | None = None) -> Tensor:
    """Part r of x of rank `source`, cut along an axis, on rank r; all give an x of that shape."""
    group = group or world()
    _check_rank("scatter", source, group)
    return _along(Scatter(group, source), "scatter", x, axis, group)


def gather(x: Tensor, to: int = 0, axis: int = 0, group: Group | None = None) -> Tensor:
    """Every rank's x, one behind the other along an axis, on rank `to`; zeros on all others."""
    group = group or world()
    _check_rank("gather", to, group)
    return _along(Gather(group, to), "gather", x, axis, group, divided=False)


def send(x: Tensor, to: int, group: Group | None = None) -> Tensor:
    """Send x to another rank. The result, 0, stands for the message: its `backward()` waits for the
    gradient that the other rank sends back. Do not change x in place until `flush`."""
    group = group or world()
    _check_other("send", to, group)
    return Send(group, to)(x)


def recv(
    source: int,
    shape: Sequence[int],
    dtype: DTypeLike = "float32",
    group: Group | None = None,
) -> Tensor:
    """What another rank sends, which must have this shape and dtype."""
    group = group or world()
    _check_other("recv", source, group)
    kind = dtype_of(dtype)
    stands_for = Tensor(0, dtype=kind, requires_grad=kind.is_floating)
    return Receive(group, source, tuple(shape))(stands_for)


def flush(group: Group | None = None) -> None:
    """Wait until what this rank has sent has arrived; its memory is free again."""
    (group or world()).flush()


def _along(
    op: Collective, name: str, x: Tensor, axis: int, group: Group, divided: bool = True
) -> Tensor:
    """op along an axis other than the first one."""
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"[{name}] expected an axis of {x.shape}, got {axis}.")
    if divided and x.shape[axis] % group.size:
        raise ValueError(
            f"[{name}] rank {group.rank}: expected an axis that {group.size} ranks divide, got "
            f"{x.shape[axis]} along axis {axis} of {x.shape}; pad it."
        )
    if group.size == 1:
        return x
    return op(x) if axis % x.ndim == 0 else transpose(op(transpose(x, (0, axis))), (0, axis))


def _check_how(name: str, x: Tensor, how: str, known: tuple[str, ...]) -> None:
    if how not in known:
        raise ValueError(f"[{name}] how must be one of {', '.join(known)}, got {how!r}.")
    kind = dtype_of(x.dtype)
    if (how == "mean" and not kind.is_floating) or (how == "sum" and kind == "bool"):
        hint = "max is any, min is all" if kind == "bool" else "cast it"
        raise TypeError(f"[{name}] expected numbers that have a {how}, got {kind}; {hint}.")


def _check_rank(name: str, rank: int, group: Group) -> None:
    if not 0 <= rank < group.size:
        raise ValueError(f"[{name}] expected a rank from 0 to {group.size - 1}, got {rank}.")


def _check_other(name: str, rank: int, group: Group) -> None:
    _check_rank(name, rank, group)
    if rank == group.rank:
        raise ValueError(f"[{name}] expected another rank, got {rank}, this one.")
