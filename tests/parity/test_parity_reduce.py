"""Reductions, scans and products of a device against the reference or an exact result."""

import numpy as np
import pytest

from needle.dtype import DTYPES, bfloat16, bool_, float16, float32, float64, int64, summed

from .operands import (
    DEVICES,
    FLOATS,
    READABLE,
    SIZES,
    WRITABLE,
    Spec,
    assert_near,
    assert_ulps,
    blank,
    contiguous,
    draw,
    epsilon,
    mild,
    numbers,
    on_both,
    sliced,
    transposed,
    whole_memory,
)

on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)

REDUCED = [
    ((), ()), ((1,), (0,)), ((0,), (0,)), ((0, 3), (0,)), ((0, 3), (1,)), ((5,), (0,)),
    ((6, 7), (0,)), ((6, 7), (1,)), ((6, 7), (0, 1)), ((3, 4, 5), (1,)), ((3, 4, 5), (0, 2)),
    ((3, 4, 5), (0, 1, 2)), ((2, 1, 3, 2), (1, 3)), ((67, 129), (0,)), ((67, 129), (1,)),
]  # fmt: skip


def kept(shape, axes):
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def cases(name):
    """(shape, axes); max and min have no empty axes."""
    return [
        (shape, axes)
        for shape, axes in REDUCED
        if name not in ("max", "min") or 0 not in [shape[a] for a in axes]
    ]


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["max", "min", "any", "all"])
def test_choosing_reductions_are_exact(device, name, dtype):
    result = bool_ if name in ("any", "all") else dtype
    for i, layout in enumerate(READABLE):
        for k, (shape, axes) in enumerate(cases(name)):
            out = blank(kept(shape, axes), result, WRITABLE[(i + k) % len(WRITABLE)])
            spec = Spec(draw(dtype, shape, i + k, special=k % 2 == 0), dtype, layout)
            actual, expected = on_both(device, lambda m, o, a: m.reduce(name, o, a), out, spec)
            about = f"{name} {dtype} {shape} {axes} {layout.__name__}"
            # 1 ulp: IEEE leaves open which zero is the larger one.
            assert_ulps(actual, expected, result, 1 if dtype.is_floating else 0, about)


@on_devices
@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_floating])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_integer_sums_wrap(device, name, dtype):
    for result in {dtype, summed(dtype)} - {bool_}:
        for i, layout in enumerate(READABLE):
            for k, (shape, axes) in enumerate(REDUCED):
                out = blank(kept(shape, axes), result, WRITABLE[(i + k) % len(WRITABLE)])
                spec = Spec(draw(dtype, shape, i + k), dtype, layout)
                actual, expected = on_both(device, lambda m, o, a: m.reduce(name, o, a), out, spec)
                about = f"{name} {dtype} -> {result} {shape} {axes} {layout.__name__}"
                assert_ulps(actual, expected, result, 0, about)


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_sums(device, dtype):
    """|error| <= (rounding of the result) + (a few steps of adding up in float32 or wider)."""
    inner = min(epsilon(dtype), epsilon(float32))
    shapes = [*REDUCED, *(((n,), (0,)) for n in SIZES), ((30_011,), (0,)), ((3, 9001), (1,))]
    for i, layout in enumerate(READABLE):
        for shape, axes in shapes:
            spec = Spec(mild(dtype, shape, i), dtype, layout)
            target = blank(kept(shape, axes), dtype).on(device)
            device.mod.reduce("sum", target, spec.on(device))
            values = spec.shown.astype(np.float64)
            exact, size = (f.sum(axes, keepdims=True) for f in (values, np.abs(values)))
            bound = epsilon(dtype) * np.abs(exact) + 40 * inner * size + 1e-30
            about = f"sum {dtype} {shape} {axes} {layout.__name__}"
            assert_near(target.numpy(), exact, bound, about)


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_products(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape, axes in REDUCED[:13]:
            spec = Spec(mild(dtype, shape, i), dtype, layout)
            target = blank(kept(shape, axes), dtype).on(device)
            device.mod.reduce("prod", target, spec.on(device))
            exact = spec.shown.astype(np.float64).prod(axes, keepdims=True)
            bound = 64 * epsilon(dtype) * np.abs(exact) + np.finfo(np.float32).tiny
            bound += 1e-7 if dtype is float16 else 0  # float16 has subnormals of 6e-8
            assert_near(target.numpy(), exact, bound, f"prod {dtype} {shape} {axes}")


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, "both"])
def test_sums_of_what_is_not_finite(device, dtype, special):
    for shape, axis in (((3, 70), 1), ((70, 3), 0)):
        values = np.ones(shape)
        at = (1, 40) if axis == 1 else (40, 1)
        values[at] = np.inf if special == "both" else special
        if special == "both":
            values[(1, 5) if axis == 1 else (5, 1)] = -np.inf
        spec = Spec(storage_of(values, dtype), dtype)
        out = blank(kept(shape, (axis,)), dtype)
        actual, expected = on_both(device, lambda m, o, a: m.reduce("sum", o, a), out, spec)
        np.testing.assert_array_equal(actual, expected)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_reduce(device, name, dtype):
    shapes = [(5,), (1,), (3, 4), (4, 1, 3), (2, 65), (65, 2), (33, 17), (0, 3), (129,)]
    for i, layout in enumerate(READABLE):
        for shape in shapes:
            for axis in range(len(shape)):
                if shape[axis] == 0:
                    continue
                for special in (False, True):
                    values = (draw if special else mild)(dtype, shape, i)
                    out = blank(kept(shape, (axis,)), int64, WRITABLE[i % len(WRITABLE)])
                    actual, expected = on_both(
                        device,
                        lambda m, o, a, x=axis: m.arg_reduce(name, o, a, x),
                        out,
                        Spec(values, dtype, layout),
                    )
                    np.testing.assert_array_equal(
                        actual, expected, f"{name} {dtype} {shape} {axis} {layout.__name__}"
                    )


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scan(device, name, dtype):
    result = summed(dtype)
    for i, layout in enumerate(READABLE):
        for shape in ((5,), (0,), (1,), (3, 4), (4, 0), (2, 3, 5), (2, 33), (33, 2), (17, 17)):
            for axis in range(len(shape)):
                values = mild(dtype, shape, i)
                if dtype.is_floating:  # products stay within float16
                    values = storage_of(numbers(values, dtype) / 2, dtype)
                spec = Spec(values, dtype, layout)
                out = blank(shape, result, WRITABLE[i % len(WRITABLE)])

                def call(mod, target, a, x=axis):
                    mod.scan(name, target, a, x)

                about = f"{name} {dtype} {shape} {axis} {layout.__name__}"
                if not dtype.is_floating:
                    actual, expected = on_both(device, call, out, spec)
                    assert_ulps(actual, expected, result, 0, about)
                    continue
                target = out.on(device)
                call(device.mod, target, spec.on(device))
                values = spec.shown.astype(np.float64)
                exact = getattr(np, name)(values, axis)
                spread = np.cumsum(np.abs(values), axis) if name == "cumsum" else np.abs(exact)
                bound = 40 * epsilon(dtype) * spread + 1e-7
                assert_near(target.numpy(), exact, bound, about)


# Matrix products --------------------------------------------------------------------------------

MATRICES = [
    ((1, 1), (1, 1)), ((2, 3), (3, 4)), ((5, 1), (1, 7)), ((1, 9), (9, 1)), ((17, 33), (33, 9)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((15, 31), (31, 33)),
    ((97, 64), (64, 65)),
    ((4, 2, 3), (4, 3, 5)), ((4, 2, 3), (3, 5)), ((2, 3), (4, 3, 5)), ((2, 1, 3, 4), (5, 4, 3)),
    ((0, 2, 3), (0, 3, 2)), ((1, 400), (400, 3)), ((130, 5), (5, 260)),
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
@pytest.mark.parametrize("sizes", [(128, 128, 128), (201, 515, 131), (7, 2000, 5), (300, 3, 301)])
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


def storage_of(values, dtype):
    if dtype is bfloat16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.storage)
