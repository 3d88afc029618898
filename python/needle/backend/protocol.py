"""The contract that a device fulfils: about thirty kernels over strided operands.

An *operand* is anything with `_handle`, `shape`, `strides`, `offset` and `dtype`; strides and
offset count elements. In practice it is an NDArray. The caller allocates every output (with
`empty`), checks shapes and dtypes, and raises the user's errors; a device may trust the meaning of
what it gets, but still refuses operands that reach outside their buffers.

Rules that hold for every kernel:

- Operands may have any strides: transposed, broadcast (0), negative. Outputs never overlap
  themselves. An output may be the same view as an input of the same shape (in-place), and overlap
  an input in no other way.
- Elementwise inputs broadcast against `out.shape` by NumPy's rules.
- The inputs of one call have one dtype, unless a kernel says otherwise. Python scalars take it.
- Integers wrap around. float16 and bfloat16 compute in float32 and round once, to nearest even.
- Results do not depend on the number of threads.
- Empty arrays (a dimension of 0) and 0-d arrays are ordinary.

`reference.py` is this contract in NumPy: where words and reference disagree, it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .. import _native
from ..dtype import DType, Scalar as Scalar, bfloat16, bool_, float16, int8

if TYPE_CHECKING:
    from ..tile.program import TypedProgram
    from ..types import NumpyArray
    from .c_function import CFunction

Steps = tuple[int, ...]

# The elementwise functions, each with its kind, as native/common/elementwise.def lists them.
UNARY, BINARY = _native.UNARY, _native.BINARY
KINDS: dict[str, str] = UNARY | BINARY


class Blocking(NamedTuple):
    """How tile programs cut rows and columns, which decides how sums are rounded."""

    tile_bytes: int
    rows_at_once: int
    stretch: int
    most_pieces: int
    grain: int
    line_rows: int


BLOCKING = Blocking(**_native.BLOCKING)
# The reductions, each with its kind (native/common/reduce.def); what there is of no elements, a
# number, LOWEST or HIGHEST; the instructions of tile programs that are made of them.
REDUCE = {name: kind for name, (kind, _) in _native.REDUCE.items()}
OF_NOTHING = {name: nothing for name, (_, nothing) in _native.REDUCE.items()}
ROW_REDUCTIONS = {f"row_{name}": name for name, kind in REDUCE.items() if kind != "truth"}
# What a value of a tile program has one of: the call, each row, element, or position in the row.
VALUE_KINDS = SCALAR, ROW, FULL, COLUMN = "scalar", "row", "full", "column"

# What a kernel writes: the operands named here, else `out` or `outs`.
OUTPUTS: dict[str, tuple[str, ...]] = {
    "attention": ("out", "lse"),
    "attention_backward": ("dq", "dk", "dv", "ds"),
    "recurrence": ("h", "c_last", "kept"),
    "recurrence_backward": ("dx", "ds", "dh0", "dc0"),
}
# What the right factor of a product may be stored in beside a float32 one: weights, mostly.
WIDENED = frozenset({float16, bfloat16, int8})
# Kernels that need what their outputs held before.
READS_OUTPUTS = frozenset({"scatter"})


def takes(name: str, dtype: DType) -> bool:
    """Has an elementwise function a meaning for a dtype?"""
    kind = KINDS[name]
    if dtype.is_floating:
        return kind not in ("integer", "bits")
    return kind != "floating" and (dtype is not bool_ or kind not in ("number", "integer"))


class Outside(NamedTuple):
    """An index that its axis does not have: in which of the index operands, and the axis's size."""

    operand: int
    value: int
    size: int


def out_of_range(operand: int, index: int, size: int) -> IndexError:
    """The error for it; `outside` tells what was found."""
    error = IndexError(
        f"[index] index {index} is out of bounds for axis of size {size} "
        f"(index array number {operand})"
    )
    vars(error)["outside"] = Outside(operand, index, size)
    return error


class Handle(Protocol):
    """A typed, flat piece of device memory. Weak references to it must be possible: writes in place
    are noted by them (ndarray/versions.py)."""

    @property
    def size(self) -> int:
        """In elements."""

    @property
    def dtype(self) -> Any:
        """What dtype_of takes."""

    def ptr(self) -> int:
        """The address, or any number that tells handles apart."""


class CallSequence(Protocol):
    """Kernel calls that are recorded once and run as one, without Python in between.

    Between `start` and `stop`, the kernels that this thread calls are recorded instead of run.
    Their operands are in placeholders: memory at a byte of a *slot*. A run is given the memory of
    every slot; slot 0 is the arena, where intermediate values share memory."""

    def __len__(self) -> int: ...
    def placeholder(self, slot: int, byte_offset: int, size: int, dtype: Any, written: bool) -> Any:
        """A handle that stands for memory of a slot."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def run(self, buffers: list[Any]) -> None: ...
    def run_timed(self, buffers: list[Any]) -> list[float]:
        """Run, and give the seconds that each call took."""

    def side_by_side(self, sections: list[list[int]]) -> None:
        """Let these groups of calls, by their numbers, run concurrently."""


@dataclass(frozen=True)
class Offers:
    """What a device offers to compiled functions beyond the kernels of `Backend`: each is there, or
    absent. Without a sequence, calls are made one by one, and every value has memory of its own."""

    sequence: Callable[[], CallSequence] | None = None  # and `run_loop` and `run_python` for it
    concurrency: bool = False  # `CallSequence.side_by_side`
    c_functions: bool = False  # `run_compiled`: tile programs that were built in C
    epilogues: bool = True  # `matmul_then`, `conv_then`: a program on the blocks of a product
    prologues: Callable[[], bool] = bool  # is `matmul_of`, a program on what it reads, a gain?
    prepacking: bool = False  # handles count their writes (`version`), so copies can be kept
    has_built_in: Callable[[TypedProgram], bool] = lambda _: False  # a loop of its own for it?


class Operand(Protocol):
    """A strided view of a handle."""

    _handle: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType


class Backend(Protocol):
    """The kernels of one device."""

    # memory ---------------------------------------------------------------------------------

    def empty(self, size: int, dtype: DType) -> Handle:
        """A new handle of `size` elements, uninitialised. MemoryError when there is no room."""

    def from_numpy(self, array: NumpyArray, dtype: DType) -> Handle:
        """A new handle with a copy of a C-contiguous array (stored as `dtype.storage`)."""

    def to_numpy(self, a: Operand) -> NumpyArray:
        """A new C-contiguous array with a's elements; bfloat16 widens to float32."""

    # elementwise ----------------------------------------------------------------------------

    def fill(self, out: Operand, value: Scalar) -> None:
        """out[...] = value"""

    def copy(self, out: Operand, a: Operand) -> None:
        """out[...] = a, cast to out.dtype as NumPy's astype does (floats to ints truncate)."""

    def unary(self, name: str, out: Operand, a: Operand) -> None:
        """out = name(a), a name of UNARY on a dtype that it takes. A predicate gives bool, all
        others the dtype of a."""

    def binary(self, name: str, out: Operand, a: Operand | Scalar, b: Operand | Scalar) -> None:
        """out = name(a, b), a name of BINARY; at most one of a, b is a Python scalar."""

    def where(self, out: Operand, cond: Operand, a: Operand, b: Operand) -> None:
        """out = a where cond (bool) else b; a, b and out share a dtype."""

    # reductions -----------------------------------------------------------------------------

    def reduce(self, name: str, out: Operand, a: Operand) -> None:
        """Reduce the axes where out.shape is 1 (out has a's number of axes), a name of REDUCE.

        Totals (sum, prod): a.dtype may differ from out.dtype, elements are cast to it. Truth (any,
        all): out is bool. Extremes (max, min): out has a's dtype; NaN if there is one, never empty.
        An empty sum is 0, an empty prod 1."""

    def arg_reduce(self, name: str, out: Operand, a: Operand, axis: int) -> None:
        """argmax, argmin along one axis (out.shape[axis] == 1, int64): the first one; NaN wins."""

    def scan(self, name: str, out: Operand, a: Operand, axis: int) -> None:
        """cumsum, cumprod along one axis; a.dtype may differ from out.dtype as in reduce."""

    def mix(
        self, out: Operand, a: Operand,
        starts: Operand, places: Operand, weights: Operand, axis: int,
    ) -> None:  # fmt: skip
        """out = m a along one axis, for a sparse matrix m (out.shape[axis], a.shape[axis]):

        out[..., j, ...] = Σ weights[e] a[..., places[e], ...] for starts[j] <= e < starts[j + 1],
        added in order. All are float32 or float64, but starts and places int64. starts begins
        anywhere and never falls; what is out of range raises out_of_range (of operand 0, starts,
        or 1, places) before anything is written."""

    # tile programs --------------------------------------------------------------------------

    def run(
        self,
        program: TypedProgram,
        outs: Sequence[Operand],
        ins: Sequence[Operand],
        inner: int = 1,
    ) -> None:
        """Run a tile program (program.py) over the broadcast of all operands' shapes.

        The last `inner` axes of that shape are the row. The operands have the program's dtypes.
        Full outputs have the whole shape, row operands 1 on the row's axes, column outputs 1 on
        all others, scalars have one element. Row sums and column sums of float32 are as accurate
        as those of `reduce`."""

    def run_each(
        self,
        program: TypedProgram,
        calls: Sequence[tuple[Sequence[Operand], Sequence[Operand]]],
    ) -> None:
        """Run a program of elementwise instructions for many (outs, ins), in any order."""

    def run_c(
        self, function: CFunction, outs: Sequence[Operand], ins: Sequence[Operand], count: int
    ) -> None:
        """The pieces [begin, end) of [0, count) of the user's C function, in any order.

        All operands are compact, and outs overlap nothing."""

    # linear algebra -------------------------------------------------------------------------

    def matmul(self, out: Operand, a: Operand, b: Operand) -> None:
        """out (..., M, N) = a (..., M, K) @ b (..., K, N); leading axes broadcast against out's.

        Half precision accumulates in float32; bool means any(a & b). Where out and a are float32, b
        may be of a dtype in WIDENED too; its elements count as floats."""

    def matmul_then(
        self,
        program: TypedProgram,
        outs: Sequence[Operand],
        a: Operand,
        b: Operand,
        ins: Sequence[Operand] = (),
    ) -> None:
        """Run an elementwise program whose first input is the float32 product a @ b (of matmul).

        Its outputs have the product's shape, its other inputs, `ins`, broadcast to it. If a and b
        are matrices, the program may also reduce the product's rows (`TypedProgram.reduces_rows`);
        row values have shape (M, 1). The results are those of matmul, then run, in every bit; the
        product itself is not stored."""

    def matmul_of(
        self,
        program: TypedProgram,
        outs: Sequence[Operand],
        ins: Sequence[Operand],
        b: Operand,
        then: TypedProgram | None = None,
        others: Sequence[Operand] = (),
    ) -> None:
        """out = a @ b, where a (..., M, K) is what an elementwise program makes of `ins`, which
        broadcast to that shape (of out's first axes and b's rows): its one full float32 output.
        No instruction is random.

        With `then`, the product goes through a second program, as in matmul_then, whose outputs are
        `outs` and whose other inputs are `others`. The results are those of run, then matmul or
        matmul_then, in every bit; a is not stored where that would take longer."""

    # Convolutions meet three operands: images x (N, S..., C) and y (N, P..., O), filters w
    # (K..., C/groups, O), with one to three spatial axes. Along each of them,
    #
    #     output p meets through tap k the input p * stride + k * dilation - padding
    #
    # if that is one, and otherwise nothing (what lies outside counts as zero). stride, padding and
    # dilation have one number per axis. Group g joins the g-th part of C with the g-th part of O.
    # Sums are accumulated as in matmul.

    def conv(
        self, out: Operand, x: Operand, w: Operand,
        stride: Steps, padding: Steps, dilation: Steps, groups: int,
    ) -> None:  # fmt: skip
        """out = y: at each output, the sum of x w over the taps and channels that it meets."""

    def conv_then(
        self, program: TypedProgram, outs: Sequence[Operand], x: Operand, w: Operand,
        shape: Steps, stride: Steps, padding: Steps, dilation: Steps, groups: int,
        ins: Sequence[Operand] = (),
    ) -> None:  # fmt: skip
        """Run an elementwise program whose first input is y in float32, of this `shape`, as a
        matrix of positions by channels (N P..., O).

        Its outputs have that matrix's shape, its other inputs, `ins`, broadcast to it. The results
        are those of conv, then run, in every bit; y itself is not stored."""

    def conv_by_data(
        self, out: Operand, y: Operand, w: Operand,
        stride: Steps, padding: Steps, dilation: Steps, groups: int,
    ) -> None:  # fmt: skip
        """out = x, the adjoint of conv in x: at each input, the sum of y w over what it meets."""

    def conv_by_weight(
        self, out: Operand, x: Operand, y: Operand,
        stride: Steps, padding: Steps, dilation: Steps, groups: int,
    ) -> None:  # fmt: skip
        """out = w, the adjoint of conv in w: at each tap, the sum of x y over what meets there."""

    # sequences ------------------------------------------------------------------------------

    def attention(
        self, out: Operand, lse: Operand,
        q: Operand, k: Operand, v: Operand, mask: Operand | None, scale: float, causal: bool,
    ) -> None:  # fmt: skip
        """out (..., T, E) = p v and lse (..., T, 1) = ln Σ e^s over keys, where p = softmax(s)
        and s = q kᵀ scale + mask, for q (..., T, D), k (..., S, D), v (..., S, E).

        The mask (..., T, S) is added, or (bool) says which keys are seen; with `causal`, query i
        sees the keys up to i. A query that sees none gets 0. The axes in front broadcast against
        out's. lse and a mask of numbers are float32 for half types, which compute in it."""

    def attention_backward(
        self, dq: Operand, dk: Operand, dv: Operand, ds: Operand | None,
        q: Operand, k: Operand, v: Operand, mask: Operand | None,
        y: Operand, lse: Operand, g: Operand, g_log: Operand, scale: float, causal: bool,
    ) -> None:  # fmt: skip
        """The adjoints of q, k, v and (if wanted) s, given y and lse, which attention gave,
        and their adjoints g and g_log:

        dv = pᵀ g,  ds = p (g vᵀ - Σ g y + g_log),  dq = ds k scale,  dk = dsᵀ q scale

        All outputs have the same axes in front, which those of the inputs broadcast against; ds has
        lse' dtype."""

    def recurrence(
        self, cell: str, h: Operand, c_last: Operand | None, kept: Operand,
        x: Operand, h0: Operand, c0: Operand | None, w: Operand, bias: Operand | None,
    ) -> None:  # fmt: skip
        """All steps of a recurrent cell with G gates: h (T, B, H) from h0 (B, H) on, where x
        (T, B, G H) is what the inputs add to the gates, and s = h w + bias, for w (H, G H) and bias
        (1, G H), what the state before the step does.

        - "tanh", "relu" (G = 1):  h = f(x + s)
        - "lstm" (G = 4):  i, f, g, o = σ, σ, tanh, σ of x + s,  c = f c + i g,  h = o tanh(c)
        - "gru" (G = 3):  r, z = σ(x + s),  n = tanh(x_n + r s_n),  h = n + z (h - n)

        c0 and c_last (B, H) are the LSTM's first and last c. kept (T, B, K H) is what backward
        needs: nothing (K = 0); i, f, g, o and c (K = 5); r, z, n and s_n (K = 4). It is float32 for
        half types, and the state is carried in float32 too."""

    def recurrence_backward(
        self, cell: str, dx: Operand, ds: Operand | None, dh0: Operand, dc0: Operand | None,
        h: Operand, kept: Operand, h0: Operand, c0: Operand | None, w: Operand,
        g_h: Operand, g_c: Operand | None,
    ) -> None:  # fmt: skip
        """The adjoints of x, h0, c0 and ("gru" only; for the others it is dx) of s, given h and
        kept, which recurrence gave, and the adjoints g_h of h and g_c of c_last."""

    # indexing and order ---------------------------------------------------------------------

    def gather(self, out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None:
        """out[j..., r...] = a[i1[j...], ..., iK[j...], r...] for K int64 index operands.

        The indices broadcast against out's leading axes J = out.ndim - (a.ndim - K). Negative
        indices count from the end; others outside an axis raise out_of_range before anything is
        written."""

    def scatter(self, name: str, out: Operand, indices: tuple[Operand, ...], a: Operand) -> None:
        """The reverse: out[i1[j...], ..., iK[j...], r...] (name) a[j..., r...], in order of j.

        name is "set" (the last one wins) or "add". Indices are checked as in gather."""

    def argsort(self, out: Operand, a: Operand, axis: int, descending: bool) -> None:
        """Stable order along one axis, int64; NaN counts as the largest. An out that is shorter
        along the axis gets the first of the order."""

    def searchsorted(self, out: Operand, sorted_: Operand, values: Operand, right: bool) -> None:
        """out (int64) = where each value would go into the sorted 1-D operand."""

    def nonzero(self, a: Operand) -> Handle:
        """The coordinates of a's true elements in C order: an int64 handle of count * a.ndim."""

    # random ---------------------------------------------------------------------------------

    def random(self, name: str, out: Operand, seed: int, offset: int) -> None:
        """Fill a compact floating out from the Philox 4x32-10 stream of `seed` (64 bits).

        Word w of the stream is lane w % 4 of the block with counter w // 4. Element i takes

        - "uniform", in [0, 1): word offset + i as (w >> 8) * 2**-24; float64 takes the words
          w1, w2 = 2 * (offset + i), + 1 as ((w1 << 32 | w2) >> 11) * 2**-53;
        - "normal": the words w1, w2 = 2 * (offset + i), + 1 as sqrt(-2 ln u1) * cos(2 pi u2) with
          u1 = ((w1 >> 8) + 1) * 2**-24 and u2 = (w2 >> 8) * 2**-24, in float64, rounded once.

        Half types round the float32 value down, so that 1 is never reached by "uniform"."""

    def random_from(self, name: str, out: Operand, counter: Operand) -> None:
        """The same, with seed and offset read from an int64 operand of shape (2,)."""
