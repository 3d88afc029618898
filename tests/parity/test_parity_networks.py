"""Attention and recurrence: every device against the reference and against float64."""

import numpy as np
import pytest

import needle as ndl
from needle import _native
from needle.backend import reference
from needle.dtype import bfloat16, bool_, float32, float64, widened
from needle.ndarray.kernels import sequence
from needle.ndarray.kernels.sequence import CELLS

from .operands import (
    FLOATS,
    READABLE,
    WRITABLE,
    Spec,
    bits,
    blank,
    contiguous,
    draw,
    epsilon,
    numbers,
    on_devices,
    whole_memory,
)

in_floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def normal(dtype, shape, seed=0, scale=1.0):
    values = np.random.default_rng((seed, *shape)).standard_normal(shape) * scale
    return bits(values) if dtype is bfloat16 else values.astype(dtype.storage)


def run(call, outs, inputs, device):
    """The outputs' views and whole memories after the call; operands may be None."""
    targets = [None if o is None else o.on(device) for o in outs]
    call(device.mod, *targets, *(None if i is None else i.on(device) for i in inputs))
    made = [t for t in targets if t is not None]
    return [t.numpy() for t in made], [whole_memory(t) for t in made]


def exact(spec):
    """The same operand in float64; bools stay."""
    if spec is None or spec.dtype is bool_:
        return spec
    return Spec(numbers(np.array(spec.layout(spec.values)[1]), spec.dtype).astype(float), float64)


def check(device, call, outs, inputs, about):
    """Close to float64, as close as the dtype allows; nothing is written beside the outputs."""
    found, memories = run(call, outs, inputs, device)
    wide = [None if o is None else blank(o.values.shape, float64) for o in outs]
    wanted, _ = run(call, wide, [exact(i) for i in inputs], ndl.cpu_numpy())
    _, untouched = run(lambda *_: None, outs, [], device)
    made = [o for o in outs if o is not None]
    for spec, ours, right, memory, before in zip(
        made, found, wanted, memories, untouched, strict=True
    ):
        size = 1 + np.abs(right[np.isfinite(right)]).max(initial=0)
        bound = 40 * epsilon(spec.dtype) * size
        np.testing.assert_allclose(ours.astype(float), right, rtol=0, atol=bound, err_msg=about)
        outside = np.ones(memory.size, bool)
        flat, view = spec.layout(spec.values)
        at = (view.ctypes.data - flat.ctypes.data) // flat.itemsize if view.size else 0
        index = np.full(view.shape, at)
        for axis, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
            steps = np.arange(n) * (stride // flat.itemsize)
            index = index + steps.reshape([-1 if i == axis else 1 for i in range(view.ndim)])
        outside[index.reshape(-1)] = False
        np.testing.assert_array_equal(memory[outside], before[outside], about)


# Attention --------------------------------------------------------------------------------------

MASKS = (None, "bool", "numbers", "one row")


def mask_of(kind, dtype, batch, queries, keys):
    if kind is None:
        return None
    if kind == "bool":
        return Spec(draw(bool_, (*batch, queries, keys), 5), bool_)
    shape = (1, keys) if kind == "one row" else (queries, keys)
    return Spec(normal(widened(dtype), shape, 6), widened(dtype))


def check_attention(device, dtype, sizes, mask=None, causal=False, layout=0, batch=(2, 3)):
    """Forward and backward for (T, S, D, E)."""
    queries, keys, size, width = sizes
    sums = widened(dtype)
    readable = lambda i: READABLE[(layout + i) % len(WRITABLE)]  # noqa: E731
    writable = lambda i: WRITABLE[(layout + i) % len(WRITABLE)]  # noqa: E731
    q = Spec(normal(dtype, (*batch, queries, size), 1), dtype, readable(0))
    k = Spec(normal(dtype, (batch[0], 1, keys, size), 2), dtype, readable(1))  # shared by heads
    v = Spec(normal(dtype, (*batch, keys, width), 3), dtype, readable(2))
    seen = mask_of(mask, dtype, batch, queries, keys)
    scale = 0.7 / max(1, size) ** 0.5
    about = f"attention {dtype} {sizes} mask={mask} causal={causal} layout={layout}"

    def forward(mod, out, lse, *inputs):
        mod.attention(out, lse, *inputs, scale, causal)

    out_shapes = [(*batch, queries, width), (*batch, queries, 1)]
    outs = [
        blank(s, d, writable(i))
        for i, (s, d) in enumerate(zip(out_shapes, (dtype, sums), strict=True))
    ]
    inputs = [q, k, v, seen]
    check(device, forward, outs, inputs, about)

    wide = [blank(s, float64) for s in out_shapes]
    results, _ = run(forward, wide, [exact(i) for i in inputs], ndl.cpu_numpy())
    y, lse = (
        Spec(bits(r) if d is bfloat16 else r.astype(d.storage), d)
        for r, d in zip(results, (dtype, sums), strict=True)
    )
    g = Spec(normal(dtype, out_shapes[0], 7), dtype, readable(3))
    g_log = Spec(normal(sums, out_shapes[1], 8), sums)
    shapes = [(*batch, queries, size), (*batch, keys, size), (*batch, keys, width)]
    adjoints = [blank(s, dtype, writable(i)) for i, s in enumerate(shapes)]
    ds = blank((*batch, queries, keys), sums, writable(3)) if mask == "numbers" else None

    def backward(mod, *operands):
        mod.attention_backward(*operands, scale, causal)

    check(device, backward, [*adjoints, ds], [*inputs, y, lse, g, g_log], about)


@on_devices
@in_floats
def test_attention_layouts(device, dtype):
    for layout in range(len(WRITABLE)):
        causal, mask = layout % 2 == 1, MASKS[layout % len(MASKS)]
        check_attention(device, dtype, (70, 133, 9, 17), mask, causal, layout)
        check_attention(device, dtype, (1, 301, 37, 70), mask, causal, layout)


@on_devices
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_masks(device, mask, causal):
    for sizes in (
        (1, 1, 1, 1), (1, 128, 64, 64), (1, 259, 5, 33), (5, 9, 4, 3), (64, 128, 16, 16),
        (130, 65, 8, 24),
    ):  # fmt: skip
        check_attention(device, float32, sizes, mask, causal)


@on_devices
@pytest.mark.parametrize("seed", range(6))
def test_attention_of_any_size(device, seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        sizes = tuple(int(n) for n in np.exp(rng.uniform(0, np.log([300, 300, 80, 80]))))
        check_attention(
            device,
            FLOATS[rng.integers(4)],
            sizes,
            MASKS[rng.integers(4)],
            bool(rng.integers(2)),
            int(rng.integers(7)),
            tuple(int(n) for n in rng.integers(1, 4, 2)),
        )


@on_devices
@pytest.mark.parametrize(
    "sizes",
    [
        (0, 5, 4, 3),
        (3, 0, 4, 3),
        (3, 5, 0, 3),
        (3, 5, 4, 0),
        (1, 0, 4, 3),
        (1, 5, 0, 3),
        (1, 5, 4, 0),
    ],
)
def test_attention_of_nothing(device, sizes):
    check_attention(device, float32, sizes)
    check_attention(device, float32, sizes, "bool", True, batch=(0, 2))


@on_devices
def test_attention_rows_a_power_of_two_apart(device):
    """Rows that fall on the same sets of a cache are copied, not read in place."""
    memory = normal(float32, (2, 140, 4, 512), 1)
    q, k, v = (Spec(memory, float32, lambda m, i=i: heads_of(m, i)) for i in range(3))
    outs = [blank((2, 4, 140, 64), float32), blank((2, 4, 140, 1), float32)]

    def forward(mod, out, lse, *inputs):
        mod.attention(out, lse, *inputs, None, 0.125, True)

    check(device, forward, outs, [q, k, v], "attention")


def heads_of(memory, part):
    """(B, H, T, 64) in rows of (B, T, H, 512)."""
    flat = memory.flatten()
    return flat, flat.reshape(memory.shape)[..., 64 * part : 64 * part + 64].transpose(0, 2, 1, 3)


# Recurrence -------------------------------------------------------------------------------------


def check_recurrence(device, cell, dtype, sizes, bias=False, layout=0):
    """Forward and backward for (T, B, H)."""
    steps, batch, size = sizes
    info, sums = CELLS[cell], widened(dtype)
    readable = lambda i: READABLE[(layout + i) % len(WRITABLE)]  # noqa: E731
    writable = lambda i: WRITABLE[(layout + i) % len(WRITABLE)]  # noqa: E731
    wide = info.gates * size
    x = Spec(normal(dtype, (steps, batch, wide), 1), dtype, readable(0))
    h0 = Spec(normal(dtype, (batch, size), 2), dtype, readable(1))
    c0 = Spec(normal(dtype, (batch, size), 3), dtype, readable(2)) if info.has_c else None
    w = Spec(normal(dtype, (size, wide), 4, 1 / max(1, size) ** 0.5), dtype, readable(3))
    b = Spec(normal(dtype, (1, wide), 5), dtype) if bias else None
    about = f"{cell} {dtype} {sizes} bias={bias} layout={layout}"

    def forward(mod, *operands):
        mod.recurrence(cell, *operands)

    shapes = [(steps, batch, size), (batch, size), (steps, batch, info.kept * size)]
    dtypes = [dtype, dtype, sums]
    outs = [blank(s, d, writable(i)) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
    outs[1] = outs[1] if info.has_c else None
    inputs = [x, h0, c0, w, b]
    check(device, forward, outs, inputs, about)

    doubles = [None if o is None else blank(o.values.shape, float64) for o in outs]
    results, _ = run(forward, doubles, [exact(i) for i in inputs], ndl.cpu_numpy())
    h, kept = (
        Spec(bits(r) if d is bfloat16 else r.astype(d.storage), d)
        for r, d in zip((results[0], results[-1]), (dtype, sums), strict=True)
    )
    g_h = Spec(normal(dtype, shapes[0], 6), dtype, readable(4))
    g_c = Spec(normal(dtype, shapes[1], 7), dtype) if info.has_c else None
    dx, ds = (blank((steps, batch, wide), dtype, writable(i)) for i in range(2))
    dh0, dc0 = (blank((batch, size), dtype, writable(i + 2)) for i in range(2))

    def backward(mod, *operands):
        mod.recurrence_backward(cell, *operands)

    adjoints = [dx, ds if info.splits else None, dh0, dc0 if info.has_c else None]
    check(device, backward, adjoints, [h, kept, h0, c0, w, g_h, g_c], about)


cells = pytest.mark.parametrize("cell", CELLS)


def test_every_cell_has_a_reference():
    assert reference.CELLS.keys() == CELLS.keys()


@on_devices
@cells
@in_floats
def test_recurrence_layouts(device, cell, dtype):
    for layout in range(len(WRITABLE)):
        check_recurrence(device, cell, dtype, (3, 5, 19), bias=layout % 2 == 1, layout=layout)


@on_devices
@cells
@in_floats
def test_recurrence_with_shared_weights_in_any_layout(device, cell, dtype):
    for layout in range(len(WRITABLE)):
        check_recurrence(device, cell, dtype, (3, 5, 240), bias=layout % 2 == 1, layout=layout)


@on_devices
@cells
def test_recurrence_of_any_size(device, cell):
    for sizes in ((1, 1, 1), (1, 17, 3), (2, 33, 64), (4, 16, 65), (6, 2, 100), (2, 50, 300)):
        check_recurrence(device, cell, float32, sizes)
    for sizes in ((3, 1, 300), (2, 7, 333), (1, 40, 1030)):  # weights that tasks share
        check_recurrence(device, cell, float32, sizes, bias=True)
    for sizes in ((0, 2, 3), (2, 0, 3), (2, 3, 0)):
        check_recurrence(device, cell, float32, sizes)


# Functions --------------------------------------------------------------------------------------


def worst_ulps(found, exact):
    """The largest error in units of the last place of the exact result."""
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(float)
    return (np.abs(found.astype(float) - exact) / spacing).max()


def test_functions_of_vectors_are_accurate():
    """tanh and the sigmoid of cells, e^x of attention, on a dense grid of arguments."""
    array = lambda a: ndl.tensor(np.ascontiguousarray(a, np.float32)).cached_data  # noqa: E731
    sizes = np.exp(np.linspace(np.log(1e-6), np.log(80), 40_001)).astype(np.float32)
    x = np.concatenate([sizes, -sizes]).reshape(1, -1, 1)
    state = array(np.zeros((x.size, 1)))
    h, *_ = sequence.recurrence("tanh", array(x), state, array(np.zeros((1, 1))), None, None)
    assert worst_ulps(h.numpy(), np.tanh(x.astype(float))) <= 2.5
    gates, weights = array(np.repeat(x, 3, 2)), array(np.zeros((1, 3)))
    *_, kept = sequence.recurrence("gru", gates, state, weights, None, None)
    assert worst_ulps(kept.numpy()[..., :1], 1 / (1 + np.exp(-x.astype(float)))) <= 2.5
    # One query of 1 with keys x: p = e^x, and the adjoint of the values is p.
    one, zero = array(np.ones((1, 1, 1))), array(np.zeros((1, 1, 1)))
    keys = -sizes.reshape(1, -1, 1)
    inputs = (one, array(keys), array(np.zeros(keys.shape)), None)
    *_, dv = sequence.attention_backward(inputs, (zero, zero), (one, zero), 1.0, False, False)
    assert worst_ulps(dv.numpy(), np.exp(keys.astype(float))) <= 2.5


# Threads ----------------------------------------------------------------------------------------


@pytest.fixture
def _restore_threads():
    before = _native.get_num_threads()
    yield
    _native.set_num_threads(before)


def assert_equal_for_all_threads(call, outs, inputs):
    found = []
    for threads in (1, 2, 3):
        _native.set_num_threads(threads)
        found.append([m.tobytes() for m in run(call, outs, inputs, ndl.cpu())[1]])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("heads", [1, 12])
def test_attention_does_not_depend_on_threads(heads, _restore_threads):
    """One head is cut into chunks of queries; many are not."""
    shape = (heads, 700, 24)
    q, k, v, g, y = (Spec(normal(float32, shape, i), float32) for i in range(5))
    lse = Spec(normal(float32, (heads, 700, 1), 6) + 6, float32)
    outs = [blank(shape, float32), blank((heads, 700, 1), float32)]
    assert_equal_for_all_threads(
        lambda mod, *operands: mod.attention(*operands, None, 0.2, True), outs, [q, k, v]
    )
    assert_equal_for_all_threads(
        lambda mod, *o: mod.attention_backward(*o[:3], None, *o[3:6], None, *o[6:], 0.2, True),
        [blank(shape, float32)] * 3,
        [q, k, v, y, lse, g, lse],
    )


@cells
@pytest.mark.parametrize("sizes", [(5, 40, 70), (3, 6, 300)])  # by rows, by units
def test_recurrence_does_not_depend_on_threads(cell, sizes, _restore_threads):
    info, (steps, batch, size) = CELLS[cell], sizes
    x = Spec(normal(float32, (steps, batch, info.gates * size), 1), float32)
    w = Spec(normal(float32, (size, info.gates * size), 2, 0.1), float32)
    first = Spec(normal(float32, (batch, size), 3), float32, contiguous)
    h, kept = (blank((steps, batch, n * size), float32) for n in (1, info.kept))
    state = blank((batch, size), float32)
    c_last, c0 = (state, first) if info.has_c else (None, None)
    assert_equal_for_all_threads(
        lambda mod, *o: mod.recurrence(cell, *o, None), [h, c_last, kept], [x, first, c0, w]
    )
    states, keeps = (Spec(normal(float32, s.values.shape, 4), float32) for s in (h, kept))
    outs = [blank(x.values.shape, float32)] * 2 + [state] * 2
    outs[1], outs[3] = outs[1] if info.splits else None, outs[3] if info.has_c else None
    assert_equal_for_all_threads(
        lambda mod, *o: mod.recurrence_backward(cell, *o),
        outs,
        [states, keeps, first, c0, w, states, c0],
    )
