"""Tile programs on every device against the reference: kinds, layouts, dtypes, lengths of rows."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import _native
from needle.dtype import DTYPES, bfloat16, bool_, float16, float32, float64, int32, int64
from needle.ndarray import functions as F
from needle.tile import program as tp
from needle.tile.program import Builder, ProgramError, Row, Scalar, Symbol, program

from .operands import (
    READABLE,
    WRITABLE,
    Spec,
    blank,
    contiguous,
    epsilon,
    mild,
    numbers,
    on_devices,
    transposed,
    whole_memory,
)

# Around the size of a tile (512 or 1024 elements) and of what is kept between phases.
LENGTHS = (0, 1, 2, 10, 15, 16, 17, 100, 127, 129, 384, 511, 513, 1000, 1024, 1025, 3001)


@program
def softmax(x: Symbol) -> Symbol:
    e = tp.exp(x - tp.row_max(x))
    return e / tp.row_sum(e)


@program
def layer_norm(x: Symbol, weight: Symbol, bias: Symbol) -> tuple[Symbol, ...]:
    mean = tp.row_mean(x)
    centred = x - mean
    scale = tp.rsqrt(tp.row_mean(tp.square(centred)) + 1e-5)
    return centred * scale * weight + bias, mean, scale


@program
def layer_norm_backward(
    g: Symbol, x: Symbol, weight: Symbol, mean: Row, scale: Row
) -> tuple[Symbol, ...]:
    y = (x - mean) * scale
    gw = g * weight
    dx = (gw - tp.row_mean(gw) - y * tp.row_mean(gw * y)) * scale
    return dx, tp.column_sum(g * y), tp.column_sum(g)


@program
def cross_entropy(x: Symbol, label: Row) -> Symbol:
    top = tp.row_max(x)
    return tp.log(tp.row_sum(tp.exp(x - top))) + top - tp.gather(x, label)


@program
def one_hot_difference(x: Symbol, label: Row, scale: Scalar) -> Symbol:
    return tp.where(tp.equal(tp.row_index(), label), x - 1.0, x) * scale


@program
def adam(p: Symbol, g: Symbol, m: Symbol, v: Symbol, lr: Scalar, t: Scalar) -> tuple[Symbol, ...]:
    m = m + (g - m) * 0.1
    v = v + (g * g - v) * 0.001
    by_m = tp.cast(lr / (1 - tp.constant(0.9, "float64") ** t), p)
    by_v = tp.cast(1 / (1 - tp.constant(0.999, "float64") ** t), p)
    return p - by_m * m / (tp.sqrt(v * by_v) + 1e-8), m, v


def run_on_both(device, source, inputs, shape, inner, out_layouts=(contiguous,) * 4):
    """The memory of each output on the device and on the reference."""
    typed = source.for_dtypes(tuple(i.dtype for i in inputs))
    row = len(shape) - inner
    shapes = {
        "full": shape,
        "row": shape[:row] + (1,) * inner,
        "column": (1,) * row + shape[row:],
        "scalar": (),
    }
    outs = [
        blank(shapes[kind], dtype, layout)
        for kind, dtype, layout in zip(typed.output_kinds, typed.outputs, out_layouts, strict=False)
    ]
    found = []
    for d in (device, ndl.cpu_numpy()):
        targets = tuple(o.on(d) for o in outs)
        d.mod.run(typed, targets, tuple(i.on(d) for i in inputs), inner)
        found.append([whole_memory(t) for t in targets])
    return [(a, b, dtype) for a, b, dtype in zip(*found, typed.outputs, strict=True)]


def assert_close(results, about, factor=16.0):
    for actual, expected, dtype in results:
        if not dtype.is_floating:
            np.testing.assert_array_equal(actual, expected, about)
            continue
        tolerance = factor * epsilon(dtype)
        np.testing.assert_allclose(
            actual.astype(np.float64),
            expected.astype(np.float64),
            tolerance,
            tolerance,
            err_msg=about,
        )


@on_devices
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, float16])
def test_rows_of_all_lengths(device, dtype, length):
    for rows in (0, 1, 3, 37):
        x = Spec(mild(dtype, (rows, length)), dtype)
        assert_close(run_on_both(device, softmax, [x], (rows, length), 1), f"{rows}x{length}")
        weight, bias = (Spec(mild(dtype, (length,), s), dtype) for s in (1, 2))
        if length:
            results = run_on_both(device, layer_norm, [x, weight, bias], (rows, length), 1)
            assert_close(results, f"{rows}x{length}", 400 if length < 3 else 64)


@program
def scaled_at(x: Symbol, factor: Symbol, label: Row) -> tuple[Symbol, ...]:
    scaled = x * factor
    return scaled - tp.gather(scaled, label), tp.row_sum(scaled)


def one_number(values):
    """The first element for all, as a view."""
    memory = values.ravel()[:1].copy()
    return memory, np.broadcast_to(memory.reshape((1,) * values.ndim), values.shape)


@on_devices
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [float32, float64, float16])
def test_rows_that_lie_across(device, dtype, length):
    """Operands whose rows are next to each other in memory, element by element."""
    layouts = (transposed, contiguous, contiguous, transposed)
    for rows in (1, 15, 64, 300) if length < 1000 else (70,):
        shape, about = (rows, length), f"{rows}x{length}"
        x = Spec(mild(dtype, shape), dtype, transposed)
        label = Spec(np.arange(rows).reshape(rows, 1) * 7 % max(length, 1), int64)
        scale = Spec(np.array(0.5, dtype.storage), dtype)
        weight, bias = (Spec(mild(dtype, (length,), s), dtype) for s in (1, 2))
        assert_close(run_on_both(device, softmax, [x], shape, 1, layouts), about)
        if length:
            results = run_on_both(device, layer_norm, [x, weight, bias], shape, 1, layouts)
            assert_close(results, about, 400 if length < 3 else 64)
            assert_close(run_on_both(device, cross_entropy, [x, label], shape, 1), about, 64)
        if length:
            one = Spec(mild(dtype, shape, 4), dtype, one_number)
            results = run_on_both(device, scaled_at, [x, one, label], shape, 1, layouts)
            assert_close(results, about, 64 + 4 * length)
        inputs = [x, label, scale]
        assert_close(run_on_both(device, one_hot_difference, inputs, shape, 1, layouts), about)


@program
def clips(x: Symbol, low: Symbol, high: Symbol, row: Row) -> tuple[Symbol, ...]:
    return (
        tp.minimum(tp.maximum(x, low), high),
        tp.minimum(tp.maximum(x, -0.5), 0.5),
        tp.minimum(tp.maximum(x, row), high),
        tp.minimum(high, tp.maximum(x, low)),
    )


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64, float16])
def test_clips_with_nan_anywhere(device, dtype):
    rng = np.random.default_rng(0)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.25])
    for length in (1, 7, 31, 33, 1030):
        x, low, high = (
            Spec(rng.choice(special, (3, length)).astype(dtype.storage), dtype) for _ in range(3)
        )
        row = Spec(rng.choice(special, (3, 1)).astype(dtype.storage), dtype)
        for actual, expected, _ in run_on_both(device, clips, [x, low, high, row], (3, length), 1):
            np.testing.assert_array_equal(actual, expected)


@on_devices
@pytest.mark.parametrize("shape", [(37, 129), (4, 1000), (130, 7), (5, 2100), (1, 3), (0, 4)])
def test_columns(device, shape):
    for dtype in (float32, float64, bfloat16):
        g, x = (Spec(mild(dtype, shape, s), dtype) for s in (1, 2))
        weight = Spec(mild(dtype, shape[-1:], 3), dtype)
        mean, scale = (Spec(mild(dtype, (shape[0], 1), s), dtype) for s in (4, 5))
        results = run_on_both(device, layer_norm_backward, [g, x, weight, mean, scale], shape, 1)
        # A sum of n terms is as good as its largest partial sum.
        assert_close(results, str(shape), 16 + 4 * shape[0])


@on_devices
@pytest.mark.parametrize("layout", READABLE, ids=lambda f: f.__name__)
def test_layouts(device, layout):
    for out_layout in WRITABLE:
        for shape, inner in (((5, 40), 1), ((3, 4, 30), 2), ((20, 30), 1), ((2, 3, 5, 7), 3)):
            x = Spec(mild(float32, shape), float32, layout)
            results = run_on_both(device, softmax, [x], shape, inner, (out_layout,))
            assert_close(results, f"{layout.__name__} {out_layout.__name__} {shape}")
        label = Spec(np.arange(20).reshape(20, 1) % 33 - 1, int64)
        x = Spec(mild(float32, (20, 30)), float32, layout)
        assert_close(run_on_both(device, cross_entropy, [x, label], (20, 30), 1), layout.__name__)


@on_devices
def test_positions_and_scalars(device):
    x, label = Spec(mild(float32, (7, 600)), float32), Spec(np.arange(7).reshape(7, 1) * 90, int64)
    scale = Spec(np.array(0.5, np.float32), float32)
    results = run_on_both(device, one_hot_difference, [x, label, scale], (7, 600), 1)

    @program
    def added(x: Symbol, label: Row, amount: Row) -> Symbol:
        return tp.add_at(x * 2.0, label, amount) + tp.add_at(x, label, -amount)

    for length, layout in ((600, contiguous), (10, contiguous), (3000, transposed)):
        shape = (7, length)
        x = Spec(mild(float32, shape), float32, layout)
        amount = Spec(mild(float32, (7, 1), 3), float32)
        assert_close(run_on_both(device, added, [x, label, amount], shape, 1), "add_at")
    assert_close(results, "one_hot_difference", 0)


def positive(dtype, shape, seed):
    values = mild(dtype, shape, seed)
    return values & 0x7FFF if dtype is bfloat16 else np.abs(values)


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16])
@pytest.mark.parametrize("shape", [(), (5,), (3, 700), (40_000,)])
def test_in_place_and_each(device, dtype, shape):
    scalars = [Spec(np.array(v), float64) for v in (1e-3, 7.0)]
    typed = adam.for_dtypes((dtype,) * 4 + (float64,) * 2)
    found = []
    for d in (device, ndl.cpu_numpy()):
        p, g, m, v = (Spec(positive(dtype, shape, s), dtype).on(d) for s in range(4))
        ins = (p, g, m, v, *(s.on(d) for s in scalars))
        d.mod.run(typed, (p, m, v), ins, 0)
        d.mod.run_each(typed, [((p, m, v), ins)])
        others = [Spec(positive(dtype, (9,), s), dtype).on(d) for s in range(4, 8)]
        second = (*others, *ins[4:])
        d.mod.run_each(typed, [((p, m, v), ins), ((others[0], *others[2:]), second)])
        found.append([whole_memory(a) for a in (p, m, v, *others)])
    assert_close([(a, b, dtype) for a, b in zip(*found, strict=True)], "adam")


@on_devices
def test_outputs_may_be_inputs_of_later_instructions(device):
    @program
    def swap(x: Symbol, y: Symbol) -> tuple[Symbol, ...]:
        return y + 1.0, x, x * y

    for d in (device, ndl.cpu_numpy()):
        x, y = (Spec(np.full((3000,), v, np.float32), float32).on(d) for v in (2, 5))
        z = Spec(np.zeros((3000,), np.float32), float32).on(d)
        d.mod.run(swap.for_dtypes((float32, float32)), (x, y, z), (x, y))
        for array, value in ((x, 6), (y, 2), (z, 10)):
            np.testing.assert_array_equal(whole_memory(array), value)


# Random programs --------------------------------------------------------------------------------

STEPS = ("add", "subtract", "multiply", "maximum", "minimum", "less", "where", "abs", "square",
         "tanh", "exp", "row_sum", "row_max", "row_min", "column_sum", "cast", "row_mean",
         "row_index", "scalar")  # fmt: skip


@st.composite
def programs(draw_):
    """A program of random steps over inputs of all kinds; values stay near 1."""
    builder = Builder()
    kinds = draw_(
        st.lists(st.sampled_from(["full", "full", "row", "scalar"]), min_size=1, max_size=4)
    )
    kinds[0] = "full"
    values = [builder.input(kind) for kind in kinds]
    columns = []
    for name in draw_(st.lists(st.sampled_from(STEPS), min_size=1, max_size=14)):
        a, b, c = (draw_(st.sampled_from(values)) for _ in range(3))
        full = draw_(st.sampled_from([v for v in values if v.kind == "full"]))
        match name:
            case "column_sum":
                columns.append(tp.column_sum(full))
                continue
            case "row_mean" | "row_max" | "row_min":
                new = getattr(tp, name)(full)
            case "row_sum":
                new = tp.tanh(tp.row_sum(full))
            case "less":
                new = tp.where(a < b, a, b * 0.5)
            case "where":
                new = tp.where(a > 0.25, b, c)
            case "cast":
                new = tp.cast(tp.cast(a, "float64"), a)
            case "exp":
                new = tp.exp(tp.minimum(a, 1.0))
            case "tanh" | "abs":
                new = getattr(tp, name)(a)
            case "square":
                new = tp.square(tp.tanh(a))
            case "row_index":
                new = tp.tanh(a + builder.apply("cast_like", builder.emit(
                    "row_index", (), "full", int64), full) * 0.01)  # fmt: skip
            case "scalar":
                new = a * 0.5 + 0.25
            case _:
                new = tp.tanh(tp.apply(name, a, b))
        values.append(new)
    stored = draw_(
        st.lists(st.sampled_from(values[len(kinds) :] or values), min_size=1, max_size=3)
    )
    results = stored + columns[:2]
    return builder.finish("random", [f"x{i}" for i in range(len(kinds))], *results), kinds


@on_devices
@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    made=programs(),
    dtype=st.sampled_from([float32, float64, bfloat16]),
    shape=st.sampled_from(
        [(3, 5), (17, 64), (2, 3, 70), (4, 1100), (65, 16), (1,), (2, 0), (6, 513)]
    ),
)
def test_random_programs(device, data, made, dtype, shape):
    source, kinds = made
    inner = data.draw(st.integers(1, len(shape)))
    inputs = []
    for seed, kind in enumerate(kinds):
        row = len(shape) - inner
        of_kind = {"full": shape, "row": shape[:row] + (1,) * inner, "scalar": ()}[kind]
        layout = data.draw(
            st.sampled_from(READABLE if kind == "full" else (contiguous, transposed))
        )
        inputs.append(Spec(mild(dtype, of_kind, seed), dtype, layout))
    layouts = [data.draw(st.sampled_from(WRITABLE)) for _ in source.outputs]
    results = run_on_both(device, source, inputs, shape, inner, layouts)
    assert_close(results, source.text, 2000 if dtype is not bfloat16 else 64)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not bool_], ids=str)
def test_all_dtypes(dtype):
    @program
    def mixed(x: Symbol, y: Symbol) -> tuple[Symbol, ...]:
        z = tp.maximum(x, y) * 2 + x
        return z, tp.row_sum(z), tp.row_max(x), tp.column_sum(y), z > x

    x, y = (Spec(mild(dtype, (13, 70), s), dtype) for s in (1, 2))
    results = run_on_both(ndl.cpu(), mixed, [x, y], (13, 70), 1, (contiguous,) * 5)
    assert_close(results, str(dtype), 64)


@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_casts_round_as_storage_does(target):
    @program
    def through(x: Symbol) -> Symbol:
        return tp.cast(tp.cast(x * 1.01, target), "float64")

    for dtype in (float32, float64, int32):
        source = through if dtype.is_floating else _through_integers(target)
        x = Spec(mild(dtype, (3, 300)), dtype)
        assert_close(run_on_both(ndl.cpu(), source, [x], (3, 300), 1), str(dtype), 0)


def _through_integers(target):
    @program
    def through(x: Symbol) -> Symbol:
        return tp.cast(tp.cast(x * 3, target), "float64")

    return through


def test_numbers_of_reductions_do_not_depend_on_threads():
    g, x = (Spec(mild(float32, (1000, 300), s), float32) for s in (1, 2))
    weight = Spec(mild(float32, (300,), 3), float32)
    mean, scale = (Spec(mild(float32, (1000, 1), s), float32) for s in (4, 5))
    typed = layer_norm_backward.for_dtypes((float32,) * 5)
    before, found = _native.get_num_threads(), []
    for threads in (1, 2, 3):
        _native.set_num_threads(threads)
        outs = tuple(blank(s, float32).on(ndl.cpu()) for s in ((1000, 300), (1, 300), (1, 300)))
        ins = tuple(s.on(ndl.cpu()) for s in (g, x, weight, mean, scale))
        _native.run(typed, outs, ins)
        found.append(b"".join(whole_memory(o).tobytes() for o in outs))
    _native.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_array_function_allocates():
    x = ndl.tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).cached_data
    y = F.run(softmax, x, axes=(1,))
    np.testing.assert_allclose(np.asarray(y).sum(-1), 1, 1e-6)
    assert F.run(layer_norm, x, x, x, axes=(1,))[1].shape == (3, 1)
    np.testing.assert_allclose(np.asarray(F.run(softmax, x, axes=(0,))).sum(0), 1, 1e-6)
    np.testing.assert_allclose(np.asarray(F.run(softmax, x, axes=(0, 1))).sum(), 1, 1e-6)


# What is refused --------------------------------------------------------------------------------


def test_clear_errors():
    with pytest.raises(ProgramError, match="float64 meets float32; cast one of them"):
        adam.for_dtypes((float32, float64) + (float32,) * 2 + (float64,) * 2)
    with pytest.raises(ProgramError, match="row_sum: expected a full value, got a row value"):
        program(lambda x: tp.row_sum(tp.row_sum(x)))
    with pytest.raises(ProgramError, match="a column value can only be returned"):
        program(lambda x: tp.column_sum(x) + 1.0)
    with pytest.raises(ProgramError, match="expected a floating dtype, got int64"):
        softmax.for_dtypes((int64,))
    for at_place in (lambda x, i: tp.gather(x, i), lambda x, i: tp.add_at(x * 2.0 + 1.0, i, i)):
        written = tp.trace(at_place, "at_place", ["x", "i"], ["full", "row"])
        with pytest.raises(ProgramError, match="expected an integer index, got float32"):
            written.for_dtypes((float32, float32))
    with pytest.raises(ProgramError, match="no elementwise function 'nothing'"):
        program(lambda x: tp.apply("nothing", x))
    with pytest.raises(TypeError, match="has no truth"):
        program(lambda x: x if x > 0 else -x)
    with pytest.raises(ProgramError, match="inside of a @program function"):
        tp.row_index()


def test_operands_are_checked():
    typed = softmax.for_dtypes((float32,))
    x = Spec(mild(float32, (3, 4)), float32).on(ndl.cpu())
    wide = Spec(mild(float64, (3, 4)), float64).on(ndl.cpu())
    small = Spec(mild(float32, (3, 1)), float32).on(ndl.cpu())
    with pytest.raises(TypeError, match="expected dtype float32, got float64"):
        _native.run(typed, (x,), (wide,))
    with pytest.raises(ValueError, match="is not that of a full value"):
        _native.run(typed, (small,), (x,))
    with pytest.raises(ValueError, match="expected 1, got 2"):
        _native.run(typed, (x,), (x, x))
    with pytest.raises(ValueError, match="expected 0 to 2 axes"):
        _native.run(typed, (x,), (x,), 3)
    with pytest.raises(ValueError, match="elementwise instructions only"):
        _native.run_each(typed, [((x,), (x,))])


class Code:
    """A program that nobody checked."""

    def __init__(self, code):
        self.code = code


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_code_is_refused_or_harmless(data):
    typed = data.draw(st.sampled_from([softmax, layer_norm, cross_entropy])).for_dtypes
    code = bytearray(
        typed((float32,)).code if typed.__self__ is softmax
        else typed((float32,) * 3).code if typed.__self__ is layer_norm
        else typed((float32, int64)).code
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 3))):
        code[data.draw(st.integers(0, len(code) - 1))] = data.draw(st.integers(0, 255))
    code = bytes(code[: data.draw(st.integers(len(code) // 2, len(code)))])
    arrays = [Spec(mild(float32, (3, 40)), float32).on(ndl.cpu()) for _ in range(3)]
    rows = [Spec(mild(float32, (3, 1)), float32).on(ndl.cpu()) for _ in range(2)]
    label = Spec(np.zeros((3, 1), np.int64), int64).on(ndl.cpu())
    for outs, ins in (((arrays[0],), (arrays[1],)), ((arrays[0], *rows), tuple(arrays)),
                      ((rows[0],), (arrays[0], label))):  # fmt: skip
        with contextlib.suppress(ValueError, TypeError):
            _native.run(Code(code), outs, ins)


def test_names_of_any_bytes_are_told():
    code = softmax.for_dtypes((float32,)).code.replace(b"exp", b"e\xff\n")
    x = Spec(mild(float32, (3, 4)), float32).on(ndl.cpu())
    with pytest.raises(ValueError, match=r"^\[program\] there is no function 'e\?\?'$"):
        _native.run(Code(code), (x,), (x,))


def test_phases_are_part_of_the_code():
    """Each pass over the row ends with a reduction: one for the maximum, one for the sum."""
    typed = softmax.for_dtypes((float32,))
    assert [p for i, p in zip(typed.instructions, typed.phases, strict=True) if i.name in
            ("load", "row_max", "exp", "row_sum", "store")] == [0, 0, 1, 1, 2]  # fmt: skip
    x = Spec(mild(float32, (3, 4)), float32).on(ndl.cpu())
    last = len(typed.code) - 17  # the store
    assert typed.code[last + 2] == 2
    code = bytearray(typed.code)
    code[last + 2] = 1
    with pytest.raises(ValueError, match="its phase is before its arguments are known"):
        _native.run(Code(bytes(code)), (x,), (x,))


def test_text():
    assert softmax.text.splitlines()[2].split() == ["%1", "=", "row_max", "%0", "row"]
    typed = softmax.for_dtypes((bfloat16,))
    assert typed.outputs == (bfloat16,) and "exp %2" in typed.text and "full bfloat16" in typed.text
    assert softmax.for_dtypes((bfloat16,)) is typed
    assert softmax.for_dtypes((bfloat16,), (float32,)).outputs == (float32,)
    assert numbers(np.array([1.0], np.float16), float16) == 1
