"""Convolutions of a device against the reference: geometries, groups, dtypes and layouts."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import _native
from needle.dtype import DTYPES, bool_, float32, float64

from .operands import (
    READABLE,
    WRITABLE,
    Spec,
    assert_near,
    blank,
    contiguous,
    epsilon,
    mild,
    numbers,
    on_both,
    on_devices,
    storage_of,
    whole_memory,
)

KERNELS = ("conv", "conv_by_data", "conv_by_weight")


class Geometry(NamedTuple):
    """x (batch, *space, channels * groups) and filters (*size, channels, outputs * groups)."""

    batch: int
    space: tuple[int, ...]
    channels: int
    outputs: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def made(self):
        """Space of y: as many windows as fit, and one more, which sees less of the input."""
        axes = zip(self.space, self.size, self.stride, self.padding, self.dilation, strict=True)
        return tuple(max(1, (n + p - d * (k - 1)) // s + 1) for n, k, s, p, d in axes)

    def shapes(self):
        """Of x, w and y."""
        x = (self.batch, *self.space, self.channels * self.groups)
        w = (*self.size, self.channels, self.outputs * self.groups)
        return x, w, (self.batch, *self.made, self.outputs * self.groups)

    def operands(self, kernel):
        """The shapes of the output and of the two inputs."""
        x, w, y = self.shapes()
        return {"conv": (y, x, w), "conv_by_data": (x, y, w), "conv_by_weight": (w, x, y)}[kernel]

    def call(self, kernel):
        options = (self.stride, self.padding, self.dilation, self.groups)
        return lambda mod, out, a, b: getattr(mod, kernel)(out, a, b, *options)

    def terms(self, kernel):
        """At most so many products are added up."""
        _, w, y = (int(np.prod(s)) for s in self.shapes())
        return {"conv": w, "conv_by_data": w, "conv_by_weight": y}[kernel]


# One of each path: lines long and short, many images and one, taps that see nothing, few channels,
# one channel per group or a few, single taps, strides beyond the filter, one to three axes.
GEOMETRIES = [
    Geometry(2, (33,), 5, 17, (3,), (1,), (1,), (1,)),
    Geometry(3, (64,), 3, 4, (5,), (2,), (2,), (1,)),
    Geometry(1, (9, 40), 16, 33, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(17, (4, 4), 8, 40, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(5, (7, 6), 6, 9, (3, 2), (2, 3), (1, 2), (2, 1)),
    Geometry(15, (1, 1), 9, 5, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(2, (13, 12), 2, 16, (7, 7), (4, 4), (3, 3), (1, 1)),
    Geometry(2, (9, 8), 12, 20, (1, 1), (1, 1), (0, 0), (1, 1)),
    Geometry(2, (9, 8), 12, 20, (1, 1), (2, 2), (0, 0), (1, 1)),
    Geometry(2, (9, 8), 3, 5, (2, 2), (3, 3), (0, 0), (1, 1), 3),
    Geometry(2, (9, 30), 1, 1, (3, 3), (1, 1), (1, 1), (1, 1), 21),
    Geometry(3, (9, 8), 1, 1, (3, 2), (2, 2), (1, 1), (1, 2), 70),
    Geometry(2, (9, 30), 2, 2, (3, 3), (1, 1), (1, 1), (1, 1), 21),
    Geometry(3, (9, 8), 4, 4, (3, 2), (2, 2), (1, 1), (1, 2), 19),
    Geometry(9, (20, 12), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    Geometry(2, (4, 5, 6), 4, 6, (3, 2, 3), (1, 2, 1), (1, 0, 1), (1, 1, 2)),
    Geometry(2, (3, 3), 4, 6, (9, 2), (1, 1), (4, -1), (1, 1)),
    Geometry(2, (3, 3), 0, 6, (2, 2), (1, 1), (0, 0), (1, 1)),
    Geometry(0, (3, 3), 2, 6, (2, 2), (1, 1), (0, 0), (1, 1)),
    Geometry(1, (5,), 1, 1, (3,), (1,), (0,), (1,)),
    Geometry(2, (9,), 2, 3, (3,), (1,), (1,), (1,)),
    Geometry(3, (4, 6), 3, 5, (1, 5), (1, 1), (0, 2), (1, 1)),
]

# Shapes that take Winograd's tiles: more tiles than outputs and fewer, odd sides, channels that do
# not fill vectors, padding of all sorts, more positions than windows.
WINOGRAD = [
    Geometry(3, (13, 8), 16, 33, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(1, (9, 6), 40, 70, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(2, (7, 12), 19, 17, (3, 3), (1, 1), (0, 2), (1, 1)),
    Geometry(2, (14, 19), 33, 40, (3, 3), (1, 1), (-1, 3), (1, 1)),
    Geometry(30, (4, 4), 24, 100, (3, 3), (1, 1), (1, 1), (1, 1)),
]


def check(device, kernel, geometry, dtype, layouts=(contiguous,) * 3):
    """Against the reference in float64 arithmetic, within the error of its sums."""
    out_shape, *in_shapes = geometry.operands(kernel)
    values = [mild(dtype, shape, i) for i, shape in enumerate(in_shapes)]
    out = blank(out_shape, dtype, layouts[0])

    def results(of):
        inputs = [Spec(of(v), dtype, layout) for v, layout in zip(values, layouts[1:], strict=True)]
        return on_both(device, geometry.call(kernel), out, *inputs)

    actual, expected = results(lambda v: v)
    about = f"{kernel} {dtype} {geometry} {[f.__name__ for f in layouts]}"
    if not dtype.is_floating:
        np.testing.assert_array_equal(actual, expected, about)
        return
    _, sizes = results(partial(_absolute, dtype=dtype))
    sums = geometry.terms(kernel) * epsilon(float64 if dtype is float64 else float32)
    bound = sums * sizes.astype(np.float64) + epsilon(dtype) * np.abs(expected.astype(np.float64))
    assert_near(actual, expected.astype(np.float64), bound, about)


def _absolute(stored, dtype):
    return storage_of(np.abs(numbers(stored, dtype)), dtype)


@on_devices
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("geometry", GEOMETRIES + WINOGRAD, ids=str)
def test_geometries(device, kernel, geometry):
    for dtype in (float32, float64):
        check(device, kernel, geometry, dtype)


@on_devices
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(device, kernel, dtype):
    for geometry in (GEOMETRIES[4], GEOMETRIES[6], GEOMETRIES[11], WINOGRAD[0]):
        if dtype is not bool_:
            check(device, kernel, geometry, dtype)


@on_devices
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "geometry", [GEOMETRIES[i] for i in (3, 4, 6, 7, 11, 12, 16, 17)] + WINOGRAD[2:4], ids=str
)
def test_layouts(device, kernel, geometry):
    for i, layout in enumerate(READABLE):
        out = WRITABLE[(i + 1) % len(WRITABLE)]
        check(device, kernel, geometry, float32, (out, layout, READABLE[(i + 3) % len(READABLE)]))
        check(device, kernel, geometry, float32, (contiguous, contiguous, layout))
        check(device, kernel, geometry, float32, (WRITABLE[i % len(WRITABLE)], layout, contiguous))


@st.composite
def geometries(draw):
    rank = draw(st.integers(1, 3))

    def steps(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    is_depthwise, has_few, is_plain = (draw(st.booleans()) for _ in range(3))
    per = draw(st.sampled_from((1, 1, 2, 4, 8)))
    channels = per if is_depthwise else draw(st.integers(1, 4 if has_few else 20))
    outputs = per if is_depthwise else draw(st.integers(1, 40))
    groups = draw(st.integers(1, 40 if is_depthwise else 1 if has_few else 3))
    space, size = steps(1, {1: 70, 2: 13, 3: 6}[rank]), steps(1, 4)
    stride, padding, dilation = steps(1, 3), steps(-1, 4), steps(1, 3)
    if is_plain:  # as many outputs as inputs, if sizes are odd
        stride = dilation = (1,) * rank
        padding = tuple((k - 1) // 2 for k in size)
    batch = draw(st.integers(1, 17))
    if rank == 2 and draw(st.booleans()):  # Winograd's tiles, if they pay
        channels, outputs = (draw(st.integers(16, 70)) for _ in range(2))
        size, stride, dilation, groups = (3, 3), (1, 1), (1, 1), 1
    return Geometry(batch, space, channels, outputs, size, stride, padding, dilation, groups)


@on_devices
@settings(max_examples=80, deadline=None)
@given(geometry=geometries(), layouts=st.tuples(*[st.sampled_from(READABLE)] * 2))
def test_any_geometry(device, geometry, layouts):
    for kernel in KERNELS:
        check(device, kernel, geometry, float32, (contiguous, *layouts))


def test_result_may_replace_an_input():
    geometry = Geometry(2, (5, 5), 4, 4, (3, 3), (1, 1), (1, 1), (1, 1))
    x, w = (Spec(mild(float32, s, i), float32) for i, s in enumerate(((2, 5, 5, 4), (3, 3, 4, 4))))
    for kernel in ("conv", "conv_by_data"):
        found = []
        for device in (ndl.cpu(), ndl.cpu_numpy()):
            both = x.on(device)
            geometry.call(kernel)(device.mod, both, both, w.on(device))
            found.append(numbers(both.numpy(), float32))
        np.testing.assert_allclose(*found, atol=1e-4)


# Long enough for several tasks, segments and chunks.
LARGE = [
    Geometry(5, (31, 33), 24, 40, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(5, (31, 33), 9, 40, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(2, (15, 9), 70, 300, (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(33, (6, 5), 40, 70, (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(9, (33, 40), 3, 16, (7, 7), (2, 2), (3, 3), (1, 1)),
    Geometry(9, (33, 40), 1, 1, (3, 3), (1, 1), (1, 1), (1, 1), 36),
    Geometry(3, (5000,), 20, 33, (1,), (1,), (0,), (1,)),
    Geometry(4, (40, 20), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), 4),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("geometry", LARGE, ids=str)
def test_threads_give_equal_bits(kernel, geometry):
    before = _native.get_num_threads()
    shapes = geometry.operands(kernel)
    inputs = [Spec(mild(float32, s, i), float32) for i, s in enumerate(shapes[1:])]
    found = []
    try:
        for threads in (1, 2, 3):
            _native.set_num_threads(threads)
            out = blank(shapes[0], float32).on(ndl.cpu())
            geometry.call(kernel)(_native, out, *(i.on(ndl.cpu()) for i in inputs))
            found.append(whole_memory(out).tobytes())
    finally:
        _native.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("geometry", LARGE, ids=str)
def test_large(kernel, geometry):
    check(ndl.cpu(), kernel, geometry, float32)


@pytest.mark.parametrize("geometry", WINOGRAD, ids=str)
def test_infinities_stay_where_they_are_seen(geometry):
    """The NaNs, where infinities meet in a transform, show that these shapes take that way."""
    x, w = (np.ones(s, np.float32) for s in geometry.shapes()[:2])
    x[0, geometry.space[0] // 2, geometry.space[1] // 2] = np.inf
    out = blank(geometry.shapes()[2], float32)
    found, seen = on_both(ndl.cpu(), geometry.call("conv"), out, Spec(x, float32), Spec(w, float32))
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(seen))
    assert np.isnan(found).any() and not np.isnan(seen).any()


def scaled(kind, shape, seed):
    """Normal numbers; or positive ones; or with channels of many magnitudes."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if kind == "positive":
        values = np.abs(values)
    elif kind == "channels":
        values *= 10.0 ** rng.integers(-3, 4, shape[-1])
    return values.astype(np.float32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["normal", "positive", "channels"])
def test_errors_of_winograd(kind, kernel):
    """Those of float32: far below the bound of a sum's, which grows with its terms."""
    geometry = Geometry(2, (16, 14), 48, 64, (3, 3), (1, 1), (1, 1), (1, 1))
    out_shape, *in_shapes = geometry.operands(kernel)
    values = [scaled(kind, shape, i) for i, shape in enumerate(in_shapes)]

    def result(device, dtype, values):
        out = blank(out_shape, dtype).on(device)
        inputs = (Spec(v.astype(dtype.storage), dtype).on(device) for v in values)
        geometry.call(kernel)(device.mod, out, *inputs)
        return out.numpy()

    errors = np.abs(result(ndl.cpu(), float32, values) - result(ndl.cpu_numpy(), float64, values))
    sizes = result(ndl.cpu_numpy(), float64, [np.abs(v) for v in values])
    terms = {"conv": 9 * 48, "conv_by_data": 9 * 64, "conv_by_weight": 2 * 16 * 14}[kernel]
    assert (errors / sizes).max() < 2 * np.sqrt(terms) * 2.0**-24
    assert np.sqrt(np.mean((errors / sizes) ** 2)) < np.sqrt(terms) * 2.0**-26


BAD = [
    ({"stride": (0, 1)}, ValueError, "stride 0 is outside"),
    ({"stride": (1,)}, TypeError, "stride must be a tuple of 2 numbers"),
    ({"dilation": (1, 2**40)}, ValueError, "dilation 1099511627776 is outside"),
    ({"groups": 2}, ValueError, "do not fit filters"),
    ({"groups": 0}, ValueError, "do not fit filters"),
    ({"channels": 5}, ValueError, "do not fit filters"),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("wrong", "error", "message"), BAD)
def test_wrong_operands(kernel, wrong, error, message):
    right = Geometry(2, (5, 5), 4, 4, (3, 3), (1, 1), (1, 1), (1, 1))
    shapes = dict(zip("xwy", right.shapes(), strict=True))
    if "channels" in wrong:
        shapes["x"] = (2, 5, 5, wrong["channels"])
    names = {"conv": "yxw", "conv_by_data": "xyw", "conv_by_weight": "wxy"}[kernel]
    operands = [blank(shapes[n], float32).on(ndl.cpu()) for n in names]
    with pytest.raises(error, match=message):
        right._replace(**wrong).call(kernel)(_native, *operands)
