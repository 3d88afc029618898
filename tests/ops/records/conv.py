"""Records of convolutions, pooling and resizing. The references visit every window by itself."""

from __future__ import annotations

import itertools

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import FLOATS, Call, OpRecord, Plain, Raises
from .elementwise import needs_tensor
from .movement import zeros


def per_axis(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def windows(spatial, size, stride, padding, dilation):
    """(window, its places inside the input, their taps) for padding as (before, after) pairs."""
    counts = [
        (n + before + after - d * (k - 1) - 1) // s + 1
        for n, k, s, (before, after), d in zip(
            spatial, size, stride, padding, dilation, strict=True
        )
    ]
    for p in itertools.product(*map(range, counts)):
        places, taps = [], []
        for tap in itertools.product(*map(range, size)):
            place = tuple(
                i * s + t * d - before
                for i, s, t, d, (before, _) in zip(p, stride, tap, dilation, padding, strict=True)
            )
            if all(0 <= q < n for q, n in zip(place, spatial, strict=True)):
                places.append(place)
                taps.append(tap)
        yield p, places, taps


def geometry(x_spatial, size, stride=1, padding=0, dilation=1):
    rank = len(size)
    stride, dilation = per_axis(stride, rank), per_axis(dilation, rank)
    if padding == "valid":
        padding = 0
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        pairs = [(t // 2, t - t // 2) for t in totals]
    else:
        pairs = [(p, p) for p in per_axis(padding, rank)]
    counts = [
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, k, s, (a, b), d in zip(x_spatial, size, stride, pairs, dilation, strict=True)
    ]
    return stride, pairs, dilation, counts


def conv_channels_last(x, w, stride=1, padding=0, dilation=1, groups=1):
    size, outputs = w.shape[:-2], w.shape[-1]
    stride, pairs, dilation, counts = geometry(x.shape[1:-1], size, stride, padding, dilation)
    y = np.zeros((x.shape[0], *counts, outputs), np.result_type(x, w))
    channels, filters = w.shape[-2], outputs // groups
    for p, places, taps in windows(x.shape[1:-1], size, stride, pairs, dilation):
        for place, tap in zip(places, taps, strict=True):
            for g in range(groups):
                seen = x[(slice(None), *place, slice(g * channels, (g + 1) * channels))]
                made = slice(g * filters, (g + 1) * filters)
                y[(slice(None), *p, made)] += seen @ w[tap][:, made]
    return y


def conv(a, b, stride=1, padding=1):
    return conv_channels_last(a, b, stride, padding)


def conv_transpose_channels_last(x, w, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    rank, size = x.ndim - 2, w.shape[:-2]
    stride, dilation = per_axis(stride, rank), per_axis(dilation, rank)
    around, extra = per_axis(padding, rank), per_axis(output_padding, rank)
    whole = tuple(
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[1:-1], stride, dilation, size, extra, strict=True)
    )
    inputs, filters = x.shape[-1] // groups, w.shape[-2]
    y = np.zeros((x.shape[0], *whole, filters * groups), np.result_type(x, w))
    for p in np.ndindex(*x.shape[1:-1]):
        for tap in np.ndindex(*size):
            at = tuple(i * s + t * d for i, s, t, d in zip(p, stride, tap, dilation, strict=True))
            for g in range(groups):
                seen = slice(g * inputs, (g + 1) * inputs)
                made = slice(g * filters, (g + 1) * filters)
                y[(slice(None), *at, made)] += x[(slice(None), *p, seen)] @ w[tap][:, seen].T
    inside = tuple(slice(q, n - q) for q, n in zip(around, whole, strict=True))
    return y[(slice(None), *inside)]


def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    rank = x.ndim - 2
    size = per_axis(kernel_size, rank)
    stride, pairs, dilation, counts = geometry(x.shape[2:], size, stride, padding, dilation)
    y = np.zeros((*x.shape[:2], *size, *counts), x.dtype)
    for p, places, taps in windows(x.shape[2:], size, stride, pairs, dilation):
        for place, tap in zip(places, taps, strict=True):
            y[(slice(None), slice(None), *tap, *p)] = x[(slice(None), slice(None), *place)]
    return y.reshape(x.shape[0], x.shape[1] * int(np.prod(size)), int(np.prod(counts)))


def fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    rank = len(output_size)
    size = per_axis(kernel_size, rank)
    stride, pairs, dilation, counts = geometry(output_size, size, stride, padding, dilation)
    columns = x.reshape(x.shape[0], -1, *size, *counts)
    y = np.zeros((*columns.shape[:2], *output_size), x.dtype)
    for p, places, taps in windows(output_size, size, stride, pairs, dilation):
        for place, tap in zip(places, taps, strict=True):
            y[(slice(None), slice(None), *place)] += columns[(slice(None), slice(None), *tap, *p)]
    return y


# Pooling ------------------------------------------------------------------------------------------


def pooled(x, kernel_size, stride, padding, dilation, ceil_mode):
    """(window, places) of a pooling, and how many windows there are along each axis."""
    rank, spatial = x.ndim - 2, x.shape[2:]
    size = per_axis(kernel_size, rank)
    stride = size if stride is None else per_axis(stride, rank)
    around, dilation = per_axis(padding, rank), per_axis(dilation, rank)
    pairs, counts = [], []
    for n, k, s, p, d in zip(spatial, size, stride, around, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + p:
            count += 1
        counts.append(count)
        pairs.append((p, p + max(0, (count - 1) * s - room)))
    return windows(spatial, size, stride, pairs, dilation), counts, size, stride, around


def places_of(x, places):
    """(N, C, K): the elements of x at the places."""
    return np.stack([x[(slice(None), slice(None), *place)] for place in places], -1)


def max_pool(
    x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    found, counts, *_ = pooled(x, kernel_size, stride, padding, dilation, ceil_mode)
    y = np.zeros((*x.shape[:2], *counts), x.dtype)
    index = np.zeros(y.shape, np.int64)
    for p, places, _ in found:
        seen = places_of(x, places)
        which = seen.argmax(-1)
        at = (slice(None), slice(None), *p)
        y[at] = np.take_along_axis(seen, which[..., None], -1)[..., 0]
        index[at] = np.ravel_multi_index(np.transpose(places), x.shape[2:])[which]
    return (y, index) if return_indices else y


def avg_pool(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    found, counts, size, step, around = pooled(x, kernel_size, stride, padding, 1, ceil_mode)
    y = np.zeros((*x.shape[:2], *counts))
    for p, places, _ in found:
        divisor = len(places)
        if count_include_pad:
            divisor = 1
            for i, k, s, q, n in zip(p, size, step, around, x.shape[2:], strict=True):
                divisor *= min(i * s - q + k, n + q) - (i * s - q)
        total = places_of(x, places).sum(-1)
        y[(slice(None), slice(None), *p)] = total / (divisor_override or divisor)
    return y


def parts(x, output_size):
    """(part, its index expression) for every part of space."""
    spatial = x.shape[2:]
    wanted = (output_size,) * len(spatial) if not isinstance(output_size, tuple) else output_size
    wanted = [n if m is None else m for n, m in zip(spatial, wanted, strict=True)]
    for p in np.ndindex(*wanted):
        part = tuple(
            slice(int(np.floor(i * n / m)), int(np.ceil((i + 1) * n / m)))
            for i, n, m in zip(p, spatial, wanted, strict=True)
        )
        yield p, wanted, (slice(None), slice(None), *part)


def by_parts(reduce):
    def pool(x, output_size):
        y = None
        for p, wanted, part in parts(x, output_size):
            if y is None:
                y = np.zeros((*x.shape[:2], *wanted), x.dtype)
            y[(slice(None), slice(None), *p)] = reduce(x[part], axis=tuple(range(2, x.ndim)))
        return y

    return pool


# Resizing -----------------------------------------------------------------------------------------


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    rank = x.ndim - 2
    factors = per_axis(scale_factor, rank) if scale_factor else (None,) * rank
    size = None if size is None else per_axis(size, rank)
    if mode == "area":
        return by_parts(np.mean)(x, size)
    for i in range(rank):
        n = x.shape[2 + i]
        m = size[i] if size else int(np.floor(n * factors[i]))
        scale = n / m if size else 1 / factors[i]
        j = np.arange(m)
        if mode.startswith("nearest"):
            places = np.floor((j + (0.5 if mode == "nearest-exact" else 0)) * scale)
            low, t = np.minimum(places.astype(int), n - 1), np.zeros(m)
        else:
            places = j * (n - 1) / max(m - 1, 1) if align_corners else (j + 0.5) * scale - 0.5
            places = np.maximum(places, 0)
            low = np.minimum(places.astype(int), n - 1)
            t = places - low
        high = np.minimum(low + 1, n - 1)
        t = t.reshape(-1, *(1,) * (rank - i - 1))
        if mode.startswith("nearest"):
            x = np.take(x, low, 2 + i)
        else:
            x = np.take(x, low, 2 + i) * (1 - t) + np.take(x, high, 2 + i) * t
    return x


def spread(*shape):
    """Distinct values far apart: what is the largest does not change with a small step."""
    n = int(np.prod(shape))
    return (np.random.default_rng(3).permutation(n) / 8.0 - n / 16).reshape(shape)


def averaged(dtype):
    return str(dtype) if dtype.is_floating else "float64"


SHAPE = r"expected \(batch, channels, space\.\.\.\), got \(2, 3\)"
LARGER = r"the window is larger than the padded input: window \(5, 5\)"

CONVOLUTIONS = (
    OpRecord(
        "conv", conv,
        (Call((2, 5, 4, 3), (3, 3, 3, 2)), Call((2, 5, 4, 3), (3, 3, 3, 2), 2, 0),
         Call((1, 4, 4, 2), (2, 2, 2, 4), 2, 1), Call((1, 3, 3, 2), (1, 1, 2, 3), 1, 0),
         Call((0, 3, 3, 2), (2, 2, 2, 3))),
        dtypes=tuple(d for d in DTYPES if d != "bool"),
        errors=(
            Raises(lambda f: f(zeros(1, 3, 3, 2), zeros(3, 3, 4, 2)), ValueError,
                   r"\[conv\] channels differ: the input has 2, the weight takes 4 in each of 1"),
            Raises(lambda f: f(zeros(1, 3, 3, 2), zeros(5, 5, 2, 2), 1, 0), ValueError,
                   rf"\[conv\] {LARGER}"),
            Raises(lambda f: f(zeros(1, 3, 3, 2), zeros(3, 3, 2)), ValueError,
                   r"\[conv\] expected input and weight with the same number of axes"),
            Raises(lambda f: f(zeros(1, 3, 3, 2), zeros(3, 3, 2, 1), 0), ValueError,
                   r"\[conv\] stride must be a whole number >= 1 or 2 of them, got 0"),
            Raises(lambda f: f(zeros(1, 3, 3, 2), zeros(3, 3, 2, 1), 1, "full"), ValueError,
                   r"\[conv\] padding must be numbers, 'same' or 'valid', got 'full'"),
            needs_tensor("conv"),
        ),
    ),
    OpRecord(
        "conv_channels_last", conv_channels_last,
        (Call((2, 6, 3), (3, 3, 4)), Call((2, 7, 2), (3, 2, 4), 2, 1, 2),
         Call((1, 5, 6, 4), (3, 2, 2, 6), Plain((2, 1)), Plain((1, 0)), Plain((1, 2)), 2),
         Call((2, 4, 5, 3), (3, 3, 1, 3), groups=3, padding=1),
         Call((1, 4, 5, 2), (2, 3, 2, 3), padding="same"),
         Call((1, 4, 2), (2, 2, 3), padding="valid"),
         Call((1, 3, 4, 3, 2), (2, 2, 2, 2, 3), 1, 1)),
        errors=(
            Raises(lambda f: f(zeros(1, 4, 2), zeros(3, 2, 1), 2, "same"), ValueError,
                   r"\[conv\] padding='same' needs stride 1, got 2"),
            Raises(lambda f: f(zeros(1, 4, 4), zeros(3, 2, 3), groups=2), ValueError,
                   r"\[conv\] channels differ: .* in each of 2 groups and gives 3"),
        ),
    ),
    OpRecord(
        "conv_transpose_channels_last", conv_transpose_channels_last,
        (Call((2, 4, 3), (3, 2, 3)), Call((1, 3, 4, 2), (3, 2, 3, 2), 2, 1, 1),
         Call((1, 3, 2, 4), (2, 3, 2, 4), Plain((3, 2)), 0, Plain((2, 1)), 1, 2),
         Call((2, 4, 2), (3, 2, 2), 1, 1, 2, 3), Call((1, 3, 3, 2), (1, 1, 3, 2))),
        errors=(
            Raises(lambda f: f(zeros(1, 4, 2), zeros(3, 2, 3)), ValueError,
                   r"\[conv_transpose\] channels differ: the input has 2, the weight takes 3"),
            Raises(lambda f: f(zeros(1, 4, 2), zeros(3, 2, 2), 2, 0, 2), ValueError,
                   r"\[conv_transpose\] output_padding must be smaller than stride or dilation, "
                   r"got \(2,\) with stride \(2,\)"),
            Raises(lambda f: f(zeros(1, 1, 2), zeros(3, 2, 2), 1, 2), ValueError,
                   r"\[conv_transpose\] padding takes more than the output has"),
        ),
    ),
    OpRecord(
        "unfold", unfold,
        (Call((2, 3, 5, 4), 3), Call((2, 2, 5, 6), Plain((3, 2)), Plain((1, 2)), 1, 2),
         Call((1, 2, 7), 3, 2, 1, 2)),
        dtypes=DTYPES, exact=True,
        errors=(
            Raises(lambda f: f(zeros(2, 3), 2), ValueError, rf"\[unfold\] {SHAPE}"),
            Raises(lambda f: f(zeros(1, 1, 3, 3), 5), ValueError, rf"\[unfold\] {LARGER}"),
        ),
    ),
    OpRecord(
        "fold", fold,
        (Call((2, 18, 6), Plain((5, 4)), 3),
         Call((1, 12, 12), Plain((5, 6)), Plain((3, 2)), 1, 1, 2)),
        errors=(
            Raises(lambda f: f(zeros(2, 17, 6), (5, 4), 3), ValueError,
                   r"\[fold\] expected \(batch, a multiple of 9, 6\) for kernel size \(3, 3\) on "
                   r"\(5, 4\), got \(2, 17, 6\)"),
        ),
    ),
)  # fmt: skip

POOLING = (
    OpRecord(
        "max_pool", max_pool,
        (Call(spread(2, 3, 4, 6), 2), Call(spread(2, 2, 5, 6), 3, 2, 1),
         Call(spread(1, 2, 7, 5), Plain((3, 2)), Plain((2, 3)), 1, Plain((2, 1)), True),
         Call(spread(2, 1, 7), 3, 2, ceil_mode=True, return_indices=True),
         Call(spread(1, 1, 3, 4, 5), 2, return_indices=True)),
        dtypes=FLOATS, exact=True,
        result_dtype=lambda dtype: None,
        errors=(
            Raises(lambda f: f(zeros(2, 3), 2), ValueError, rf"\[max_pool\] {SHAPE}"),
            Raises(lambda f: f(zeros(1, 1, 4, 4), 2, 2, 2), ValueError,
                   r"\[max_pool\] padding must be at most half of the window, got \(2, 2\) for "
                   r"window \(2, 2\)"),
            Raises(lambda f: f(zeros(1, 1, 4, 4), 5), ValueError, rf"\[max_pool\] {LARGER}"),
            Raises(lambda f: f(zeros(1, 1, 4, 4), (2, 2, 2)), ValueError,
                   r"\[max_pool\] kernel_size must be a whole number >= 1 or 2 of them"),
            needs_tensor("max_pool"),
        ),
    ),
    OpRecord(
        "avg_pool", avg_pool,
        (Call((2, 3, 4, 6), 2), Call((2, 2, 5, 6), 3, 2, 1), Call((2, 1, 7), 3, 2, 1, True),
         Call((1, 2, 7, 5), Plain((3, 2)), Plain((2, 3)), 1, True, False),
         Call((1, 2, 4, 4), 2, divisor_override=3), Call((1, 1, 3, 4, 5), 2)),
        result_dtype=averaged,
        errors=(
            Raises(lambda f: f(zeros(2, 3), 2), ValueError, rf"\[avg_pool\] {SHAPE}"),
            Raises(lambda f: f(zeros(1, 1, 4), 2, divisor_override=0), ValueError,
                   r"\[avg_pool\] divisor_override must not be 0"),
        ),
    ),
    OpRecord(
        "adaptive_max_pool", by_parts(np.max),
        (Call(spread(2, 3, 4, 6), 2), Call(spread(2, 2, 5, 7), Plain((3, 4))),
         Call(spread(1, 2, 5, 4), Plain((None, 3))), Call(spread(2, 1, 7), 9)),
        dtypes=FLOATS, exact=True,
        errors=(
            Raises(lambda f: f(zeros(2, 3), 2), ValueError, rf"\[adaptive_max_pool\] {SHAPE}"),
        ),
    ),
    OpRecord(
        "adaptive_avg_pool", by_parts(np.mean),
        (Call((2, 3, 4, 6), 2), Call((2, 2, 5, 7), Plain((3, 4))),
         Call((1, 2, 5, 4), Plain((None, 3))), Call((2, 1, 7), 9)),
        dtypes=FLOATS,
        errors=(
            Raises(lambda f: f(zeros(2, 2, 0), 2), ValueError,
                   r"\[adaptive_avg_pool\] expected a space that is not empty, got \(0,\)"),
            Raises(lambda f: f(zeros(2, 2, 4), 0), ValueError,
                   r"\[adaptive_avg_pool\] output_size must be a whole number >= 1 or 1 of them"),
        ),
    ),
    OpRecord(
        "global_max_pool", lambda x: x.max(tuple(range(2, x.ndim))),
        (Call(spread(2, 3, 4, 5)), Call(spread(2, 3, 4))), dtypes=FLOATS, exact=True,
        errors=(Raises(lambda f: f(zeros(2, 3)), ValueError, rf"\[global_max_pool\] {SHAPE}"),),
    ),
    OpRecord(
        "global_avg_pool", lambda x: x.mean(tuple(range(2, x.ndim))),
        (Call((2, 3, 4, 5)), Call((2, 3, 4))), dtypes=FLOATS,
        errors=(Raises(lambda f: f(zeros(2, 3)), ValueError, rf"\[global_avg_pool\] {SHAPE}"),),
    ),
)  # fmt: skip

X = r"\[interpolate\]"
RESIZING = (
    OpRecord(
        "interpolate", interpolate,
        (Call((2, 3, 4, 5), size=Plain((8, 10))), Call((1, 2, 4, 5), size=Plain((3, 7))),
         Call((1, 2, 4, 6), scale_factor=2, mode="nearest-exact"), Call((2, 2, 6), Plain((3,))),
         Call((1, 2, 4, 5), Plain((7, 3)), mode="bilinear"),
         Call((1, 2, 4, 5), Plain((7, 3)), mode="bilinear", align_corners=True),
         Call((1, 2, 5), 9, mode="linear", align_corners=True),
         Call((1, 1, 3, 4, 2), 3, mode="trilinear"), Call((1, 2, 5, 4), 3, mode="area")),
        dtypes=FLOATS, result_dtype=str,
        errors=(
            Raises(lambda f: f(zeros(2, 3), 2), ValueError, rf"{X} {SHAPE}"),
            Raises(lambda f: f(zeros(1, 1, 4)), ValueError,
                   rf"{X} give one of size and scale_factor, got None and None"),
            Raises(lambda f: f(zeros(1, 1, 4), 2, mode="bilinear"), ValueError,
                   rf"{X} mode 'bilinear' is for 2 spatial axes, got shape \(1, 1, 4\); the linear "
                   "mode for it: linear"),
            Raises(lambda f: f(zeros(1, 1, 4), 2, mode="cubic"), ValueError,
                   rf"{X} mode must be one of nearest, nearest-exact, linear"),
            Raises(lambda f: f(zeros(1, 1, 4), 2, align_corners=True), ValueError,
                   rf"{X} align_corners is for linear modes, got mode 'nearest'"),
            Raises(lambda f: f(zeros(1, 1, 4), scale_factor=0.1), ValueError,
                   rf"{X} scale_factor must be a number or 1 of them .* got 0\.1"),
            Raises(lambda f: f(zeros(1, 1, 4), 2, recompute_scale_factor=True), ValueError,
                   rf"{X} recompute_scale_factor is for scale_factor, not size"),
            Raises(lambda f: f(ndl.Tensor([[[1]]], dtype="int32"), 2, mode="linear"), TypeError,
                   rf"{X} mode 'linear' expects a floating dtype, got int32"),
        ),
    ),
)  # fmt: skip

RECORDS = (*CONVOLUTIONS, *POOLING, *RESIZING)
