"""Programs that compute a product's left factor: the same bits as the program, then the product."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from needle import _native
from needle.backend.protocol import WIDENED
from needle.dtype import bfloat16, bool_, float32, float64, int8
from needle.tile import program as tp
from needle.tile.program import Builder, Scalar, Symbol, program

from .operands import (
    DEVICES,
    READABLE,
    WRITABLE,
    Spec,
    blank,
    contiguous,
    mild,
    needs_amx,
    on_devices,
    sliced,
    transposed,
    whole_memory,
)
from .test_epilogue import SIDES, bias_relu, kept_and_positive, softmax_rows
from .test_threads_equal import assert_equal_for_all_threads


@program
def relu(x: Symbol) -> Symbol:
    return x.maximum(0.0)


@program
def norm(x: Symbol, scale: Symbol, shift: Symbol) -> Symbol:
    return (x * scale + shift).maximum(0.0)


@program
def scaled_sum(x: Symbol, scale: Scalar, y: Symbol) -> Symbol:
    return tp.tanh(x * scale) + y


@program
def widened(x: Symbol) -> Symbol:
    return tp.cast(x, float32)


@program
def chosen(x: Symbol, mask: Symbol) -> Symbol:
    return tp.where(mask, x, 0.0)


# The program, its inputs' shapes for a factor (m, k), and their dtypes.
PROGRAMS = {
    "relu": (relu, lambda m, k: [(m, k)], [float32]),
    "by columns": (norm, lambda m, k: [(m, k), (1, k), (k,)], [float32] * 3),
    "by rows": (norm, lambda m, k: [(m, k), (m, 1), ()], [float32] * 3),
    "outer": (norm, lambda m, k: [(m, 1), (1, k), (1, 1)], [float32] * 3),
    "two": (scaled_sum, lambda m, k: [(m, k), (), (m, k)], [float32] * 3),
    "bfloat16": (widened, lambda m, k: [(m, k)], [bfloat16]),
    "int8": (widened, lambda m, k: [(m, k)], [int8]),
    "masked": (chosen, lambda m, k: [(m, k), (m, k)], [float32, bool_]),
}
# What follows: the program, the shapes of its other inputs, its outputs' dtypes.
AFTER = {
    "nothing": (None, lambda m, n: [], [float32]),
    "bias": (bias_relu, lambda m, n: [(1, n)], [float32]),
    "two outputs": (kept_and_positive, lambda m, n: [], [float32, bool_]),
}


def specs(kind, m, k, layout=contiguous):
    """Of the program's inputs; the layout is that of whole matrices."""
    _, shapes, dtypes = PROGRAMS[kind]
    pairs = enumerate(zip(shapes(m, k), dtypes, strict=True))
    return [
        Spec(mild(d, s, 3 + i), d, layout if s == (m, k) else contiguous) for i, (s, d) in pairs
    ]


def check(device, kind, after, outs, ins, b, others=()):
    """On the device, against its own run, then matmul or matmul_then; all but names are Specs."""
    source, _, dtypes = PROGRAMS[kind]
    typed = source.for_dtypes(tuple(dtypes), (float32,))
    then, _, results = AFTER[after]
    if then is not None:
        then = then.for_dtypes((float32,) * (1 + len(others)), tuple(results))
    given, y, rest = ([s.on(device) for s in specs] for specs in (ins, [b], others))
    found, expected = ([s.on(device) for s in outs] for _ in "12")
    device.mod.matmul_of(typed, found, given, *y, then, rest)
    shape = outs[0].shown.shape
    factor = blank((*shape[:-1], b.shown.shape[-2]), float32).on(device)
    device.mod.run(typed, [factor], given, 0)
    if then is None:
        device.mod.matmul(expected[0], factor, *y)
    else:
        device.mod.matmul_then(then, expected, factor, *y, rest)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(whole_memory(mine), whole_memory(theirs))


def check_sizes(device, kind, after, sizes, left=contiguous, right=contiguous, result=contiguous,
                stored=float32):  # fmt: skip
    m, k, n = sizes
    _, shapes, dtypes = AFTER[after]
    others = [Spec(mild(float32, s, 9), float32) for s in shapes(m, n)]
    b = Spec(mild(stored, (k, n), 2), stored, right)
    outs = [blank((m, n), dtype, result) for dtype in dtypes]
    check(device, kind, after, outs, specs(kind, m, k, left), b, others)


@on_devices
@given(
    sizes=st.tuples(SIDES, SIDES, SIDES),
    kind=st.sampled_from(sorted(PROGRAMS)),
    after=st.sampled_from(sorted(AFTER)),
    layouts=st.tuples(*[st.sampled_from(READABLE)] * 2, st.sampled_from(WRITABLE)),
    stored=st.sampled_from([float32, float32, *sorted(WIDENED)]),
)
@settings(max_examples=100, deadline=None)
def test_any_shape(device, sizes, kind, after, layouts, stored):
    check_sizes(device, kind, after, sizes, *layouts, stored)


LARGE = [
    (130, 200, 150), (75, 2100, 530), (90, 1024, 70), (300, 520, 2300), (200, 512, 1024),
    (500, 2050, 800),
]  # fmt: skip


@on_devices
@pytest.mark.parametrize("after", sorted(AFTER))
@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_large(device, kind, after):
    """Where B is packed, in regions of k; rows that would share a set; several tiles of columns."""
    for sizes in LARGE:
        for right in (contiguous, transposed):
            check_sizes(device, kind, after, sizes, right=right)


@on_devices
@pytest.mark.parametrize("after", sorted(AFTER))
@pytest.mark.parametrize(
    "sizes",
    [(1, 40, 50), (5, 300, 600), (40, 60, 1), (40, 60, 8), (29, 1, 9), (40, 0, 30), (0, 4, 30),
     (40, 30, 0), (33, 5000, 40), (30, 12000, 20)],
)  # fmt: skip
def test_few_and_none(device, after, sizes):
    """Few rows or columns, an empty sum, and rows that are too long for a tile."""
    for kind in ("relu", "by columns", "by rows"):
        check_sizes(device, kind, after, sizes)


@needs_amx
@pytest.mark.parametrize("after", sorted(AFTER))
@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_on_tiles_of_amx(amx, kind, after):
    for sizes in ((340, 427, 557), (70, 64, 64)):
        check_sizes(DEVICES[-1], kind, after, sizes)


@on_devices
@pytest.mark.parametrize("after", ["nothing", "bias"])
def test_batches(device, after):
    x = [Spec(mild(float32, s, i), float32) for i, s in enumerate([(3, 1, 9, 8), (8,), (4, 1, 1)])]
    b = Spec(mild(float32, (4, 8, 7), 5), float32)
    others = [Spec(mild(float32, (7,), 6), float32)] if after == "bias" else []
    check(device, "by columns", after, [blank((3, 4, 9, 7), float32, sliced)], x, b, others)


@pytest.mark.parametrize("shared", ["input", "b", "bias"])
@pytest.mark.parametrize("after", ["nothing", "bias"])
def test_an_output_may_be_an_input(shared, after):
    n, device = 70, DEVICES[-1]
    typed = relu.for_dtypes((float32,))
    then = bias_relu.for_dtypes((float32, float32)) if after == "bias" else None
    results = []
    for is_shared in (False, True):
        x, b, bias, out = (Spec(mild(float32, (n, n), i), float32).on(device) for i in range(4))
        out = {"input": x, "b": b, "bias": bias}[shared] if is_shared else out
        others = () if then is None else (bias,)
        device.mod.matmul_of(typed, (out,), (x,), b, then, others)
        results.append(out.numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("sizes", [(257, 300, 129), (90, 2100, 530), (700, 90, 1500), (3, 40, 500)])
def test_threads(sizes):
    m, k, n = sizes
    typed = norm.for_dtypes((float32,) * 3, (float32,))
    then = bias_relu.for_dtypes((float32,) * 2)
    assert_equal_for_all_threads(
        lambda o, x, s, t, b, bias: _native.matmul_of(typed, (o,), (x, s, t), b, then, (bias,)),
        blank((m, n), float32),
        *(Spec(mild(float32, s), float32) for s in ((m, k), (1, k), (m, 1), (k, n), (n,))),
    )


def random_program(seed):
    """Elementwise functions of a matrix, a row and a column, one after the other."""
    rng = np.random.default_rng(seed)
    builder = Builder()
    values = [builder.input("full") for _ in range(4)]
    for _ in range(int(rng.integers(1, 12))):
        x, y = (values[int(i)] for i in rng.integers(0, len(values), 2))
        values.append([x + y, x * y, x - y, x.maximum(y), tp.tanh(x)][int(rng.integers(5))])
    return builder.finish("random", ["x", "row", "column", "matrix"], values[-1])


@on_devices
@given(seed=st.integers(0, 10**6), sizes=st.tuples(SIDES, SIDES, SIDES))
@settings(max_examples=40, deadline=None)
def test_random_programs(device, seed, sizes):
    m, k, n = sizes
    typed = random_program(seed).for_dtypes((float32,) * 4)
    shapes = ((m, k), (1, k), (m, 1), (m, k))
    ins = [Spec(mild(float32, s, i), float32).on(device) for i, s in enumerate(shapes)]
    b = Spec(mild(float32, (k, n), 7), float32).on(device)
    found, expected = (blank((m, n), float32).on(device) for _ in "12")
    factor = blank((m, k), float32).on(device)
    device.mod.matmul_of(typed, [found], ins, b)
    device.mod.run(typed, [factor], ins, 0)
    device.mod.matmul(expected, factor, b)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_errors():
    def array(*shape, dtype=float32):
        return blank(shape, dtype).on(DEVICES[-1])

    first, after = norm.for_dtypes((float32,) * 3), bias_relu.for_dtypes((float32, float32))
    x, s, y, out, bias = array(40, 5), array(5), array(5, 30), array(40, 30), array(30)

    def call(program=first, outs=(out,), ins=(x, s, s), b=y, then=after, others=(bias,)):
        _native.matmul_of(program, outs, ins, b, then, others)

    call()
    call(then=None, others=())
    for wrong, message in [
        ({"program": softmax_rows(), "ins": (x,)}, "elementwise"),
        ({"program": kept_and_positive.for_dtypes((float32,)), "ins": (x,)}, "one full float32"),
        ({"ins": (x, s)}, "expected 3, got 2"),
        ({"ins": (array(40, 6), s, s)}, "broadcast|shape"),
        ({"ins": (array(1, 40, 5), s, s)}, "axes"),
        ({"ins": (array(2, 40, 5), s, s)}, "axes|shape"),
        ({"b": array(5, 31)}, "inner dimensions differ"),
        ({"b": array(5)}, "expected matrices"),
        ({"b": array(6, 30)}, "broadcast|shape"),
        ({"outs": ()}, "at least one"),
        ({"outs": (out, out)}, "expected 1, got 2"),
        ({"outs": (out, out), "then": None, "others": ()}, "expected one"),
        ({"then": None}, "no others"),
        ({"others": ()}, "expected 1, got 0"),
        ({"then": softmax_rows(), "others": ()}, "elementwise"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(**wrong)
    for wrong in (
        {"ins": (array(40, 5, dtype=float64), s, s)},
        {"b": array(5, 30, dtype=float64)},
        {"outs": (array(40, 30, dtype=float64),), "then": None, "others": ()},
    ):
        with pytest.raises((TypeError, ValueError), match="float64"):
            call(**wrong)
