"""The native core of needle: buffers and kernels of the CPU.

The kernels are those of `backend/protocol.py`, which says what they mean.
"""

from collections.abc import Callable, Sequence as Items
from typing import Any, TypeVar, final

import numpy as np

from .backend.c_function import CFunction
from .backend.protocol import Operand, Scalar
from .ndarray.array import NDArray
from .tile.program import Program, TypedProgram
from .types import Adjoint, RawData

__version__: str

A = TypeVar("A", bound="ArrayBase")
N = TypeVar("N", bound="NodeBase")

# Memory

@final
class Buffer:
    """A typed, flat piece of memory."""

    def ptr(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def is_on_device(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def version(self) -> int:
        """Another number after each write."""

def empty(size: int, dtype: str) -> Buffer: ...
def memory_stats() -> dict[str, int]:
    """Bytes in live buffers, their peak, and bytes of freed blocks kept for reuse."""

def reset_peak_memory() -> None:
    """Lets the peak start again from what is live."""

def release_memory() -> None:
    """Gives pooled blocks back to the system."""

# Threads and instruction sets

def get_num_threads() -> int:
    """Size of the thread pool, the caller included."""

def set_num_threads(count: int) -> None: ...
def instruction_set() -> str:
    """The kernels in use."""

def instruction_sets() -> tuple[str, ...]:
    """Those that this machine can run, best first."""

def use_instruction_set(name: str | None) -> None:
    """Switches the kernels; None is the best that this machine has."""

def get_matmul_precision() -> int:
    """Position in needle.backend.precision.PRECISIONS."""

def set_matmul_precision(precision: int) -> None: ...

# Kernels

UNARY: dict[str, str]  # elementwise functions, each with its kind (native/common/elementwise.def)
BINARY: dict[str, str]
BLOCKING: dict[str, int]  # how tile programs cut rows and columns (native/tile/blocking.h)
REDUCE: dict[str, tuple[str, str]]  # with kind, and what there is of nothing (reduce.def)

def fill(out: Operand, value: Scalar) -> None: ...
def copy(out: Operand, a: Operand) -> None: ...
def unary(name: str, out: Operand, a: Operand) -> None: ...
def binary(name: str, out: Operand, a: Operand | Scalar, b: Operand | Scalar) -> None: ...
def new_unary(name: str, a: Operand) -> NDArray | None: ...
def new_binary(name: str, a: Operand | Scalar, b: Operand | Scalar) -> NDArray | None: ...
def new_where(cond: Operand, a: Operand, b: Operand) -> NDArray | None: ...
def where(out: Operand, cond: Operand, a: Operand, b: Operand) -> None: ...
def run(
    program: TypedProgram, outs: Items[Operand], ins: Items[Operand], inner: int = 1
) -> None: ...
def new_run(program: Program, arrays: tuple[Any, ...], axes: tuple[int, ...]) -> Any: ...
def run_each(
    program: TypedProgram, calls: Items[tuple[Items[Operand], Items[Operand]]]
) -> None: ...
def is_builtin(program: TypedProgram) -> bool: ...
def run_c(function: CFunction, outs: Items[Operand], ins: Items[Operand], count: int) -> None: ...
def run_compiled(
    calls: tuple[tuple[int, int, Items[Operand], Items[Operand], int, int, int], ...],
) -> None:
    """C functions of tile programs (backend/render/c11.py) on the thread pool. A call has the
    addresses of the function and of what finishes it (or 0), outputs, inputs, rows, grain and
    columns."""

def reduce(name: str, out: Operand, a: Operand) -> None: ...
def new_reduce(name: str, a: Operand, axes: Any, keepdims: bool) -> NDArray | None: ...
def arg_reduce(name: str, out: Operand, a: Operand, axis: int) -> None: ...
def scan(name: str, out: Operand, a: Operand, axis: int) -> None: ...
def matmul(out: Operand, a: Operand, b: Operand) -> None: ...
def matmul_then(
    program: TypedProgram, outs: Items[Operand], a: Operand, b: Operand, ins: Items[Operand] = ...
) -> None: ...
def matmul_of(
    program: TypedProgram,
    outs: Items[Operand],
    ins: Items[Operand],
    b: Operand,
    then: TypedProgram | None = None,
    others: Items[Operand] = ...,
) -> None: ...
def conv(
    out: Operand,
    x: Operand,
    w: Operand,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> None: ...
def conv_then(
    program: TypedProgram,
    outs: Items[Operand],
    x: Operand,
    w: Operand,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    ins: Items[Operand] = ...,
) -> None: ...
def conv_by_data(
    out: Operand,
    y: Operand,
    w: Operand,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> None: ...
def conv_by_weight(
    out: Operand,
    x: Operand,
    y: Operand,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> None: ...
def attention(
    out: Operand,
    log_sums: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None,
    scale: float,
    causal: bool,
) -> None: ...
def attention_backward(
    dq: Operand,
    dk: Operand,
    dv: Operand,
    ds: Operand | None,
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None,
    y: Operand,
    log_sums: Operand,
    g: Operand,
    g_log: Operand,
    scale: float,
    causal: bool,
) -> None: ...
def recurrence(
    cell: str,
    h: Operand,
    c_last: Operand | None,
    kept: Operand,
    x: Operand,
    h0: Operand,
    c0: Operand | None,
    w: Operand,
    bias: Operand | None,
) -> None: ...
def recurrence_backward(
    cell: str,
    dx: Operand,
    ds: Operand | None,
    dh0: Operand,
    dc0: Operand | None,
    h: Operand,
    kept: Operand,
    h0: Operand,
    c0: Operand | None,
    w: Operand,
    g_h: Operand,
    g_c: Operand | None,
) -> None: ...
def mix(
    out: Operand, a: Operand, starts: Operand, places: Operand, weights: Operand, axis: int
) -> None: ...
def gather(out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None: ...
def scatter(name: str, out: Operand, indices: tuple[Operand, ...], a: Operand) -> None: ...
def argsort(out: Operand, a: Operand, axis: int, descending: bool) -> None: ...
def searchsorted(out: Operand, sorted_: Operand, values: Operand, right: bool) -> None: ...
def nonzero(a: Operand) -> Buffer: ...
def random(name: str, out: Operand, seed: int, offset: int) -> None: ...
def random_from(name: str, out: Operand, counter: Operand) -> None: ...

# Kernel calls that run as one

class Sequence:
    def __init__(self, on_device: bool = False) -> None: ...
    def __len__(self) -> int: ...
    def placeholder(
        self, slot: int, byte_offset: int, size: int, dtype: str, written: bool
    ) -> Buffer: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def side_by_side(self, lanes: list[list[int]]) -> None: ...
    def run(self, buffers: list[Buffer]) -> None: ...
    def run_timed(self, buffers: list[Buffer]) -> list[float]: ...

def run_loop(
    body: Sequence,
    steps: int,
    reverse: bool,
    places: tuple[tuple[int, int, int, int], ...],
    rings: tuple[tuple[int, int, int], ...],
    outs: tuple[Operand, ...],
    ins: tuple[Operand, ...],
) -> None:
    """A sequence once per step. A place per slot: the operand of step 0 (or -1), the operand of
    others, bytes between its elements, and 0 (an element per step), 1 or 2 (read and write two in
    turn); operands are numbered outputs first. Of a `while`, the rings (operand of step 0, operand
    of two in turn, bytes of one): it ends before a step whose first one is False."""

def run_python(
    function: Callable[[list[Buffer]], None], outs: tuple[Operand, ...], ins: tuple[Operand, ...]
) -> None:
    """function(buffers) on operands in C order, outputs first; it may be part of a sequence."""

# Exchange

def from_numpy(array: np.ndarray[Any, Any], dtype: str) -> Buffer: ...
def to_numpy(a: Operand) -> np.ndarray[Any, Any]: ...
def to_dlpack(
    a: Operand,
    *,
    stream: None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule that shares the operand's memory; the options are `__dlpack__`'s."""

def from_dlpack(capsule: Any) -> tuple[Buffer, tuple[int, ...], tuple[int, ...], str]:
    """(handle, shape, strides, dtype name) of the memory in a DLPack capsule, not copied."""

class BufferExporter:
    """Base class: memoryview(x) shows x._export_buffer()."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class ArrayBase(BufferExporter):
    """The fields of an array."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: Any
    device: Any
    _handle: Any

class NodeBase(BufferExporter):
    """The fields of a value in the graph."""

    op: Any
    inputs: Any
    cached_data: Any
    requires_grad: bool
    grad: Any
    _data: RawData  # behind cached_data, and behind grad: a tracer reads these
    _grad: Adjoint
    _stamp: int
    _replaced: int
    shape: tuple[int, ...]
    dtype: Any

    def _init(self, op: Any, inputs: Any, cached_data: Any, requires_grad: bool, /) -> None:
        """Sets the fields, and numbers and counts the node."""

def make_array(
    cls: type[A],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    dtype: Any,
    device: Any,
    handle: Any,
    /,
) -> A:
    """An array of a class over ArrayBase, nothing checked."""

def empty_array(cls: type[A], shape: tuple[int, ...], dtype: str, device: Any, /) -> A:
    """A row-major array in a new buffer, uninitialised."""

def joined_shape(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | int:
    """The shape that shapes broadcast to; or, as a negative number, the axis where they differ."""

def result_strides(shape: tuple[int, ...], operands: tuple[object, ...]) -> tuple[int, ...] | None:
    """The strides of a result of these operands; None if it is row-major."""

def view_reshaped(a: Any, shape: Any, /) -> NDArray | None:
    """A view of a row-major array in another shape; None where there is more to decide."""

def view_stretched(a: Any, shape: Any, /) -> NDArray | None:
    """A view that repeats axes of size 1; None where it does not fit."""

def view_cut(a: Any, index: Any, /) -> NDArray | None:
    """a[index] for ints, slices, `...` and None; None where there is more to decide."""

def make_node(cls: type[N], op: Any, inputs: Any, cached_data: Any, requires_grad: bool, /) -> N:
    """A node of a class over NodeBase, numbered and counted."""

def set_face(which: int, base: type[NodeBase], face: type[NodeBase], /) -> None:
    """Let operators that take a value of the face give values of the face, in place of base."""

def apply(cls: type[N], op: Any, inputs: Any, /) -> N:
    """The value of op(*inputs): it keeps op and inputs if a gradient may be asked for."""

def is_grad_enabled() -> bool:
    """Do operators record what they do, on this thread?"""

def set_grad_enabled(enabled: bool, /) -> bool:
    """Lets operators of this thread record what they do, or not; gives what was set before."""

def walk_back(
    outputs: Any,
    out_grads: Any,
    store: Callable[[Any, Any], None],
    differentiate: Callable[[Any, Any], Any],
    run_hooks: Callable[[Any, Any], Any],
    reached: set[int] | None,
    ends: set[int],
    freed: Any,
    /,
) -> None:
    """Reverse mode: needle/autograd/graph.py's `propagate`, which has the steps."""

def have_forms(node: Any, gradients: Any, /) -> bool:
    """Are gradients plainly of the shapes and dtypes of the node's inputs?"""

def next_stamp() -> int:
    """The next number in the order in which nodes are made."""

def note_replaced(nodes: list[Any], /) -> None:
    """Note that the nodes are given other data now, in `_replaced`."""

def count_nodes() -> int:
    """How many nodes there are now."""

def changed_places(places: list[Any], references: list[Any], wanted: list[Any]) -> list[int]: ...
def same_names(places: list[Any], names: list[str], values: list[Any]) -> bool: ...
def take_memory(
    places: list[Any], reads: list[Any], homes: list[Any], buffers: list[Any]
) -> list[int]: ...
def take_gradients(homes: list[Any], buffers: list[Any]) -> list[int]: ...

class DeviceBase:
    """A device's kernels: the tracer's while a function is traced."""

    mod: Any

def active_tracer() -> Any:
    """Who traces on this thread, or None."""

def set_tracer(tracer: Any, /) -> Any:
    """Puts a tracer, or None, into this thread's slot; gives what was there before."""

# CUDA

@final
class cuda:  # a module: `from needle._native import cuda`
    """The device behind the CUDA driver."""

    class CudaError(RuntimeError):
        """The driver refused a call, or there is none."""

    @final
    class Kernel:
        """A function of PTX."""

        def __init__(self, ptx: str, name: str) -> None: ...
        @property
        def name(self) -> str: ...
        def launch(
            self,
            grid: int | tuple[int, ...],
            block: int | tuple[int, ...],
            outs: tuple[Operand, ...],
            ins: tuple[Operand, ...],
            tail: bytes = ...,
            shared: int = 0,
        ) -> None:
            """A kernel whose one parameter is a struct: the operands' addresses, then `tail`."""

    @staticmethod
    def set_library(path: str, is_simulated: bool) -> None:
        """Which library is the driver; before anything else here is called."""

    @staticmethod
    def is_available() -> bool:
        """Is there a driver with a device?"""

    @staticmethod
    def why_unavailable() -> str: ...
    @staticmethod
    def is_simulated() -> bool: ...
    @staticmethod
    def properties() -> dict[str, Any]: ...
    @staticmethod
    def synchronize() -> None: ...
    @staticmethod
    def empty(size: int, dtype: str) -> Buffer: ...
    @staticmethod
    def copy_in(out: Buffer, address: int) -> None:
        """From the host's memory."""

    @staticmethod
    def copy_out(a: Buffer, address: int) -> None:
        """To the host's memory."""

    @staticmethod
    def memory_stats() -> dict[str, int]: ...
    @staticmethod
    def reset_peak_memory() -> None: ...
    @staticmethod
    def release_memory() -> None: ...
    @staticmethod
    def set_caching(on: bool) -> None:
        """Off: every block is an allocation of its own."""

    @staticmethod
    def is_recording() -> bool: ...
    @staticmethod
    def set_capturing(on: bool) -> None:
        """Whether sequences become graphs."""

    @staticmethod
    def launch_each(
        find: Callable[[int], Kernel],
        outs: tuple[Operand, ...],
        ins: tuple[Operand, ...],
        tail: bytes = ...,
        name: str = ...,
    ) -> None:
        """An elementwise kernel, whose struct begins with Operands (cuda/kernels/operand.cuh)."""

    @staticmethod
    def record_python(
        function: Callable[[list[tuple[Buffer, int]]], None],
        outs: tuple[Operand, ...],
        ins: tuple[Operand, ...],
    ) -> None: ...
