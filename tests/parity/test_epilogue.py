"""Programs on the blocks of a product: the same bits as the product, then the program."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from needle import _native
from needle.backend.protocol import WIDENED
from needle.dtype import bfloat16, bool_, float32, float64
from needle.tile import program as tp
from needle.tile.program import Builder, Row, Scalar, Symbol, program

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
from .test_threads_equal import assert_equal_for_all_threads


@program
def bias_relu(x: Symbol, bias: Symbol) -> Symbol:
    return (x + bias).maximum(0.0)


@program
def scaled_residual(x: Symbol, scale: Scalar, residual: Symbol) -> Symbol:
    return x * scale + residual


@program
def kept_and_positive(x: Symbol) -> tuple[Symbol, Symbol]:
    """A store of the product itself comes before its last use."""
    return x, x.square() > 1.0


@program
def halved(x: Symbol) -> Symbol:
    return tp.cast(tp.exp(x * 0.5), bfloat16)


@program
def dropped(x: Symbol) -> tuple[Symbol, Symbol]:
    """Every element has a number of its own, wherever its block is."""
    kept = tp.random(12345, 7) < 0.7
    return x * tp.cast(kept, x) / 0.7, kept


@program
def error_and_slope(x: Symbol, target: Symbol, weight: Row) -> tuple[Symbol, Symbol, Symbol]:
    """A loss per row beside its gradient, as of a mean squared error."""
    d = x - target
    return tp.row_sum(d.square()) * 0.5 * weight, d * 2.0, tp.row_max(x)


@program
def norm(x: Symbol) -> Symbol:
    """Nothing full is stored."""
    return tp.row_sum(x.square()).sqrt()


# The program, the shapes of its inputs after the product (of (m, n)), and its outputs' dtypes.
PROGRAMS = {
    "bias": (bias_relu, lambda m, n: [(1, n)], [float32]),
    "per row": (bias_relu, lambda m, n: [(m, 1)], [float32]),
    "residual": (scaled_residual, lambda m, n: [(), (m, n)], [float32]),
    "two outputs": (kept_and_positive, lambda m, n: [], [float32, bool_]),
    "cast": (halved, lambda m, n: [], [bfloat16]),
    "random": (dropped, lambda m, n: [], [float32, bool_]),
    "row sums": (error_and_slope, lambda m, n: [(m, n), (m, 1)], [float32, float32, float32]),
    "only row sums": (norm, lambda m, n: [], [float32]),
}
ELEMENTWISE = sorted(set(PROGRAMS) - {"row sums", "only row sums"})
SIDES = st.one_of(st.integers(1, 40), st.sampled_from([64, 71, 73, 127, 145, 260, 515]))


def results_of(kind, m, n, layout=contiguous):
    """Blank outputs: row values have one column."""
    source, _, dtypes = PROGRAMS[kind]
    kinds = zip(source.outputs, dtypes, strict=True)
    return [blank((m, 1 if k == "row" else n), d, layout) for k, d in kinds]


def inner_of(kind):
    return 0 if kind in ELEMENTWISE else 1


def check(device, kind, outs, a, b, ins):
    """On the device, against its own matmul and run; outs, a, b and ins are Specs."""
    source, _, dtypes = PROGRAMS[kind]
    typed = source.for_dtypes((float32,) * (1 + len(ins)), tuple(dtypes))
    x, y, others = a.on(device), b.on(device), [s.on(device) for s in ins]
    found = [s.on(device) for s in outs]
    device.mod.matmul_then(typed, found, x, y, others)
    shape = (*outs[0].shown.shape[:-1], b.shown.shape[-1])
    product = blank(shape, float32).on(device)
    device.mod.matmul(product, x, y)
    expected = [s.on(device) for s in outs]
    device.mod.run(typed, expected, [product, *others], inner_of(kind))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(whole_memory(mine), whole_memory(theirs))


@on_devices
@given(
    sizes=st.tuples(SIDES, SIDES, SIDES),
    kind=st.sampled_from(sorted(PROGRAMS)),
    layouts=st.tuples(*[st.sampled_from(READABLE)] * 3, st.sampled_from(WRITABLE)),
    stored=st.sampled_from([float32, float32, *sorted(WIDENED)]),
)
@settings(max_examples=60, deadline=None)
def test_any_shape(device, sizes, kind, layouts, stored):
    (m, k, n), (left, right, other, result) = sizes, layouts
    _, shapes, _ = PROGRAMS[kind]
    a, b = (
        Spec(mild(float32, (m, k), 1), float32, left),
        Spec(mild(stored, (k, n), 2), stored, right),
    )
    ins = [
        Spec(mild(float32, s, 3 + i), float32, other if s == (m, n) else contiguous)
        for i, s in enumerate(shapes(m, n))
    ]
    check(device, kind, results_of(kind, m, n, result), a, b, ins)


@needs_amx
@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_on_tiles_of_amx(amx, kind):
    _, shapes, _ = PROGRAMS[kind]
    m, k, n = 340, 427, 557
    ins = [Spec(mild(float32, s, 3), float32) for s in shapes(m, n)]
    a, b = (Spec(mild(float32, s, 1), float32) for s in ((m, k), (k, n)))
    check(DEVICES[-1], kind, results_of(kind, m, n), a, b, ins)


@on_devices
@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_large_in_every_transposition(device, kind):
    """Also where B is packed in regions of k, and where long sums are cut into parts."""
    _, shapes, _ = PROGRAMS[kind]
    for m, k, n in ((130, 200, 150), (75, 2100, 530), (70, 900, 81)):
        for left in (contiguous, transposed):
            for right in (contiguous, transposed):
                a = Spec(mild(float32, (m, k), 1), float32, left)
                b = Spec(mild(float32, (k, n), 2), float32, right)
                ins = [Spec(mild(float32, s, 3), float32) for s in shapes(m, n)]
                check(device, kind, results_of(kind, m, n), a, b, ins)


@on_devices
def test_batches(device):
    a, b = Spec(mild(float32, (3, 1, 9, 8)), float32), Spec(mild(float32, (4, 8, 7), 1), float32)
    ins = [Spec(mild(float32, (7,), 2), float32)]
    check(device, "bias", [blank((3, 4, 9, 7), float32, sliced)], a, b, ins)


@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_an_output_may_be_an_input(kind):
    """The residual's, bias' or factor's own memory."""
    device = DEVICES[-1]
    source, shapes, dtypes = PROGRAMS[kind]
    n = 70
    typed = source.for_dtypes((float32,) * (1 + len(shapes(n, n))), tuple(dtypes))
    a, b = (Spec(mild(float32, (n, n), seed), float32) for seed in (1, 2))
    ins = [Spec(mild(float32, s, 3), float32) for s in shapes(n, n)]
    results = []
    for is_shared in (False, True):
        x, others = a.on(device), [s.on(device) for s in ins]
        outs = [spec.on(device) for spec in results_of(kind, n, n)]
        place = source.outputs.index("full") if "full" in source.outputs else None
        if is_shared and place is not None and dtypes[place] is float32:
            outs[place] = next((o for o in others if o.shape == (n, n)), x)
        device.mod.matmul_then(typed, outs, x, b.on(device), others)
        results.append([o.numpy() for o in outs])
    for apart, shared in zip(*results, strict=True):
        np.testing.assert_array_equal(apart, shared)


@pytest.mark.parametrize("sizes", [(257, 300, 129), (90, 2100, 530), (3, 40, 500)])
def test_threads(sizes):
    m, k, n = sizes
    typed = scaled_residual.for_dtypes((float32,) * 3, (float32,))
    assert_equal_for_all_threads(
        lambda o, x, y, s, r: _native.matmul_then(typed, (o,), x, y, (s, r)),
        blank((m, n), float32),
        *(Spec(mild(float32, s), float32) for s in ((m, k), (k, n), (), (m, n))),
    )


@pytest.mark.parametrize("sizes", [(257, 300, 129), (500, 60, 1500), (90, 2100, 530)])
def test_threads_with_row_sums(sizes):
    m, k, n = sizes
    typed = norm.for_dtypes((float32,), (float32,))
    assert_equal_for_all_threads(
        lambda o, x, y: _native.matmul_then(typed, (o,), x, y),
        blank((m, 1), float32),
        *(Spec(mild(float32, s), float32) for s in ((m, k), (k, n))),
    )


def random_program(seed):
    """Elementwise functions of the product, a row, a column and a matrix, one after the other."""
    rng = np.random.default_rng(seed)
    builder = Builder()
    values = [builder.input("full") for _ in range(4)]
    for _ in range(int(rng.integers(1, 12))):
        x, y = (values[int(i)] for i in rng.integers(0, len(values), 2))
        values.append([x + y, x * y, x - y, x.maximum(y), tp.tanh(x)][int(rng.integers(5))])
    results = values[-int(rng.integers(1, 4)) :]
    return builder.finish("random", ["x", "row", "column", "matrix"], *results)


@on_devices
@given(seed=st.integers(0, 10**6), sizes=st.tuples(SIDES, SIDES, SIDES))
@settings(max_examples=40, deadline=None)
def test_random_programs(device, seed, sizes):
    m, k, n = sizes
    typed = random_program(seed).for_dtypes((float32,) * 4)
    a, b = Spec(mild(float32, (m, k), 1), float32), Spec(mild(float32, (k, n), 2), float32)
    ins = [Spec(mild(float32, s, 3), float32).on(device) for s in ((1, n), (m, 1), (m, n))]
    found, expected = ([blank((m, n), float32).on(device) for _ in typed.outputs] for _ in "12")
    device.mod.matmul_then(typed, found, a.on(device), b.on(device), ins)
    product = blank((m, n), float32).on(device)
    device.mod.matmul(product, a.on(device), b.on(device))
    device.mod.run(typed, expected, [product, *ins], 0)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


# Convolutions -----------------------------------------------------------------------------------


def convolution(rng):
    """Specs of images and filters, y's shape, and the window, of any kind of convolution."""
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    channels, features = (groups * int(n) for n in rng.choice([1, 2, 5, 8, 17], 2))
    size, stride, dilation = (tuple(rng.integers(1, n, rank).tolist()) for n in (4, 3, 3))
    padding = tuple(int(rng.integers(0, k)) for k in size)
    spatial = tuple(
        int(rng.integers(1, 12)) + d * (k - 1) for d, k in zip(dilation, size, strict=True)
    )
    batch = int(rng.choice([1, 2, 7]))
    if rank == 2 and rng.integers(2):  # Winograd's tiles
        channels, features = (int(n) for n in rng.choice([16, 33, 40], 2))
        size, stride, dilation, groups = (3, 3), (1, 1), (1, 1), 1
        spatial = tuple(n + 4 for n in spatial)
    axes = zip(spatial, size, stride, padding, dilation, strict=True)
    outputs = tuple((n + p - d * (k - 1) - 1) // step + 1 for n, k, step, p, d in axes)
    x = Spec(mild(float32, (batch, *spatial, channels), 1), float32, rng.choice(READABLE))
    w = Spec(mild(float32, (*size, channels // groups, features), 2), float32)
    return x, w, (batch, *outputs, features), (stride, padding, dilation, groups)


@on_devices
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(ELEMENTWISE))
@settings(max_examples=80, deadline=None)
def test_any_convolution(device, seed, kind):
    rng = np.random.default_rng(seed)
    images, filters, shape, window = convolution(rng)
    m, n = int(np.prod(shape[:-1])), shape[-1]
    source, shapes, dtypes = PROGRAMS[kind]
    layout = WRITABLE[int(rng.integers(len(WRITABLE)))]
    ins = [Spec(mild(float32, s, 3 + i), float32).on(device) for i, s in enumerate(shapes(m, n))]
    typed = source.for_dtypes((float32,) * (1 + len(ins)), tuple(dtypes))
    x, w = images.on(device), filters.on(device)
    found, expected = ([blank((m, n), d, layout).on(device) for d in dtypes] for _ in "12")
    device.mod.conv_then(typed, found, x, w, shape, *window, ins)
    y = blank(shape, float32).on(device)
    device.mod.conv(y, x, w, *window)
    matrix = Spec(y.numpy().reshape(m, n), float32).on(device)
    device.mod.run(typed, expected, [matrix, *ins], 0)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(whole_memory(mine), whole_memory(theirs))


@pytest.mark.parametrize(("side", "channels"), [(20, 40), (5, 33), (3, 128)])
def test_threads_of_convolutions(side, channels):
    typed = scaled_residual.for_dtypes((float32,) * 3, (float32,))
    shape, window = (9, side, side, channels), ((1, 1), (1, 1), (1, 1), 1)
    matrix = (9 * side * side, channels)
    assert_equal_for_all_threads(
        lambda o, x, w, s, r: _native.conv_then(typed, (o,), x, w, shape, *window, (s, r)),
        blank(matrix, float32),
        *(Spec(mild(float32, s), float32) for s in (shape, (3, 3, channels, channels), (), matrix)),
    )


def test_a_convolution_with_one_position():
    """No step leads from it to the next: the output's may be anything."""
    typed, window = bias_relu.for_dtypes((float32, float32)), ((1,), (0,), (1,), 1)
    x, w, bias = (Spec(mild(float32, s), float32) for s in ((1, 4, 3), (4, 3, 5), (1, 5)))
    x, w, bias = (s.on(DEVICES[-1]) for s in (x, w, bias))
    found = [blank((1, 5), float32).on(DEVICES[-1]) for _ in range(2)]
    found[1].strides = (0, 1)
    for out in found:
        _native.conv_then(typed, (out,), x, w, (1, 1, 5), *window, (bias,))
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())


def test_errors_of_convolutions():
    def array(*shape, dtype=float32):
        return blank(shape, dtype).on(DEVICES[-1])

    typed, window = bias_relu.for_dtypes((float32, float32)), ((1,), (0,), (1,), 1)
    x, w, out, bias = array(2, 9, 3), array(4, 3, 5), array(12, 5), array(5)

    def call(x=x, shape=(2, 6, 5), window=window, program=typed):
        _native.conv_then(program, (out,), x, w, shape, *window, (bias,))

    call()
    for wrong, message in [
        ({"shape": (2, 5, 5)}, "positions by the channels"),
        ({"shape": (2**40, 2**40, 5)}, "positions by the channels"),
        ({"shape": (12, 5)}, "same 3 to 5 axes"),
        ({"shape": (-2, -6, 5)}, "0 or more"),
        ({"x": array(3, 9, 3)}, "do not fit"),
        ({"window": ((0,), (0,), (1,), 1)}, "stride"),
        ({"program": softmax_rows()}, "elementwise"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(**wrong)
    with pytest.raises((TypeError, ValueError), match="float64"):
        call(x=array(2, 9, 3, dtype=float64))


def test_errors():
    def array(*shape, dtype=float32):
        return blank(shape, dtype).on(DEVICES[-1])

    typed = bias_relu.for_dtypes((float32, float32))
    sums = norm.for_dtypes((float32,))
    x, y, out, bias = array(6, 5), array(5, 7), array(6, 7), array(7)
    for wrong, message in [
        (lambda: _native.matmul_then(typed, (out,), y, x, (bias,)), "inner dimensions differ"),
        (lambda: _native.matmul_then(typed, (), x, y, (bias,)), "at least one"),
        (lambda: _native.matmul_then(typed, (out,), x, y, ()), "expected 1, got 0"),
        (lambda: _native.matmul_then(typed, (out,), x, y, (array(2, 1, 7),)), "axes|shape"),
        (lambda: _native.matmul_then(softmax_rows(), (out,), x, y, ()), "elementwise"),
        (lambda: _native.matmul_then(sums, (out,), x, y), "shape|row"),
        (lambda: _native.matmul_then(sums, (array(6, 1),), array(2, 6, 5), y), "expected matrices"),
        (lambda: _native.matmul_then(sums, (array(6, 1),), y, x), "inner dimensions|shape"),
        (lambda: _native.matmul_then(sums, (array(5, 1),), x, y), "shape|row"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises((TypeError, ValueError), match="float64"):
        _native.matmul_then(typed, (out,), array(6, 5, dtype=float64), y, (bias,))


def softmax_rows():
    return program(lambda x: x - tp.row_max(x)).for_dtypes((float32,))
