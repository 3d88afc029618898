"""Data parallel training: each rank has the whole model and a part of each batch.

After each backward pass the gradients are averaged over the ranks, in buckets: one message for many
small parameters. In a compiled step the buckets are nodes of the graph, which start as soon as
their gradients are there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..autograd import Tensor, no_grad
from ..autograd.backward import after_backward
from ..dtype import DType, dtype_of
from ..facts import changed, fact
from ..mpi.group import Group, world
from ..nn.module import Module
from ..ops.shape.concat import concatenate
from ..tracing import is_tracing
from .collectives import all_reduce, broadcast

__all__ = ["DistributedDataParallel", "average_gradients", "broadcast_state"]

BUCKET = 1 << 22  # bytes of gradients that are averaged together


class DistributedDataParallel(Module):
    """A model whose gradients are means over the ranks.

    Parameters and buffers start as those of rank 0. A parameter that a rank did not use counts as a
    gradient of zeros there, if any rank has used it. Within `no_sync()` gradients stay the rank's
    own, to be accumulated; the next backward pass outside averages the sums. Buffers, such as the
    running statistics of batch norm, are averaged before they are saved (`sync_buffers`)."""

    def __init__(self, module: Module, group: Group | None = None, bucket_bytes: int = BUCKET):
        if not isinstance(module, Module):
            raise TypeError(
                f"[DistributedDataParallel] expected a Module, got {type(module).__name__}."
            )
        self.module = module
        self._group = group or world()
        self._bucket_bytes = bucket_bytes
        self._syncs = True
        broadcast_state(module, self._group)
        alive = weakref.ref(self)

        def note(gradient: Tensor) -> None:
            model = alive()
            if model is not None and fact(model, "syncs", lambda: getattr(alive(), "_syncs", True)):
                after_backward(model, model.average_gradients)

        for parameter in module.parameters():
            if parameter.requires_grad and self._group.size > 1:
                parameter.register_hook(note)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this context backward passes leave each rank its own gradients."""
        self._set_syncs(False)
        try:
            yield
        finally:
            self._set_syncs(True)

    def _set_syncs(self, syncs: bool) -> None:
        self._syncs = syncs
        changed()

    def average_gradients(self) -> None:
        """The mean over the ranks; a backward pass outside of `no_sync` ends with it."""
        average_gradients(self.module.parameters(), self._group, self._bucket_bytes)

    def sync_buffers(self) -> None:
        """Floating buffers become means over the ranks, others those of rank 0."""
        with no_grad():
            for buffer in self.module.buffers():
                is_floating = dtype_of(buffer.dtype).is_floating
                data = buffer.detach()
                group = self._group
                buffer.data = (
                    all_reduce(data, "mean", group) if is_floating else broadcast(data, 0, group)
                )


def broadcast_state(module: Module, group: Group | None = None) -> None:
    """Parameters and buffers become those of rank 0."""
    with no_grad():
        for _, tensor in module._named_tensors():
            tensor.data = broadcast(tensor.detach(), 0, group or world())


def average_gradients(
    parameters: Sequence[Tensor], group: Group | None = None, bucket_bytes: int = BUCKET
) -> None:
    """Gradients become their means over the ranks, bucket by bucket: the last parameters first,
    whose gradients are the first that a backward pass has."""
    group = group or world()
    if group.size == 1:
        return
    used = _used(parameters, group)
    with no_grad():
        for bucket in buckets(used, bucket_bytes):
            parts = [
                (p.detach() * 0 if p.grad is None else p.grad.detach()).reshape((p.size,))
                for p in bucket
            ]
            whole = parts[0] if len(parts) == 1 else concatenate(parts)
            means = all_reduce(whole, "mean", group)
            start = 0
            for p in bucket:
                p.grad = means[start : start + p.size].reshape(p.shape)
                start += p.size


def _used(parameters: Sequence[Tensor], group: Group) -> list[Tensor]:
    """The parameters that have a gradient on any rank.

    In a compiled function which ones do is the same in every call, and must be on every rank."""
    trained = [p for p in parameters if p.requires_grad]
    own = [p.grad is not None for p in trained]
    if is_tracing():
        return [p for p, has in zip(trained, own, strict=True) if has]
    flags = Tensor([float(has) for has in own], requires_grad=False)
    anywhere = all_reduce(flags, "max", group).numpy() > 0
    return [p for p, has in zip(trained, anywhere, strict=True) if has]


def buckets(parameters: Sequence[Tensor], most_bytes: int) -> list[list[Tensor]]:
    """Parameters of one dtype and device that go together, from the last one to the first."""
    found: list[list[Tensor]] = []
    room: dict[tuple[DType, str], tuple[list[Tensor], int]] = {}
    for p in reversed(parameters):
        nbytes = p.size * dtype_of(p.dtype).itemsize
        key = (dtype_of(p.dtype), p.device.name)
        bucket, taken = room.get(key, ([], most_bytes))
        if taken + nbytes > most_bytes:
            bucket, taken = [], 0
            found.append(bucket)
        bucket.append(p)
        room[key] = (bucket, taken + nbytes)
    return found
