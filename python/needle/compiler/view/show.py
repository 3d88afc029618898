"""What a compiled function is made of: its graph after each pass, its kernels, their times."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...backend import BackendDevice
from ...dtype import float32
from ...ndarray.array import empty
from ..control.loops import LOOP, body_text, loop_of
from ..ir.graph import MATMUL_KERNELS, PROGRAM_KERNELS, RUN_C, RUN_KERNELS, Graph, Node
from ..trace.breaks import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stages:
    """The graph as it was traced and after each pass; printing shows them all."""

    def __init__(self, stages: dict[str, Graph]):
        self._stages = stages

    def __getitem__(self, name: str) -> Graph:
        if name not in self._stages:
            raise KeyError(f"[jit] expected one of {', '.join(self._stages)}, got {name!r}.")
        return self._stages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __str__(self) -> str:
        parts = [f"{name}: {len(g.nodes)} calls\n{g}" for name, g in self._stages.items()]
        return "\n\n".join(parts)

    __repr__ = __str__


@dataclass
class Kernel:
    """One call of a program: what runs, on what, and how much it reads, writes and computes."""

    name: str
    text: str  # the call, and the instructions of a tile program
    source: str  # the user's line
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bytes: int
    flops: int
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.text


def kernel_of(node: Node) -> Kernel:
    """A call, described."""
    program = node.args[0] if node.kernel in PROGRAM_KERNELS else None
    text = str(node) if program is None else "\n".join(p.text for p in node.programs)
    name = node.kernel
    if name == LOOP:
        text = f"{text}\n{body_text(node)}"
    if name == RUN_C:
        function = node.args[0]
        text = "\n".join(filter(None, [text, function.header, function.source]))
    if name in (PYTHON, RUN_C):
        name = f"{name} {node.args[0]}"
    elif node.args and isinstance(node.args[0], str):
        name = node.args[0]
    elif program is not None:
        name = f"{node.kernel} {program.program.name}"
    outs, ins = (tuple(x.type_text for x in side) for side in (node.outs, node.ins))
    return Kernel(name, text, node.source, ins, outs, moved_bytes(node), flops(node))


def moved_bytes(node: Node) -> int:
    """The bytes of all distinct elements that a call reads and writes."""
    total = 0
    for x in (*node.ins, *node.outs):
        touched = math.prod(n for n, s in zip(x.shape, x.strides, strict=True) if s)
        total += touched * x.dtype.itemsize
    return total


def flops(node: Node) -> int:
    """Operations on elements: exact for products, one per element and function else."""
    loop = loop_of(node)
    if loop is not None:
        steps = 1 if loop.is_while else loop.steps  # of a while at least
        return steps * sum(map(flops, loop.body.nodes))
    size = max((x.size for x in (*node.ins, *node.outs)), default=0)
    if node.kernel in MATMUL_KERNELS:
        b = node.args[3] if node.kernel == "matmul_of" else node.ins[1]
        size = max(x.size for x in node.outs)
        if node.kernel == "matmul_then" and node.args[0].reduces_rows:
            size = node.ins[0].shape[0] * b.shape[-1]
        return 2 * size * b.shape[-2]
    if node.kernel.startswith("conv") and len(node.ins) > 1:
        is_forward = node.kernel in ("conv", "conv_then")
        by_weight = node.kernel == "conv_by_weight"
        y = node.outs[0] if is_forward else node.ins[1 if by_weight else 0]
        weights = node.outs[0] if by_weight else node.ins[1]
        return 2 * y.size * weights.size // max(weights.shape[-1], 1)
    if node.kernel in RUN_KERNELS:
        work = [i for i in node.args[0].instructions if i.name not in ("load", "store", "constant")]
        calls = 1 if node.kernel == "run" else len(node.args[1])
        stored = sum(x.size for x in node.outs) * calls // len(node.outs)
        return (size if node.kernel == "run" else stored) * len(work)
    return 0 if node.kernel in ("copy", "fill", "gather", "scatter") else size


@cache
def peaks(device: BackendDevice) -> tuple[float, float]:
    """Operations and bytes per second that this machine reaches on a product and on a copy; what
    stays in its caches moves more."""
    n = 768
    a, b, c = (empty((n, n), float32, device) for _ in range(3))
    big, copied = (empty((1 << 24,), float32, device) for _ in range(2))
    for x in (a, b, big):
        x.fill(1.0)
    product = min(_seconds(lambda: device.mod.matmul(c, a, b)) for _ in range(TRIES))
    copy = min(_seconds(lambda: device.mod.copy(copied, big)) for _ in range(TRIES))
    return 2 * n**3 / product, 2 * big.nbytes / copy


TRIES = 20  # of which the best counts, since others may use the machine; 0.1 s in all


def _seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


SHOWN = 40  # kernels in a printed profile


class Profile:
    """The kernels of one run with their times; printing shows the slowest first."""

    def __init__(self, kernels: list[Kernel], device: BackendDevice):
        self.kernels = kernels
        self.seconds = sum(k.seconds for k in kernels)
        self._device = device

    def __str__(self) -> str:
        most_flops, most_bytes = peaks(self._device)
        lines = [f"{1e3 * self.seconds:.3f} ms in {len(self.kernels)} kernels",
                 "    ms   share  GFLOP/s    GB/s  of peak  kernel"]  # fmt: skip
        slowest = sorted(self.kernels, key=lambda k: -k.seconds)
        for k in slowest[:SHOWN]:
            seconds = max(k.seconds, 1e-9)
            rate, bandwidth = k.flops / seconds, k.bytes / seconds
            peak = max(rate / most_flops, bandwidth / most_bytes)
            share = k.seconds / self.seconds if self.seconds else 0.0
            shapes = f"{k.name}: {', '.join(k.outputs)} from {', '.join(k.inputs) or 'nothing'}"
            lines.append(
                f"{1e3 * seconds:8.3f} {share:6.1%} {rate / 1e9:8.1f} {bandwidth / 1e9:7.1f} "
                f"{peak:8.0%}  {shapes:.120}"
            )
        if len(slowest) > SHOWN:
            rest = sum(k.seconds for k in slowest[SHOWN:])
            lines.append(f"{1e3 * rest:8.3f}  in {len(slowest) - SHOWN} more")
        return "\n".join(lines)

    __repr__ = __str__
