"""Every elementwise kernel of a device against the reference: all names, dtypes and layouts."""

import numpy as np
import pytest

import needle as ndl
from needle.backend import reference
from needle.backend.protocol import BINARY, KINDS, UNARY, takes
from needle.dtype import DTYPES, bfloat16, bool_, float16, float32

from .operands import (
    DEVICES,
    READABLE,
    SHAPES,
    SIZES,
    WRITABLE,
    Spec,
    assert_near,
    assert_ulps,
    bits,
    blank,
    contiguous,
    draw,
    on_both,
    on_devices,
    specials,
    transposed,
)

# Functions that are rounded correctly, or made of such steps, agree in every bit. For the others
# both sides may be off: NumPy's vector functions promise 4 ulp, ours 2.
ROUNDED = {"sqrt", "rsqrt", "divide"}
APPROXIMATE = {name for name in KINDS if KINDS[name] == "floating"} - ROUNDED | {"power"}
WITHOUT_SIGN_OF_ZERO = {"maximum", "minimum", "relu"}  # IEEE leaves max(0, -0) open


def ulps(name, dtype):
    if name in APPROXIMATE:
        return 6 if dtype.itemsize > 2 else 1
    return 1 if name in WITHOUT_SIGN_OF_ZERO else 0


UNARY_CASES = [(n, d) for n in UNARY for d in DTYPES if takes(n, d)]
BINARY_CASES = [(n, d) for n in BINARY for d in DTYPES if takes(n, d)]


def test_the_reference_has_every_function():
    assert (UNARY.keys(), BINARY.keys()) == (reference.UNARY.keys(), reference.BINARY.keys())


def result_dtype(name, dtype):
    return bool_ if KINDS[name] == "predicate" else dtype


def check(device, name, call, out, *inputs):
    actual, expected = on_both(device, call, out, *inputs)
    layouts = [s.layout.__name__ for s in (out, *inputs)]
    about = f"{name} {inputs[0].dtype} {out.values.shape} {layouts}"
    if name in ("gelu", "gelu_slope"):  # terms that cancel: precise next to 1, not to their sum
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(actual[~finite], expected[~finite], about)
        scale = np.maximum(np.abs(expected[finite]), 1)
        eps = {2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-51}[out.dtype.itemsize]
        assert_near(actual[finite], expected[finite].astype(np.float64), 2 * eps * scale, about)
        return
    assert_ulps(actual, expected, out.dtype, ulps(name, out.dtype), about)


@on_devices
@pytest.mark.parametrize(("name", "dtype"), UNARY_CASES)
def test_unary(device, name, dtype):
    def call(mod, out, a):
        mod.unary(name, out, a)

    result = result_dtype(name, dtype)
    for i, layout in enumerate(READABLE):
        out_layout = WRITABLE[i % len(WRITABLE)]
        for shape in SHAPES:
            out = blank(shape, result, out_layout)
            check(device, name, call, out, Spec(draw(dtype, shape, i), dtype, layout))
    for out_layout in WRITABLE:
        values = draw(dtype, (5, 7), 99)
        check(device, name, call, blank((5, 7), result, out_layout), Spec(values, dtype))
    for size in SIZES:
        check(device, name, call, blank((size,), result), Spec(draw(dtype, (size,), size), dtype))
    check(device, name, call, blank(specials(dtype).shape, result), Spec(specials(dtype), dtype))


def operands_of(name, dtype, shape, seed):
    a, b = draw(dtype, shape, seed), draw(dtype, shape, seed + 1000)
    return a, exponents(b) if name == "power" and dtype.is_integer else b


def exponents(values):
    """Integers have no negative powers."""
    return (values.astype(np.int64) % 7).astype(values.dtype)


@on_devices
@pytest.mark.parametrize(("name", "dtype"), BINARY_CASES)
def test_binary(device, name, dtype):
    def call(mod, out, a, b):
        mod.binary(name, out, a, b)

    result = result_dtype(name, dtype)
    for i, layout in enumerate(READABLE):
        out_layout = WRITABLE[(i + 2) % len(WRITABLE)]
        for k, shape in enumerate(SHAPES):
            a, b = operands_of(name, dtype, shape, i)
            other = READABLE[(i + k) % len(READABLE)]
            out = blank(shape, result, out_layout)
            check(device, name, call, out, Spec(a, dtype, layout), Spec(b, dtype, other))
    for size in SIZES:
        a, b = operands_of(name, dtype, (size,), size)
        check(device, name, call, blank((size,), result), Spec(a, dtype), Spec(b, dtype))


@on_devices
@pytest.mark.parametrize(("name", "dtype"), BINARY_CASES)
def test_binary_on_every_pair_of_special_values(device, name, dtype):
    pool = specials(dtype)
    other = exponents(pool) if name == "power" and dtype.is_integer else pool
    out = blank((len(pool), len(pool)), result_dtype(name, dtype))
    a, b = Spec(pool[:, None], dtype), Spec(other[None, :], dtype)
    check(device, name, lambda mod, o, x, y: mod.binary(name, o, x, y), out, a, b)


@on_devices
@pytest.mark.parametrize(("name", "dtype"), BINARY_CASES)
def test_binary_broadcasts(device, name, dtype):
    def call(mod, out, a, b):
        mod.binary(name, out, a, b)

    shapes = [((3, 1), (1, 5)), ((), (4, 6)), ((7,), (2, 3, 7)), ((2, 1, 3), (5, 1)), ((1,), (0,))]
    for i, (left, right) in enumerate(shapes):
        shape = np.broadcast_shapes(left, right)
        out = blank(shape, result_dtype(name, dtype), WRITABLE[i])
        a, b = operands_of(name, dtype, left, i)[0], operands_of(name, dtype, right, i)[1]
        check(device, name, call, out, Spec(a, dtype, READABLE[i]), Spec(b, dtype))


@on_devices
@pytest.mark.parametrize(("name", "dtype"), BINARY_CASES)
def test_binary_with_a_number(device, name, dtype):
    integers = [0, 1, 3] if dtype.kind in "ub" else [0, 1, 3, -2]
    scalars = [True] if dtype is bool_ else integers
    if dtype.is_floating:
        scalars = [*scalars, 0.1, -2.5, float("inf"), float("nan")]
    for i, scalar in enumerate(scalars):
        a, exponent = operands_of(name, dtype, (3, 11), i)
        layout, out = READABLE[i], blank((3, 11), result_dtype(name, dtype), WRITABLE[i % 7])
        if not (name == "power" and dtype.is_integer and scalar < 0):
            check(device, name, lambda mod, o, x, s=scalar: mod.binary(name, o, x, s),
                  out, Spec(a, dtype, layout))  # fmt: skip
        check(device, name, lambda mod, o, x, s=scalar: mod.binary(name, o, s, x),
              out, Spec(exponent, dtype, layout))  # fmt: skip


@on_devices
@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place(device, dtype, layout):
    values, other = draw(dtype, (9, 13), 1), draw(dtype, (9, 13), 2)
    name = "logical_xor" if dtype is bool_ else "subtract"
    spec = Spec(values, dtype, layout)
    check(device, name, lambda mod, o, b: mod.binary(name, o, o, b), spec, Spec(other, dtype))
    check(device, name, lambda mod, o, b: mod.binary(name, o, b, o), spec, Spec(other, dtype))


@on_devices
@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_in_place(device, dtype, layout):
    spec = Spec(draw(dtype, (9, 13), 1), dtype, layout)
    actual, expected = on_both(device, lambda mod, o: mod.unary("square", o, o), spec)
    assert_ulps(actual, expected, dtype, 0, f"square {dtype} {layout.__name__}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_where(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape in SHAPES:
            out = blank(shape, dtype, WRITABLE[i % len(WRITABLE)])
            cond = Spec(draw(bool_, shape, i), bool_, READABLE[(i + 3) % len(READABLE)])
            a, b = Spec(draw(dtype, shape, 2), dtype, layout), Spec(draw(dtype, (), 3), dtype)
            actual, expected = on_both(device, lambda mod, *o: mod.where(*o), out, cond, a, b)
            assert_ulps(actual, expected, dtype, 0, f"where {dtype} {shape} {layout.__name__}")


# Copies and casts -------------------------------------------------------------------------------


def castable(source, target, shape, seed):
    """Values whose cast NumPy defines: floats that are no number of an integer type are not."""
    values = draw(source, shape, seed)
    if source.is_floating and target.is_integer:
        limits = np.iinfo(target.storage)
        low, high = max(limits.min, -30000), min(limits.max, 30000)
        wide = np.random.default_rng(seed).uniform(low, high, shape)
        wide = np.where(wide > 0, np.minimum(wide, high - 200 if high > 300 else high * 0.9), wide)
        return bits(wide) if source is bfloat16 else wide.astype(source.storage)
    return values


@on_devices
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_copy_and_cast(device, source, target):
    for i, layout in enumerate(READABLE):
        for k, shape in enumerate(SHAPES):
            values = castable(source, target, shape, i)
            out = blank(shape, target, WRITABLE[(i + k) % len(WRITABLE)])
            spec = Spec(values, source, layout)
            actual, expected = on_both(device, lambda mod, o, a: mod.copy(o, a), out, spec)
            about = f"{source} -> {target} {shape} {layout.__name__} -> {out.layout.__name__}"
            assert_ulps(actual, expected, target, 0, about)


@on_devices
@pytest.mark.parametrize("target", [bfloat16, float16])
def test_floats_of_any_bits_become_halves(device, target):
    """In whole vectors and what is left of them; also NaNs that differ in their lowest bits."""
    patterns = np.random.default_rng(0).integers(0, 2**32, 100_003, np.uint32)
    patterns[:300] = 0x7F800000 + np.arange(300)
    spec = Spec(patterns.view(np.float32), float32)
    out = blank(patterns.shape, target)
    actual, expected = on_both(device, lambda mod, o, a: mod.copy(o, a), out, spec)
    assert_ulps(actual, expected, target, 0, f"float32 -> {target}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_of_a_broadcast_operand(device, dtype):
    spec = Spec(draw(dtype, (3, 1), 0), dtype)
    actual, expected = on_both(
        device, lambda mod, o, a: mod.copy(o, a), blank((2, 3, 4), dtype, transposed), spec
    )
    assert_ulps(actual, expected, dtype, 0, f"copy {dtype}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 40, 150])
def test_copy_of_repeated_elements(device, dtype, times):
    for rows in (1, 7, 600):
        spec = Spec(draw(dtype, (rows, 1), times), dtype)
        for layout in WRITABLE:
            out = blank((rows, times), dtype, layout)
            actual, expected = on_both(device, lambda mod, o, a: mod.copy(o, a), out, spec)
            assert_ulps(actual, expected, dtype, 0, f"{rows} x {times} {layout.__name__}")


@on_devices
@pytest.mark.parametrize("shift", [0, 1, 3, 100, 200])
def test_copy_to_addresses_a_little_higher(device, shift):
    """Or lower, modulo the size of a page: rows are then copied from one end or the other."""
    x = np.arange(6 * 2048, dtype=np.float32).reshape(6, 2048)
    for source, target in ((0, shift), (shift, 0)):
        array = ndl.tensor(x, device=device).cached_data
        out = ndl.zeros(6, 2048, device=device).cached_data
        width = 2048 - shift
        device.mod.copy(out[0:6, target : target + width], array[0:6, source : source + width])
        expected = np.zeros_like(x)
        expected[:, target : target + width] = x[:, source : source + width]
        np.testing.assert_array_equal(out.numpy(), expected)


@on_devices
@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fill(device, dtype, layout):
    values = [True, False, 0, 1]
    if dtype is not bool_:
        values += [100] if dtype.kind == "u" else [100, -3]
    if dtype.is_floating:
        values += [0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e300, 1e-300]
    for value in values:
        for shape in ((), (0, 3), (7,), (5, 33)):
            actual, expected = on_both(
                device, lambda mod, o, v=value: mod.fill(o, v), blank(shape, dtype, layout)
            )
            assert_ulps(actual, expected, dtype, 0, f"fill {dtype} {value}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_to_numpy_of_every_layout(device, dtype):
    for layout in READABLE:
        for shape in SHAPES:
            spec = Spec(draw(dtype, shape, 4), dtype, layout)
            array = device.mod.to_numpy(spec.on(device))
            assert array.flags.c_contiguous and array.shape == shape
            about = f"to_numpy {dtype} {shape} {layout.__name__}"
            assert_ulps(array.reshape(-1), spec.shown.reshape(-1), dtype, 0, about)


@on_devices
def test_large_arrays_cross_the_blocks_of_work(device):
    for shape in ((70_001,), (257, 513), (3, 100_003)):
        for layout in (contiguous, transposed):
            a, b = (Spec(draw(float32, shape, s, special=False), float32, layout) for s in (1, 2))
            out = blank(shape, float32)
            check(device, "add", lambda mod, o, x, y: mod.binary("add", o, x, y), out, a, b)
            check(device, "exp", lambda mod, o, x: mod.unary("exp", o, x), out, a)


@on_devices
def test_many_axes(device):
    shape = (2, 1, 2, 3, 1, 2, 2, 1, 2, 2)
    for layout in (contiguous, transposed):
        spec = Spec(draw(float32, shape, 1), float32, layout)
        out = blank(shape, float32, transposed)
        check(device, "negative", lambda mod, o, x: mod.unary("negative", o, x), out, spec)


def test_there_is_a_device_to_accept():
    assert ndl.cpu() in DEVICES
