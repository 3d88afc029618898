"""Gather, scatter, order, search and random numbers of a device against the reference."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import DTYPES, bool_, float32, float64, int64
from needle.ndarray.array import make_view

from .operands import (
    FLOATS,
    READABLE,
    SHAPES,
    WRITABLE,
    Spec,
    assert_near,
    assert_ulps,
    blank,
    contiguous,
    draw,
    epsilon,
    mild,
    on_both,
    on_devices,
    sliced,
    transposed,
    whole_memory,
)


def positions(shape, size, seed=0):
    return np.random.default_rng(seed).integers(-size, size, shape)


# (shape of the array, shapes of the indices): the first K axes are indexed.
GATHERS = [
    ((7,), [(5,)]), ((7,), [()]), ((7,), [(0,)]), ((7, 3), [(5,)]), ((7, 3), [(5,), (5,)]),
    ((7, 3), [(4, 1), (1, 5)]), ((4, 5, 6), [(3,)]), ((4, 5, 6), [(3,), ()]),
    ((4, 5, 6), [(2, 3), (3,), (2, 1)]), ((300, 33), [(70,)]), ((2, 0), [(3,)]), ((9, 65), [(17,)]),
]  # fmt: skip


def gather_specs(dtype, shape, index_shapes, i):
    count = len(index_shapes)
    batch = np.broadcast_shapes(*index_shapes)
    result = (*batch, *shape[count:])
    indices = [
        Spec(positions(s, n, i + k), int64, (contiguous, sliced, transposed)[(i + k) % 3])
        for k, (s, n) in enumerate(zip(index_shapes, shape, strict=False))
    ]
    return result, indices


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape, index_shapes in GATHERS:
            result, indices = gather_specs(dtype, shape, index_shapes, i)
            out = blank(result, dtype, WRITABLE[i % len(WRITABLE)])
            source = Spec(draw(dtype, shape, i), dtype, layout)
            actual, expected = on_both(
                device, lambda m, o, a, *ix: m.gather(o, a, ix), out, source, *indices
            )
            assert_ulps(actual, expected, dtype, 0, f"gather {dtype} {shape} {index_shapes}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_set_last_one_wins(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape, index_shapes in GATHERS:
            values, indices = gather_specs(dtype, shape, index_shapes, i)
            out = blank(shape, dtype, WRITABLE[i % len(WRITABLE)])
            source = Spec(draw(dtype, values, i), dtype, layout)
            actual, expected = on_both(
                device, lambda m, o, a, *ix: m.scatter("set", o, ix, a), out, source, *indices
            )
            assert_ulps(actual, expected, dtype, 0, f"set {dtype} {shape} {index_shapes}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_add(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape, index_shapes in GATHERS:
            values, indices = gather_specs(dtype, shape, index_shapes, i)
            out = blank(shape, dtype, WRITABLE[i % len(WRITABLE)])
            source = Spec(mild(dtype, values, i), dtype, layout)
            actual, expected = on_both(
                device, lambda m, o, a, *ix: m.scatter("add", o, ix, a), out, source, *indices
            )
            about = f"add {dtype} {shape} {index_shapes} {layout.__name__}"
            if not dtype.is_floating:
                assert_ulps(actual, expected, dtype, 0, about)
                continue
            # At most 70 values of 2 meet; half types may round after each of them.
            bound = np.full(actual.shape, 300 * epsilon(dtype))
            assert_near(actual, expected.astype(np.float64), bound, about)


@on_devices
@pytest.mark.parametrize("value", [7, -8, 2**62, -(2**63)])
def test_indices_outside_are_refused_before_anything_is_written(device, value):
    for d in (device, ndl.cpu_numpy()):
        index = Spec(np.array([0, 1, value, 2]), int64).on(d)
        array = Spec(draw(float32, (7, 3), 1), float32).on(d)
        out = blank((4, 3), float32).on(d)
        before = whole_memory(out)
        with pytest.raises(IndexError, match=rf"\[index\] index {value} is out of bounds .*7"):
            d.mod.gather(out, array, (index,))
        np.testing.assert_array_equal(whole_memory(out), before)
        target_before = whole_memory(array)
        with pytest.raises(IndexError, match=rf"\[index\] index {value} is out of bounds .*7"):
            d.mod.scatter("add", array, (index,), out)
        np.testing.assert_array_equal(whole_memory(array), target_before)


@on_devices
def test_indices_that_meet_no_position_are_refused_too(device):
    for d in (device, ndl.cpu_numpy()):
        good, bad = (Spec(np.array([v]), int64).on(d) for v in (6, 7))
        array = Spec(draw(float32, (7, 3), 1), float32).on(d)
        nothing = blank((0, 3), float32).on(d)
        d.mod.gather(nothing, array, (good,))
        with pytest.raises(IndexError, match=r"\[index\] index 7 is out of bounds .*7"):
            d.mod.gather(nothing, array, (bad,))
        with pytest.raises(IndexError, match=r"\[index\] index 7 is out of bounds .*7"):
            d.mod.scatter("set", array, (bad,), nothing)


# Order ------------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_argsort_is_stable(device, dtype, descending):
    for i, layout in enumerate(READABLE):
        for shape in ((), (0,), (1,), (17,), (100,), (5, 33), (33, 5), (2, 3, 4), (0, 3), (1000,)):
            for axis in range(len(shape)):
                values = (draw if i % 2 else mild)(dtype, shape, i)
                out = blank(shape, int64, WRITABLE[i % len(WRITABLE)])
                actual, expected = on_both(
                    device,
                    lambda m, o, a, x=axis: m.argsort(o, a, x, descending),
                    out,
                    Spec(values, dtype, layout),
                )
                about = f"argsort {dtype} {shape} {axis} {layout.__name__}"
                np.testing.assert_array_equal(actual, expected, about)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_argsort_gives_the_first_of_the_order(device, dtype, descending):
    for i, layout in enumerate(READABLE):
        for shape, axis in (((17,), 0), ((5, 33), 1), ((33, 5), 0), ((2, 900), 1), ((0, 3), 1)):
            for count in {0, 1, 2, 7, shape[axis] // 2, shape[axis]} & {*range(shape[axis] + 1)}:
                values = (draw if i % 2 else mild)(dtype, shape, i)
                short = (*shape[:axis], count, *shape[axis + 1 :])
                actual, expected = on_both(
                    device,
                    lambda m, o, a, x=axis: m.argsort(o, a, x, descending),
                    blank(short, int64, WRITABLE[i % len(WRITABLE)]),
                    Spec(values, dtype, layout),
                )
                about = f"argsort {dtype} {shape} {axis} {count} {layout.__name__}"
                np.testing.assert_array_equal(actual, expected, about)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(device, dtype, right):
    for i, size in enumerate((0, 1, 2, 33, 500)):
        unsorted = Spec((draw if i % 2 else mild)(dtype, (size,), i), dtype)
        order = np.argsort(unsorted.shown, kind="stable")  # NaN last
        for layout in WRITABLE:
            haystack = Spec(unsorted.values[order], dtype, layout)
            for k, shape in enumerate(((), (0,), (7, 9))):
                needles = Spec(draw(dtype, shape, i), dtype, READABLE[k * 2])
                out = blank(shape, int64, WRITABLE[k])
                actual, expected = on_both(
                    device,
                    lambda m, o, s, v: m.searchsorted(o, s, v, right),
                    out,
                    haystack,
                    needles,
                )
                np.testing.assert_array_equal(actual, expected, f"searchsorted {dtype} {size}")


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape in SHAPES:
            keep = draw(bool_, shape, i)
            values = np.where(keep, draw(dtype, shape, i + 1), np.zeros((), dtype.storage))
            spec = Spec(np.asarray(values, dtype.storage), dtype, layout)
            found = [d.mod.nonzero(spec.on(d)) for d in (device, ndl.cpu_numpy())]
            sizes = [f.size for f in found]
            assert sizes[0] == sizes[1], f"nonzero {dtype} {shape} {layout.__name__}"
            actual, expected = (
                d.mod.to_numpy(make_view((f.size,), (1,), 0, int64, d, f))
                for d, f in zip((device, ndl.cpu_numpy()), found, strict=True)
            )
            np.testing.assert_array_equal(actual, expected)


# Random -----------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**64 - 1])
def test_random_numbers_are_the_streams(device, dtype, seed):
    for offset in (0, 1, 3, 5, 2**33 + 1):
        for size in (0, 1, 7, 64, 1001):
            out = blank((size,), dtype)
            for name in ("uniform", "normal"):
                actual, expected = on_both(
                    device, lambda m, o, n=name, at=offset: m.random(n, o, seed, at), out
                )
                about = f"{name} {dtype} {seed} {offset} {size}"
                if name == "normal" and dtype is float64:
                    # The angle below 2 pi may be rounded, by 2^-50, and the radius is below 6.
                    bound = 6 * 2.0**-50 + 4 * 2.0**-52 * np.abs(expected)
                    assert_near(actual, expected, bound, about)
                else:  # log and cos may differ in the last bit of the double
                    assert_ulps(actual, expected, dtype, int(name == "normal"), about)


@on_devices
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_are_below_one(device, dtype):
    out = blank((100_000,), dtype).on(device)
    device.mod.random("uniform", out, 3, 0)
    values = out.numpy().astype(np.float64)
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01


@on_devices
def test_a_stream_can_be_drawn_in_parts(device):
    whole, part = (blank((n,), float32).on(device) for n in (1000, 400))
    device.mod.random("normal", whole, 11, 0)
    device.mod.random("normal", part, 11, 600)
    np.testing.assert_array_equal(whole.numpy()[600:], part.numpy())
