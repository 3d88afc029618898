"""The instruction `random`: the numbers of the kernel `random`, wherever an element is computed."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import _native
from needle.dtype import bool_, float16, float32, float64, int32, int64
from needle.ndarray import functions as F
from needle.tile import program as tp
from needle.tile.program import ProgramError, Scalar, Symbol, program

from .operands import READABLE, WRITABLE, Spec, blank, contiguous, mild, on_devices, transposed
from .test_program import Code, assert_close, run_on_both
from .test_threads_equal import assert_equal_for_all_threads

SEEDS = (0, 7, 2**40 + 3, 2**64 - 1)
OFFSETS = (0, 1, 2, 3, 6, 2**34 - 5, 2**50 + 1)  # also where a counter's upper word begins
SHAPES = ((), (1,), (3,), (1023,), (1025,), (5, 7), (37, 129), (130, 515), (2, 3, 5, 7), (0, 4))


@program
def noise(x: Symbol, seed: Scalar, offset: Scalar) -> Symbol:
    return tp.random(seed, offset)


@program
def dropped(x: Symbol, seed: Scalar, offset: Scalar) -> tuple[Symbol, Symbol]:
    kept = tp.random(seed, offset) < 0.7
    return x * tp.cast(kept, x) / 0.7, kept


@program
def in_rows(x: Symbol, seed: Scalar, offset: Scalar) -> tuple[Symbol, ...]:
    """Numbers in three phases, beside a row, in column sums, and from two places of a stream."""
    u = tp.random(seed, offset)
    y = u / tp.row_sum(u) * tp.row_max(x)
    return y, tp.row_mean(y * tp.random(seed, 3)), tp.column_sum(u)


def words(*numbers):
    return [Spec(np.array(n, np.uint64).astype(np.int64), int64) for n in numbers]


def drawn(shape, seed, offset):
    """What the kernel puts there."""
    out = blank(shape, float32).on(ndl.cpu())
    _native.random("uniform", out, seed, offset)
    return out.numpy()


@on_devices
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_are_those_of_the_kernel(device, shape):
    for seed in SEEDS:
        for offset in OFFSETS:
            x = Spec(mild(float32, shape), float32)
            ((actual, expected, _),) = run_on_both(
                device, noise, [x, *words(seed, offset)], shape, 0
            )
            np.testing.assert_array_equal(actual, expected)
            np.testing.assert_array_equal(actual, drawn(shape, seed, offset).reshape(-1))


@on_devices
@pytest.mark.parametrize("layout", READABLE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(5, 40), (3, 4, 30), (33, 257), (2, 3, 5, 7), (16, 1100)])
def test_layouts(device, shape, layout):
    """The position counts in C order, however operands lie."""
    for out_layout in WRITABLE:
        for dtype in (float32, float64, float16):
            x = Spec(mild(dtype, shape), dtype, layout)
            inputs, outs = [x, *words(5, 3)], (out_layout, contiguous)
            for actual, expected, _ in run_on_both(device, dropped, inputs, shape, 0, outs):
                np.testing.assert_array_equal(actual, expected)


@on_devices
@pytest.mark.parametrize("length", [1, 7, 16, 130, 1000, 2050, 40_000])
def test_rows(device, length):
    for rows in (1, 3, 37):
        for layout in (contiguous, transposed):
            x = Spec(mild(float32, (rows, length)), float32, layout)
            results = run_on_both(device, in_rows, [x, *words(5, 3)], (rows, length), 1)
            assert_close(results, f"{rows}x{length}", 64)
    x = Spec(mild(float32, (3, 5, length)), float32, transposed)
    assert_close(run_on_both(device, in_rows, [x, *words(5, 3)], (3, 5, length), 2), "two axes", 64)


@on_devices
def test_operands_that_broadcast(device):
    x = Spec(mild(float32, (5, 1)), float32)
    outs = [Spec(np.zeros((5, 33), np.float32), float32), blank((5, 33), bool_)]
    typed = dropped.for_dtypes((float32, int64, int64))
    found = [[o.on(d) for o in outs] for d in (device, ndl.cpu_numpy())]
    for d, targets in zip((device, ndl.cpu_numpy()), found, strict=True):
        d.mod.run(typed, targets, [i.on(d) for i in (x, *words(1, 2))], 0)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@on_devices
def test_an_output_may_be_the_input(device):
    x = mild(float32, (9, 1030))
    target, kept = Spec(x, float32).on(device), blank((9, 1030), bool_).on(device)
    typed = dropped.for_dtypes((float32, int64, int64))
    scalars = [w.on(device) for w in words(1, 2)]
    device.mod.run(typed, [target, kept], [target, *scalars], 0)
    mask = drawn((9, 1030), 1, 2) < np.float32(0.7)
    np.testing.assert_array_equal(kept.numpy(), mask)
    np.testing.assert_array_equal(target.numpy(), x * mask / np.float32(0.7))


@on_devices
def test_many_calls_at_once(device):
    """Each call has its own operands, and its own positions."""
    typed = noise.for_dtypes((float32, int64, int64))
    shapes = [(3, 7), (5000,), (1,)]
    calls = [
        ((blank(s, float32).on(device),), [i.on(device) for i in (blank(s, float32), *words(n, n))])
        for n, s in enumerate(shapes)
    ]
    device.mod.run_each(typed, calls)
    for n, (s, ((out,), _)) in enumerate(zip(shapes, calls, strict=True)):
        np.testing.assert_array_equal(out.numpy(), drawn(s, n, n))


@pytest.mark.parametrize("layout", [contiguous, transposed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(70_001,), (300, 701), (40, 50, 61)])
def test_threads(shape, layout):
    typed = noise.for_dtypes((float32, int64, int64))
    x = Spec(mild(float32, shape), float32, layout)
    assert_equal_for_all_threads(
        lambda out, *ins: _native.run(typed, (out,), ins, 0),
        blank(shape, float32, layout),
        x,
        *words(2**63 + 1, 9),
    )
    rows = in_rows.for_dtypes((float32, int64, int64))
    row, column = (*shape[:-1], 1), (*(1 for _ in shape[:-1]), shape[-1])
    others = [blank(s, float32).on(ndl.cpu()) for s in (row, column)]
    assert_equal_for_all_threads(
        lambda out, *ins: _native.run(rows, (out, *others), ins, 1),
        blank(shape, float32, layout),
        x,
        *words(2**63 + 1, 9),
    )


# Errors -----------------------------------------------------------------------------------------


def test_text():
    assert noise.text.splitlines()[-2:] == ["  %3 = random %1, %2         full", "  store 0, %3"]
    typed = noise.for_dtypes((float32, int64, int64))
    assert typed.is_random and typed.outputs == (float32,)
    assert typed.text.splitlines()[-2] == "  %3 = random %1, %2         full float32"
    assert not program(lambda x: x + 1.0).for_dtypes((float32,)).is_random


def test_mistakes_are_named():
    with pytest.raises(ProgramError, match="random: expected scalars, got a full value"):
        program(lambda x: tp.random(x, 0))
    with pytest.raises(ProgramError, match="seed and offset must be int64, not int32"):
        noise.for_dtypes((float32, int64, int32))
    with pytest.raises(ProgramError, match=r"`constant 0\.5`: 0\.5 is no int64"):
        program(lambda x: x + tp.random(0.5, 0)).for_dtypes((float32,))
    with pytest.raises(ProgramError, match="inside of a @program function"):
        tp.random(1, 2)
    x = ndl.ones(3, 4).cached_data
    turned = program(lambda x: x / tp.row_sum(tp.random(1, 2)))
    assert F.run(turned, x, axes=(1,)).shape == (3, 4)
    with pytest.raises(ProgramError, match="the row must be made of the last axes"):
        F.run(turned, x, axes=(0,))


def test_code_that_nobody_checked_is_refused():
    typed = noise.for_dtypes((float32, int64, int64))
    x = Spec(mild(float32, (3, 4)), float32).on(ndl.cpu())
    scalars = [w.on(ndl.cpu()) for w in words(1, 2)]
    at = typed.code.index(b"random") + len("randomstore") + 1 + 17 * 3

    def refused(change, match):
        code = bytearray(typed.code)
        change(code)
        with pytest.raises(ValueError, match=match):
            _native.run(Code(bytes(code)), (x,), (x, *scalars))

    def with_byte(place, value):
        return lambda code: code.__setitem__(at + place, value)

    refused(with_byte(1, 1), "instruction 3: random numbers are float32")
    refused(with_byte(3, 0), "instruction 3: its seed and offset must be int64 scalars")
    refused(with_byte(5, 3), "instruction 3: an unknown argument")
    refused(with_byte(2, 17), "too many row reductions")
    full = typed.code.replace(b"\x07\x00\x07\x00", b"\x07\x02\x07\x00")  # the seed's kind
    with pytest.raises(ValueError, match="seed and offset must be int64 scalars"):
        _native.run(Code(full), (x,), (x, *scalars))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_code_is_refused_or_harmless(data):
    source = data.draw(st.sampled_from([noise, dropped, in_rows]))
    code = bytearray(source.for_dtypes((float32, int64, int64)).code)
    for _ in range(data.draw(st.integers(1, 3))):
        code[data.draw(st.integers(0, len(code) - 1))] = data.draw(st.integers(0, 255))
    code = bytes(code[: data.draw(st.integers(len(code) // 2, len(code)))])
    x, y = (Spec(mild(float32, (3, 40)), float32).on(ndl.cpu()) for _ in range(2))
    row, column = (Spec(mild(float32, s), float32).on(ndl.cpu()) for s in ((3, 1), (1, 40)))
    kept = blank((3, 40), bool_).on(ndl.cpu())
    scalars = [w.on(ndl.cpu()) for w in words(2**64 - 1, 2**64 - 1)]
    for outs in ((y,), (y, kept), (y, row, column)):
        with contextlib.suppress(ValueError, TypeError):
            _native.run(Code(code), outs, (x, *scalars))


def test_operands_are_checked():
    typed = noise.for_dtypes((float32, int64, int64))
    x = Spec(mild(float32, (3, 4)), float32).on(ndl.cpu())
    (seed,) = (w.on(ndl.cpu()) for w in words(1))
    wide = Spec(np.zeros((3, 1), np.int64), int64).on(ndl.cpu())
    narrow = Spec(np.zeros((), np.int32), int32).on(ndl.cpu())
    with pytest.raises(ValueError, match="is not that of a scalar value"):
        _native.run(typed, (x,), (x, seed, wide))
    with pytest.raises(TypeError, match="expected dtype int64, got int32"):
        _native.run(typed, (x,), (x, seed, narrow))
