"""Reductions and scans of a device against the reference or an exact result."""

import numpy as np
import pytest

from needle.dtype import DTYPES, bool_, float16, float32, int64, summed

from .operands import (
    FLOATS,
    READABLE,
    SIZES,
    WRITABLE,
    Spec,
    assert_near,
    assert_ulps,
    blank,
    draw,
    epsilon,
    mild,
    numbers,
    on_both,
    on_devices,
    storage_of,
)

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
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_keep_a_nan_from_any_place(device, name, dtype):
    """One NaN in each row but the last, which has its best number in the last place."""
    for length in (1, 7, 63, 64, 65, 127, 200, 1024, 1031):
        places = [p for p in (0, 1, 8, 31, 62, 63, 64, 100, 1023, length - 1) if p < length]
        values = mild(float32, (len(places) + 1, length))
        values[-1, -1] = 50 if name == "max" else -50
        values[range(len(places)), places] = np.nan
        stored = storage_of(values, dtype)
        for axis in (0, 1):
            spec = Spec(stored if axis else stored.T.copy(), dtype)
            out = blank(kept(spec.values.shape, (axis,)), dtype)
            actual, expected = on_both(device, lambda m, o, a: m.reduce(name, o, a), out, spec)
            assert_ulps(actual, expected, dtype, 0, f"{name} {dtype} {length} axis {axis}")


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
