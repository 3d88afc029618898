"""Single kernels in both libraries: what kernels.py times.

A work is two calls that give the same arrays. Forward + backward sets gradients anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from peer import torch

import needle as ndl
from needle import _native

F = ndl.nn.functional
TF = torch.nn.functional
Call = Callable[[], Any]
Array = np.ndarray[Any, Any]

LARGE, SMALL = (4096, 1024), (256, 384)


class Work(NamedTuple):
    """One row: its name, the speed asked for, and what makes the two calls (ours, theirs)."""

    name: str
    bar: float
    make: Callable[[], tuple[Call, Call]]
    instruction_set: str | None = None  # to run on, if it is not the best
    needs_amx: bool = False  # the bar is one for AMX, and means nothing without it
    operations: float | None = None  # given if the bar is a fraction of the AMX peak
    tolerance: float = 1e-4  # of the results, relative to the largest


def works() -> Iterator[Work]:
    yield from gemms()
    yield from convolutions()
    yield from row_functions()
    yield from movements()
    yield Work("adam 10M", 1.0, adam)
    yield Work("lstm layer", 1.3, lstm_layer)
    yield Work("attention 8x6x256x64 causal", 1.0, partial(attention, (8, 6, 256, 64), True))
    yield Work("attention 1x12x2048x64", 1.0, partial(attention, (1, 12, 2048, 64), False))


def draw(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def both(array: Array, gradient: bool = False) -> tuple[ndl.Tensor, torch.Tensor]:
    """One array as a tensor of each library."""
    return (
        ndl.tensor(array, requires_grad=gradient),
        torch.tensor(array, requires_grad=gradient),
    )


def forward(f: Callable[..., Any], tf: Callable[..., Any], *arrays: Array) -> tuple[Call, Call]:
    ours, theirs = zip(*map(both, arrays), strict=True)
    return partial(f, *ours), partial(tf, *theirs)


def forward_backward(
    f: Callable[..., Any], tf: Callable[..., Any], *arrays: Array
) -> tuple[Call, Call]:
    """f, and the gradients of its arrays from a random adjoint."""
    ours, theirs = zip(*(both(a, gradient=True) for a in arrays), strict=True)
    adjoint, their_adjoint = both(draw(*f(*ours).shape))

    def step() -> list[Any]:
        for x in ours:
            x.grad = None
        f(*ours).backward(adjoint, create_graph=False)
        return [x.grad for x in ours]

    def their_step() -> list[Any]:
        for x in theirs:
            x.grad = None
        tf(*theirs).backward(their_adjoint)
        return [x.grad for x in theirs]

    return step, their_step


# Matrix products --------------------------------------------------------------------------------


def product(m: int, k: int, n: int, stored: str = "NN", batch: Sequence[int] = ()) -> Any:
    """(m, k) @ (k, n); T marks an operand that is stored transposed."""
    shapes = [(m, k) if stored[0] == "N" else (k, m), (k, n) if stored[1] == "N" else (n, k)]

    def multiply(a: Any, b: Any) -> Any:
        return (a.mT if stored[0] == "T" else a) @ (b.mT if stored[1] == "T" else b)

    return forward(multiply, multiply, *(draw(*batch, *shape) for shape in shapes))


def product_bfloat16(n: int) -> tuple[Call, Call]:
    a, b = draw(n, n), draw(n, n)[::-1].copy()
    ours = [ndl.tensor(x, "bfloat16") for x in (a, b)]
    theirs = [torch.tensor(x).bfloat16() for x in (a, b)]
    return lambda: ours[0] @ ours[1], lambda: theirs[0] @ theirs[1]


def gemms() -> Iterator[Work]:
    squares = [(f"gemm {n}", partial(product, n, n, n)) for n in (512, 1024, 2048)]
    wide = [
        (f"gemm 2048x384x1536{label}", partial(product, 2048, 384, 1536, stored))
        for label, stored in (("", "NN"), (" NT", "NT"), (" TN", "TN"))
    ]
    plain = ("avx512", "avx2", "neon", "baseline")  # without tiles, or dot products of bfloat16
    vectors = next(s for s in _native.instruction_sets() if s in plain)
    for name, make in squares + wide:
        yield Work(f"{name}, {vectors}", 0.95, make, vectors)
    for name, make in squares + wide:
        yield Work(f"{name}, best path", 1.5, make, needs_amx=True)
    for n in (64, 256):
        yield Work(f"gemm {n}", 0.9, partial(product, n, n, n))
    yield Work("gemm 100x784x100", 0.9, partial(product, 100, 784, 100))
    yield Work("gemm 48x(256x64x256)", 0.9, partial(product, 256, 64, 256, batch=(48,)))
    for n in (1024, 2048):
        yield Work(
            f"gemm {n} bfloat16",
            0.4,
            partial(product_bfloat16, n),
            needs_amx=True,
            operations=2.0 * n**3,
            tolerance=2e-2,
        )


# Convolutions -----------------------------------------------------------------------------------

# (channels in, out, size of the filter, stride, side of the picture), times how often it occurs
RESNET9 = {
    (3, 16, 7, 4, 32): 1,
    (16, 32, 3, 2, 8): 1,
    (32, 32, 3, 1, 4): 2,
    (32, 64, 3, 2, 4): 1,
    (64, 128, 3, 2, 2): 1,
    (128, 128, 3, 1, 1): 2,
}
RESNET18 = {
    (3, 64, 3, 1, 32): 1,
    (64, 64, 3, 1, 32): 4,
    (64, 128, 3, 2, 32): 1,
    (64, 128, 1, 2, 32): 1,
    (128, 128, 3, 1, 16): 3,
    (128, 256, 3, 2, 16): 1,
    (128, 256, 1, 2, 16): 1,
    (256, 256, 3, 1, 8): 3,
    (256, 512, 3, 2, 8): 1,
    (256, 512, 1, 2, 8): 1,
    (512, 512, 3, 1, 4): 3,
}


def convolutions() -> Iterator[Work]:
    yield Work("convs of resnet9, batch 128", 1.4, partial(network, RESNET9, 128), tolerance=1e-3)
    yield Work("convs of resnet18, batch 32", 1.05, partial(network, RESNET18, 32), tolerance=1e-3)
    each: dict[str, Callable[[], tuple[Call, Call]]] = {
        "depthwise 3x3": partial(
            conv, "conv2d", (32, 128, 28, 28), (128, 1, 3, 3), padding=1, groups=128
        ),
        "1x1": partial(conv, "conv2d", (32, 256, 28, 28), (64, 256, 1, 1)),
        "7x7 stride 2": partial(
            conv, "conv2d", (8, 3, 112, 112), (64, 3, 7, 7), stride=2, padding=3
        ),
        "conv1d": partial(conv, "conv1d", (16, 128, 512), (128, 128, 3), padding=1),
        "transposed 4x4 stride 2": partial(
            conv, "conv_transpose2d", (16, 64, 16, 16), (64, 32, 4, 4), stride=2, padding=1
        ),
        "dilated 3x3": partial(
            conv, "conv2d", (16, 64, 32, 32), (64, 64, 3, 3), padding=2, dilation=2
        ),
    }
    for name, make in each.items():
        yield Work(f"conv {name}", 0.9, make, tolerance=1e-3)


def channels_last(array: Array, gradient: bool) -> tuple[ndl.Tensor, torch.Tensor]:
    """(N, C, ...) with the channels beside each other in memory."""
    order = (0, array.ndim - 1, *range(1, array.ndim - 1))
    memory = np.ascontiguousarray(np.moveaxis(array, 1, -1))
    ours = ndl.tensor(memory).permute(order).requires_grad_(gradient)
    return ours, torch.tensor(memory).permute(order).requires_grad_(gradient)


def conv(
    name: str, x_shape: Sequence[int], w_shape: Sequence[int], data: bool = True, **options: int
) -> tuple[Call, Call]:
    """Forward, by data (unless it is a first layer) and by weight."""
    x, their_x = channels_last(draw(*x_shape), data)
    w, their_w = both(draw(*w_shape), gradient=True)
    if their_w.ndim == 4:
        their_w = their_w.detach().to(memory_format=torch.channels_last).requires_grad_()
    f, tf = getattr(F, name), getattr(TF, name)
    out = tf(their_x, their_w, **options)
    adjoint, their_adjoint = channels_last(draw(*out.shape), False)

    def step() -> list[Any]:
        x.grad = w.grad = None
        y = f(x, w, **options)
        y.backward(adjoint, create_graph=False)
        return [y, w.grad, x.grad] if data else [y, w.grad]

    def their_step() -> list[Any]:
        their_x.grad = their_w.grad = None
        y = tf(their_x, their_w, **options)
        y.backward(their_adjoint)
        return [y, their_w.grad, their_x.grad] if data else [y, their_w.grad]

    return step, their_step


def network(shapes: dict[tuple[int, ...], int], batch: int) -> tuple[Call, Call]:
    """Every convolution of a network, one after the other."""
    pairs = []
    for (i, o, size, stride, side), times in shapes.items():
        made = conv(
            "conv2d",
            (batch, i, side, side),
            (o, i, size, size),
            data=i != 3,
            stride=stride,
            padding=(size - 1) // 2,
        )
        pairs += [made] * times
    ours, theirs = zip(*pairs, strict=True)
    return partial(_all, ours), partial(_all, theirs)


def _all(steps: Sequence[Call]) -> list[Any]:
    return [result for step in steps for result in step()]


# Rows, elements, movements ----------------------------------------------------------------------


def row_functions() -> Iterator[Work]:
    for shape in (LARGE, SMALL):
        size = f"{shape[0]}x{shape[1]}"
        x = partial(draw, *shape)
        for name in ("softmax", "layer norm", "cross entropy", "gelu"):
            yield Work(f"{name} {size}", 1.5, partial(row_function, name, x))


def row_function(name: str, x: Callable[[], Array]) -> tuple[Call, Call]:
    array = x()
    rows, classes = array.shape
    if name == "softmax":
        return forward_backward(lambda a: F.softmax(a, -1), lambda a: TF.softmax(a, -1), array)
    if name == "layer norm":
        return forward_backward(
            lambda a, w, b: F.layer_norm(a, (classes,), w, b),
            lambda a, w, b: TF.layer_norm(a, (classes,), w, b),
            array,
            draw(classes),
            draw(1, classes)[0],
        )
    if name == "gelu":
        return forward_backward(F.gelu, TF.gelu, array)
    labels, their_labels = both(np.random.default_rng(0).integers(0, classes, rows))
    return forward_backward(
        lambda a: F.cross_entropy(a, labels), lambda a: TF.cross_entropy(a, their_labels), array
    )


def movements() -> Iterator[Work]:
    for shape in (LARGE, SMALL):
        size = f"{shape[0]}x{shape[1]}"
        for name in MOVEMENTS:
            yield Work(f"{name} {size}", 0.9, partial(movement, name, shape))


Both = tuple[Callable[..., Any], Callable[..., Any]]


def _same(f: Callable[..., Any]) -> Both:
    return f, f


# What each is in needle and in PyTorch, of x (rows, columns), y like x, a row, and row numbers.
MOVEMENTS: dict[str, Both] = {
    "sum axis 0": _same(lambda x, y, row, ids: x.sum(0)),
    "sum axis 1": _same(lambda x, y, row, ids: x.sum(1)),
    "max axis 0": (lambda x, y, row, ids: x.max(0), lambda x, y, row, ids: x.amax(0)),
    "max axis 1": (lambda x, y, row, ids: x.max(1), lambda x, y, row, ids: x.amax(1)),
    "argmax axis 0": _same(lambda x, y, row, ids: x.argmax(0)),
    "argmax axis 1": _same(lambda x, y, row, ids: x.argmax(1)),
    "transposed copy": (
        lambda x, y, row, ids: x.T.clone(),
        lambda x, y, row, ids: x.T.contiguous(),
    ),
    "gather rows": _same(lambda x, y, row, ids: x[ids]),
    "cat": (
        lambda x, y, row, ids: ndl.concatenate([x, y], 1),
        lambda x, y, row, ids: torch.cat([x, y], 1),
    ),
    "broadcast add": _same(lambda x, y, row, ids: x + row),
    "comparison": _same(lambda x, y, row, ids: x < y),
    "cast to float64": (
        lambda x, y, row, ids: x.astype("float64"),
        lambda x, y, row, ids: x.double(),
    ),
    "cast to bfloat16": (
        lambda x, y, row, ids: x.astype("bfloat16"),
        lambda x, y, row, ids: x.bfloat16(),
    ),
}


def movement(name: str, shape: tuple[int, int]) -> tuple[Call, Call]:
    rows, columns = shape
    x = draw(rows, columns)
    ids = np.random.default_rng(0).integers(0, rows, rows)
    return forward(*MOVEMENTS[name], x, x[::-1].copy(), draw(columns), ids)


# Optimizers, layers of networks -----------------------------------------------------------------


def adam() -> tuple[Call, Call]:
    """Ten matrices of a million numbers, against PyTorch's fused Adam."""
    pairs = [both(draw(1000, 1000), gradient=True) for _ in range(10)]
    for ours, theirs in pairs:
        ours.grad, theirs.grad = both(0.1 * draw(1000, 1000))
    optimizer = ndl.optim.Adam([ours for ours, _ in pairs], lr=1e-3)
    their_optimizer = torch.optim.Adam([theirs for _, theirs in pairs], lr=1e-3, fused=True)

    def step() -> list[Any]:
        optimizer.step()
        return [ours for ours, _ in pairs]

    def their_step() -> list[Any]:
        their_optimizer.step()
        return [theirs for _, theirs in pairs]

    return step, their_step


def lstm_layer() -> tuple[Call, Call]:
    """seq 40, batch 16, 128 features: forward, and the gradients of input and weights."""
    theirs = torch.nn.LSTM(128, 128)
    ours = ndl.nn.LSTM(128, 128)
    cell = getattr(ours, ours.cells_name)[0]
    pairs = []
    for side in ("ih", "hh"):
        weight, bias = getattr(theirs, f"weight_{side}_l0"), getattr(theirs, f"bias_{side}_l0")
        pairs += [(getattr(cell, f"W_{side}"), weight.T), (getattr(cell, f"bias_{side}"), bias)]
    for mine, other in pairs:
        mine.data = ndl.tensor(other.detach().numpy())
    x, their_x = both(draw(40, 16, 128), gradient=True)
    adjoint, their_adjoint = both(draw(40, 16, 128))

    def step() -> list[Any]:
        ours(x)[0].backward(adjoint, create_graph=False)
        return [x.grad, cell.W_ih.grad, cell.W_hh.grad]

    def their_step() -> list[Any]:
        their_x.grad = None
        theirs.zero_grad()
        theirs(their_x)[0].backward(their_adjoint)
        return [their_x.grad, theirs.weight_ih_l0.grad.T, theirs.weight_hh_l0.grad.T]

    return step, their_step


def attention(shape: tuple[int, ...], causal: bool) -> tuple[Call, Call]:
    q = draw(*shape)
    return forward_backward(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=causal),
        lambda *qkv: TF.scaled_dot_product_attention(*qkv, is_causal=causal),
        q,
        q[::-1, ::-1].copy(),
        q[..., ::-1].copy(),
    )
