"""Matrix products of a device against the reference or an exact result."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from needle import _native
from needle.backend.precision import (
    PRECISIONS,
    get_float32_matmul_precision,
    set_float32_matmul_precision,
)
from needle.backend.protocol import WIDENED
from needle.dtype import DTYPES, bfloat16, float16, float32, float64, int8, int32
from needle.ndarray.array import make_view

from .operands import (
    DEVICES,
    FLOATS,
    READABLE,
    VECTORS,
    WRITABLE,
    Spec,
    assert_near,
    assert_ulps,
    blank,
    contiguous,
    epsilon,
    mild,
    needs_amx,
    numbers,
    on_both,
    on_devices,
    sliced,
    storage_of,
    transposed,
    whole_memory,
)

MATRICES = [
    ((1, 1), (1, 1)), ((2, 3), (3, 4)), ((5, 1), (1, 7)), ((1, 9), (9, 1)), ((17, 33), (33, 9)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((15, 31), (31, 33)),
    ((97, 64), (64, 65)),
    ((4, 2, 3), (4, 3, 5)), ((4, 2, 3), (3, 5)), ((2, 3), (4, 3, 5)), ((2, 1, 3, 4), (5, 4, 3)),
    ((0, 2, 3), (0, 3, 2)), ((1, 400), (400, 3)), ((130, 5), (5, 260)),
    ((16, 0), (5, 0, 8)), ((16, 40), (5, 40, 8)),
]  # fmt: skip


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul(device, dtype):
    """Integers exactly; floats within |A| |B| times the rounding of a blocked sum."""
    layouts = (contiguous, transposed, sliced, *READABLE[3:])
    for left, right in MATRICES:
        for i, layout in enumerate(layouts):
            a = Spec(mild(dtype, left, i), dtype, layout)
            b = Spec(mild(dtype, right, i + 50), dtype, layouts[(i * 2 + 1) % len(layouts)])
            shape = np.matmul(a.shown, b.shown).shape
            out = blank(shape, dtype, WRITABLE[(i * 3) % len(WRITABLE)])
            about = f"matmul {dtype} {left} {right} {a.layout.__name__} {b.layout.__name__}"
            check_matmul(device, out, a, b, about)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sums_in_parts(device, dtype):
    m, k, n = 90, 700, 85
    a, b = Spec(mild(dtype, (m, k), 1), dtype), Spec(mild(dtype, (k, n), 2), dtype, sliced)
    for layout in (contiguous, transposed, sliced):
        check_matmul(device, blank((m, n), dtype, layout), a, b, f"{dtype} {layout.__name__}")


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64])
def test_few_columns_in_the_last_vector(device, dtype):
    """Those that do not fill half of it are multiplied as half a vector."""
    for n in (1, 15, 16, 17, 20, 24, 25, 31, 33, 40, 41, 50, 56, 57):
        a, b = Spec(mild(dtype, (29, 40), 1), dtype), Spec(mild(dtype, (40, n), n), dtype)
        check_matmul(device, blank((29, n), dtype, sliced), a, b, f"{n} columns")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_small_products(device, dtype):
    """One block of registers each, in all layouts, some of which b is packed for or out turned."""
    sizes = [(2, 2, 2), (4, 4, 4), (3, 16, 5), (14, 7, 31), (14, 16, 33), (15, 4, 4), (4, 17, 4)]
    layouts = (contiguous, columns, transposed, sliced, *READABLE[3:])
    for m, k, n in [*sizes, (6, 3, 64), (2, 9, 64), (2, 5, 65)]:
        for i, layout in enumerate(layouts):
            a = Spec(mild(dtype, (3, 7, m, k), i), dtype, layout)
            b = Spec(mild(dtype, (7, k, n), i + 9), dtype, layouts[(2 * i + 1) % len(layouts)])
            out = blank((3, 7, m, n), dtype, WRITABLE[i % len(WRITABLE)])
            check_matmul(device, out, a, b, f"{dtype} {m} {k} {n} {i}")
            turned = blank((3, 7, m, n), dtype, columns)
            check_matmul(device, turned, a, b, f"turned {dtype} {m} {k} {n} {i}")


def columns(values):
    """A layout of matrices by columns."""
    memory = np.ascontiguousarray(np.swapaxes(values, -1, -2))
    return memory, np.swapaxes(memory, -1, -2)


def check_matmul(device, out, a, b, about):
    dtype = out.dtype
    if not dtype.is_floating:
        actual, expected = on_both(device, lambda m, *o: m.matmul(*o), out, a, b)
        assert_ulps(actual, expected, dtype, 0, about)
        return
    target = out.on(device)
    guards = whole_memory(target).size - target.size
    device.mod.matmul(target, a.on(device), b.on(device))
    x, y = a.shown.astype(np.float64), b.shown.astype(np.float64)
    inner = min(epsilon(dtype), epsilon(float32))
    depth = 2 + 2 * x.shape[-1] ** 0.5
    bound = epsilon(dtype) * np.abs(x @ y) + depth * inner * (np.abs(x) @ np.abs(y)) + 1e-30
    assert_near(target.numpy(), x @ y, bound, about)
    if guards:
        untouched = out.on(device)
        before, after = whole_memory(untouched), whole_memory(target)
        inside = np.zeros(before.size, bool)
        np.ndarray(target.shape, bool, inside, target.offset, target.strides)[...] = True
        np.testing.assert_array_equal(before[~inside], after[~inside], about)


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    "sizes",
    [
        (128, 128, 128), (201, 515, 131), (7, 2000, 5), (300, 3, 301),
        (9, 501, 403), (80, 2100, 530), (75, 400, 2700), (74, 1500, 1401),  # B in regions
        (150, 1000, 300), (128, 640, 512), (145, 801, 1400),  # columns of A packed for all tiles
        (90, 1024, 70), (130, 2048, 200), (30, 500, 1024), (200, 1100, 1024),  # rows share a set
        (100, 784, 100), (75, 1031, 68), (20, 30001, 18),  # cut along k
    ],
)  # fmt: skip
def test_large_matmul_in_every_transposition(device, dtype, sizes):
    m, k, n = sizes
    for first in (contiguous, transposed):
        for second in (contiguous, transposed):
            a = Spec(mild(dtype, (m, k), 1), dtype, first)
            b = Spec(mild(dtype, (k, n), 2), dtype, second)
            for layout in (contiguous, transposed):
                about = f"{sizes} {first.__name__} {second.__name__} {layout.__name__}"
                check_matmul(device, blank((m, n), dtype, layout), a, b, about)


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    "sizes", [(3, 5, 4), (9, 1024, 33), (40, 1024, 32), (70, 2048, 7)], ids=str
)
def test_many_products_with_one_left_factor(device, dtype, sizes):
    """Panels of columns: results lie beside each other in one matrix."""
    m, k, n = sizes
    panels = 6
    a = Spec(mild(dtype, (m, k), 1), dtype)
    b = Spec(mild(dtype, (panels, k, n), 2), dtype)
    out = blank((m, panels * n), dtype).on(device)
    view = make_view((panels, m, n), (n, panels * n, 1), 0, dtype, device, out._handle)
    device.mod.matmul(view, a.on(device), b.on(device))
    x, y = (s.shown.astype(np.float64) for s in (a, b))
    expected, size = x @ y, np.abs(x) @ np.abs(y)
    bound = epsilon(dtype) * (2 + 2 * k**0.5) * size + 1e-30
    assert_near(view.numpy(), expected, bound, str(sizes))


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_spreads_nan_and_infinity_like_numpy(device, dtype):
    values = np.ones((3, 4))
    values[1, 2], values[2, 0] = np.nan, np.inf
    stored = storage_of(values, dtype)
    a, b = Spec(stored, dtype), Spec(mild(dtype, (4, 5), 3), dtype)
    target = blank((3, 5), dtype).on(device)
    device.mod.matmul(target, a.on(device), b.on(device))
    with np.errstate(invalid="ignore"):
        expected = numbers(stored, dtype).astype(np.float64) @ b.shown.astype(np.float64)
    result = target.numpy()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))


# Edges of blocks (14 x 32, 6 x 64, 32 x 32), of tiles, and of the depth that sums are cut at.
SIDES = st.one_of(
    st.integers(1, 70), st.sampled_from([96, 112, 127, 128, 129, 196, 255, 256, 257, 383, 513])
)


@on_devices
@given(
    sizes=st.tuples(SIDES, SIDES, SIDES),
    batch=st.sampled_from([(), (1,), (3,), (2, 2)]),
    dtype=st.sampled_from([float32, float32, float64, float16, bfloat16]),
    layouts=st.tuples(*[st.sampled_from(READABLE)] * 2, st.sampled_from(WRITABLE)),
    stretched=st.tuples(st.booleans(), st.booleans()),
)
@settings(max_examples=60, deadline=None)
def test_matmul_of_any_shape(device, sizes, batch, dtype, layouts, stretched):
    (m, k, n), (left, right, result) = sizes, layouts
    a = Spec(mild(dtype, (() if stretched[0] else batch) + (m, k), 1), dtype, left)
    b = Spec(mild(dtype, (() if stretched[1] else batch) + (k, n), 2), dtype, right)
    shape = np.matmul(a.shown, b.shown).shape
    check_matmul(device, blank(shape, dtype, result), a, b, f"{sizes} {batch} {dtype} {layouts}")


# Weights in fewer bits ---------------------------------------------------------------------------


@on_devices
@given(
    rows=st.one_of(st.integers(0, 9), st.sampled_from([13, 40, 75, 130])),
    sizes=st.tuples(*[st.one_of(st.integers(0, 70), st.sampled_from([255, 383, 800, 1500]))] * 2),
    batch=st.sampled_from([(), (), (3,)]),
    dtype=st.sampled_from(sorted(WIDENED)),
    layouts=st.tuples(*[st.sampled_from(READABLE)] * 2, st.sampled_from(WRITABLE)),
)
@settings(max_examples=80, deadline=None)
def test_matmul_widens_the_right_factor(device, rows, sizes, batch, dtype, layouts):
    """As near to the product in float64 as one of floats is; few rows and many, in any layout."""
    (k, n), (left, right, result) = sizes, layouts
    a = Spec(mild(float32, (*batch, rows, k), 1), float32, left)
    b = Spec(mild(dtype, (k, n), 2), dtype, right)
    out = blank((*batch, rows, n), float32, result)
    check_matmul(device, out, a, b, f"{rows} {sizes} {batch} {dtype} {layouts}")


@on_devices
@pytest.mark.parametrize("dtype", sorted(WIDENED))
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9, 50])
def test_large_widened_matmul(device, rows, dtype):
    """Runs of k, tiles of columns, and what is left of both."""
    for k, n in ((777, 1301), (301, 4099)):
        for layout in (contiguous, transposed):
            a = Spec(mild(float32, (rows, k), 1), float32)
            b = Spec(mild(dtype, (k, n), 2), dtype, layout)
            out = blank((rows, n), float32)
            check_matmul(device, out, a, b, f"{rows} {k} {n} {dtype} {layout.__name__}")


@on_devices
def test_matmul_widens_every_number_exactly(device):
    """A product with 1, on the way of one row and of many."""
    halves = np.arange(1 << 16, dtype=np.uint16)
    finite = halves[np.isfinite(numbers(halves, bfloat16))]
    for dtype, stored in ((bfloat16, finite), (int8, np.arange(-128, 128, dtype=np.int8))):
        for rows in (1, 20):
            a = Spec(np.ones((rows, 1), np.float32), float32)
            for layout in (contiguous, transposed):
                b = Spec(stored[None], dtype, layout)
                out = blank((rows, stored.size), float32).on(device)
                device.mod.matmul(out, a.on(device), b.on(device))
                expected = np.broadcast_to(numbers(stored, dtype).astype(np.float32), out.shape)
                np.testing.assert_array_equal(out.numpy(), expected)


def test_other_pairs_of_dtypes_are_refused():
    device = DEVICES[-1]
    for left, right in ((float32, int32), (float64, bfloat16), (bfloat16, float32), (int8, int32)):
        out = blank((2, 2), left).on(device)
        a, b = (Spec(mild(d, (2, 2)), d).on(device) for d in (left, right))
        with pytest.raises(TypeError, match=r"\[matmul\] b: expected dtype"):
            device.mod.matmul(out, a, b)


# float32 on AMX: three bfloat16 for each number --------------------------------------------------


def product(x, y, dtype=float32):
    device = DEVICES[-1]
    out = blank((x.shape[0], y.shape[1]), dtype).on(device)
    device.mod.matmul(out, Spec(x, dtype).on(device), Spec(y, dtype).on(device))
    return out.numpy()


def product_on(instruction_set, x, y, dtype=float32):
    before = _native.instruction_set()
    _native.use_instruction_set(instruction_set)
    try:
        return product(x, y, dtype)
    finally:
        _native.use_instruction_set(before)


def normal(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ill_scaled(n):
    """Terms of a sum from 1e-8 to 1e8."""
    scale = 10.0 ** np.random.default_rng(5).uniform(-4, 4, n)
    return (normal((n, n), 1) * scale).astype("f"), (normal((n, n), 2).T * scale).T.astype("f")


def cancelling(n):
    """Sums whose large terms cancel."""
    a, b = normal((n, n // 2), 1), normal((n // 2, n), 2)
    return np.hstack([a, -a]), np.vstack([b, b * np.float32(1 + 1e-6)])


HARD = {
    "normal": lambda n: (normal((n, n), 1), normal((n, n), 2)),
    "positive": lambda n: (np.abs(normal((n, n), 1)), np.abs(normal((n, n), 2))),
    "ill-scaled": ill_scaled,
    "cancelling": cancelling,
    "near one": lambda n: (1 + normal((n, n), 1) * 1e-6, 1 + normal((n, n), 2) * 1e-6),
}


@needs_amx
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("n", [430, 512])  # float32 products go to the tiles from 2^26 on
def test_amx_is_as_accurate_as_float32_products(amx, kind, n):
    """Errors relative to |A| |B|: their mean square and the largest, beside PyTorch's."""
    torch = pytest.importorskip("torch")
    a, b = HARD[kind](n)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    ours = np.abs(product(a, b) - exact) / size
    theirs = np.abs((torch.from_numpy(a) @ torch.from_numpy(b)).numpy() - exact) / size
    assert (ours**2).mean() <= 1.1 * (theirs**2).mean()
    assert ours.max() <= 1.5 * theirs.max()


SPECIAL = {
    "denormal": [1e-40, -3e-42, 1.4e-45],
    "tiny": [1e-30, 1.2e-38, -3e-33],
    "huge": [3e38, -3.39e38, 3.4e38],
    "infinite": [np.inf, -np.inf],
    "nan": [np.nan],
}


@needs_amx
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
@pytest.mark.parametrize("kind", SPECIAL)
def test_amx_computes_special_values_like_float32(amx, kind, scale):
    """Some special values in a part of one operand, and the other operand of any magnitude."""
    random = np.random.default_rng(3)
    a, b = normal((530, 420), 1), normal((420, 550), 2) * np.float32(scale)
    rows, columns = random.integers(0, 530, 20), random.integers(0, 420, 20)
    a[rows, columns] = random.choice(SPECIAL[kind], 20)
    a[7] = SPECIAL[kind][0]
    with np.errstate(all="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
        size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    ours, plain = product(a, b), product_on(VECTORS, a, b)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(plain))
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(plain))
    finite = np.isfinite(plain)
    bound = 40 * epsilon(float32) * size[finite] + 2e-45 * a.shape[1]
    assert_near(ours[finite].astype(np.float64), exact[finite], bound, kind)


@needs_amx
def test_amx_keeps_products_that_underflow_in_tiles(amx):
    """All of A is small, all of B too: the products are denormal."""
    a, b = normal((430, 430), 1) * np.float32(1e-19), normal((430, 430), 2) * np.float32(1e-21)
    np.testing.assert_array_equal(product(a, b), product_on(VECTORS, a, b))
    assert np.count_nonzero(product(a, b)) > 6_000


@pytest.mark.parametrize("sizes", [(300, 520, 270), (33, 1000, 34), (512, 33, 512)])
def test_pairs_of_bfloat16(pairs, sizes):
    m, k, n = sizes
    a, b = (storage_of(normal(shape, 1), bfloat16) for shape in ((m, k), (k, n)))
    x, y = (numbers(v, bfloat16).astype(np.float64) for v in (a, b))
    bound = epsilon(bfloat16) * np.abs(x @ y) + 30 * epsilon(float32) * (np.abs(x) @ np.abs(y))
    assert_near(product(a, b, bfloat16).astype(np.float64), x @ y, bound, "bfloat16")


@pytest.mark.parametrize("left", READABLE)
def test_pairs_in_every_layout(pairs, left):
    """Whole panels and parts, several tasks and blocks of k."""
    check_every_layout((131, 650, 329), bfloat16, left)


def test_pairs_keep_infinities_and_nans(pairs):
    a, b = normal((140, 90), 1), normal((90, 100), 2)
    a[3, 5], a[50, 7], b[2, 60] = np.inf, np.nan, -np.inf
    found = product(storage_of(a, bfloat16), storage_of(b, bfloat16), bfloat16)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    np.testing.assert_array_equal(found[np.isinf(found)], expected[np.isinf(found)])


@needs_amx
@pytest.mark.parametrize("left", READABLE)
def test_amx_in_every_layout(amx, left):
    """The same of floats, which take tiles from 2^26 multiplications on."""
    check_every_layout((340, 427, 557), float32, left)


def check_every_layout(sizes, dtype, left):
    m, k, n = sizes
    a = Spec(mild(dtype, (m, k), 1), dtype, left)
    for i, right in enumerate(READABLE):
        b = Spec(mild(dtype, (k, n), 2), dtype, right)
        out = blank((m, n), dtype, WRITABLE[i % len(WRITABLE)])
        check_matmul(DEVICES[-1], out, a, b, f"{left.__name__} {right.__name__} by pairs")


@needs_amx
def test_precision_trades_error_for_products(amx):
    n = 430  # large enough for "highest" to take six products
    a, b = normal((n, n), 1), normal((n, n), 2)
    exact, size = a.astype("d") @ b.astype("d"), np.abs(a).astype("d") @ np.abs(b).astype("d")
    errors = {}
    try:
        for precision in PRECISIONS:
            set_float32_matmul_precision(precision)
            errors[precision] = (np.abs(product(a, b) - exact) / size).max()
    finally:
        set_float32_matmul_precision("highest")
    assert errors["highest"] < 2**-22
    assert 2**-21 < errors["high"] < 2**-15
    assert 2**-15 < errors["medium"] < 2**-8


def test_precision_is_checked():
    assert get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match=r"\[set_float32_matmul_precision\] expected 'highest'"):
        set_float32_matmul_precision("low")
