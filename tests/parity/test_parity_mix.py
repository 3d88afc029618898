"""Weighted sums along an axis: a device against the reference, in every bit."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import float32, float64, int64

from .operands import (
    READABLE,
    WRITABLE,
    Spec,
    assert_ulps,
    blank,
    contiguous,
    mild,
    on_both,
    on_devices,
    sliced,
    whole_memory,
)

# Lines and rows of all lengths, blocks of 16 lines and what is left over, rows in several pieces.
SHAPES = [
    (5,), (1,), (0,), (3, 4), (4, 0), (2, 3, 5), (2, 33), (33, 2), (17, 17), (3, 5, 19), (20, 3, 7),
    (16, 9), (9, 16), (2, 2100), (2100, 2), (3, 2, 4, 5),
]  # fmt: skip


def matrix(columns: int, rows: int, seed: int):
    """Rows of 0 to 9 entries, some of them at one place; the first entries belong to none."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 10, rows) if columns else np.zeros(rows, np.int64)
    starts = np.cumsum([min(seed, columns), *counts])
    places = rng.integers(0, max(columns, 1), starts[-1])
    return starts, places


def mix_specs(dtype, columns, rows, seed):
    starts, places = matrix(columns, rows, seed)
    layout = (contiguous, sliced)[seed % 2]
    weights = mild(dtype, places.shape, seed)
    return Spec(starts, int64, layout), Spec(places, int64, layout), Spec(weights, dtype, layout)


@on_devices
@pytest.mark.parametrize("dtype", [float32, float64])
def test_mix(device, dtype):
    for i, layout in enumerate(READABLE):
        for shape in SHAPES:
            for axis in range(len(shape)):
                for rows in {0, 1, 2 * shape[axis], 19}:
                    specs = mix_specs(dtype, shape[axis], rows, i)
                    result = (*shape[:axis], rows, *shape[axis + 1 :])
                    actual, expected = on_both(
                        device,
                        lambda m, o, a, *matrix, x=axis: m.mix(o, a, *matrix, x),
                        blank(result, dtype, WRITABLE[i % len(WRITABLE)]),
                        Spec(mild(dtype, shape, i), dtype, layout),
                        *specs,
                    )
                    about = f"mix {dtype} {shape} {axis} {rows} {layout.__name__}"
                    assert_ulps(actual, expected, dtype, 0, about)


@on_devices
def test_mix_may_write_over_its_input(device):
    for axis in (0, 1):
        for d in (device, ndl.cpu_numpy()):
            array = Spec(mild(float32, (18, 18), 1), float32).on(d)
            specs = [spec.on(d) for spec in mix_specs(float32, 18, 18, 2)]
            expected = blank((18, 18), float32).on(d)
            d.mod.mix(expected, array, *specs, axis)
            d.mod.mix(array, array, *specs, axis)
            np.testing.assert_array_equal(array.numpy(), expected.numpy())


@on_devices
@pytest.mark.parametrize(
    ("starts", "places", "value"),
    [
        ([0, 1, 2], [0, 3], 3), ([0, 1, 2], [-1, 0], -1), ([0, 1, 3], [0, 1], 3),
        ([-1, 1, 2], [0, 1], -1), ([0, 2, 1], [0, 1], 1), ([0, 2**62, 2], [0, 1], 2**62),
    ],
)  # fmt: skip
def test_entries_outside_are_refused_before_anything_is_written(device, starts, places, value):
    for d in (device, ndl.cpu_numpy()):
        out = blank((2, 4), float32).on(d)
        before = whole_memory(out)
        array = Spec(mild(float32, (3, 4), 1), float32).on(d)
        entries = [Spec(np.array(x), int64).on(d) for x in (starts, places)]
        weights = Spec(mild(float32, (2,), 1), float32).on(d)
        with pytest.raises(IndexError, match=rf"\[index\] index {value} is out of bounds"):
            d.mod.mix(out, array, *entries, weights, 0)
        np.testing.assert_array_equal(whole_memory(out), before)
