"""Who is tracing: one object in one slot, asked at the hook points where a trace must know.

`needle.jit` runs a function once with a tracer in the slot of its thread. While one is there:

| hook point | what it asks the tracer |
|---|---|
| a device's kernels, `BackendDevice.mod` | `kernels`, which record instead of compute |
| data and gradient of a tensor: `cached_data`, `grad` | `read_data`, `write_data`, ... |
| a new node of the graph | `note_made` |
| an operator's `compute` | `compute`, which may run it as Python in the middle of a program |
| messages between ranks, `distributed/` | `communicate` |
| random numbers, `ndarray/random.py` | `drawing_from`, `place_of_draw`, `host_numbers`, `seeding` |
| errors of indices, `ndarray/index/errors.py` | `count_calls`, `note_words` |
| what a module calls, `nn/module.py` | `rewrite`: the same function, its control flow recorded |
| Python values that a program depends on, `facts.py` | `facts`, `undos`, `meet` |

The first four ask in the native core (`native/python/objects/tracing.cc`, `nodes.cc`). Other
threads have slots of their own: nothing changes for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from . import _native

if TYPE_CHECKING:
    from .autograd.op import Op
    from .backend import BackendDevice
    from .dtype import DType
    from .facts import Facts
    from .ndarray.array import NDArray
    from .ndarray.index.errors import Words
    from .ndarray.random import RandomSource
    from .types import Adjoint, Arrays, Backend, RawData, Value


class Call(Protocol):
    """An exchange of arrays between ranks."""

    can_wait: bool  # may other kernels run between its start and its end?
    keeps_inputs: bool  # are they read after the call has ended?

    def start(self, ins: Arrays, outs: Arrays) -> Callable[[], None]:
        """Let it begin; the function that is given ends it."""

    def run(self, outs: Arrays, ins: Arrays) -> None:
        """All of it."""


class Rewindable(Protocol):
    """What moves when numbers are drawn, and can be moved back: `np.random`, a generator."""

    def get_state(self) -> Any:
        """Where it is."""

    def set_state(self, state: Any, /) -> object:
        """Go there."""


class Tracer(Protocol):
    """What the hook points ask; `compiler/trace/tracer.py` has the one that there is."""

    facts: Facts  # the Python values that the function has read
    undos: list[Callable[[], None]]  # what undoes its changes of Python state, if the call fails
    trace: object  # the identity of the trace
    rewrite: Callable[[Any], Any]  # a function -> the one with control flow for the graph

    def meet(self, value: object) -> None:
        """The function has got hold of a Python object."""

    def kernels(self, device: BackendDevice, real: Backend) -> object:
        """The kernels of a device, which record; `real` are those that compute."""

    def read_data(self, tensor: Value) -> RawData:
        """What `tensor.cached_data` is."""

    def write_data(self, tensor: Value, data: RawData) -> None:
        """`tensor.cached_data = data`"""

    def read_grad(self, tensor: Value) -> Adjoint:
        """What `tensor.grad` is."""

    def write_grad(self, tensor: Value, grad: Adjoint) -> None:
        """`tensor.grad = grad`"""

    def note_made(self, tensor: Value) -> None:
        """A node was made."""

    def compute(self, call: tuple[Op, *Arrays]) -> NDArray | Arrays:
        """op.compute(*arrays), for call = (op, *arrays)."""

    def communicate(self, call: Call, outs: Arrays, ins: Arrays) -> None:
        """The ranks exchange arrays, in the order of the program."""

    def drawing_from(self, generator: RandomSource) -> None:
        """A generator is about to draw."""

    def seeding(self) -> None:
        """A generator is about to be seeded, or made: raises, since a program would draw on."""

    def place_of_draw(self, words: int, device: BackendDevice) -> NDArray:
        """The generator's seed and place at each run, int64 (2,): an element takes `words`."""

    def host_numbers(
        self,
        draw: Callable[[], object],
        shape: tuple[int, ...],
        dtype: DType,
        device: BackendDevice,
        source: Rewindable,
    ) -> NDArray:
        """An array that holds draw() at each run, which moves the source."""

    def count_calls(self) -> int:
        """How many kernels have been recorded."""

    def note_words(self, start: int, words: Words) -> None:
        """Let kernels recorded from `start` on report an index out of range in these words."""


active: Callable[[], Tracer | None] = _native.active_tracer  # of this thread


def is_tracing() -> bool:
    """Is this thread inside a traced function?"""
    return active() is not None


@contextmanager
def tracing(tracer: Tracer | None) -> Iterator[None]:
    """Within this context the tracer is in this thread's slot; None leaves the slot empty."""
    before = _native.set_tracer(tracer)
    try:
        yield
    finally:
        _native.set_tracer(before)
