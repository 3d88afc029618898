"""Programs rendered to C: every function on every type, every layout, against the interpreter."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import _native
from needle.backend import c_build
from needle.backend.c_elements import elements_of
from needle.backend.protocol import BINARY, UNARY
from needle.backend.render import c11, space as c_space
from needle.compiler.c import tiers
from needle.compiler.fusion.fusible import writes_at_the_end
from needle.dtype import DTYPES, bool_, float32, float64, int32, int64
from needle.ndarray.array import empty, from_numpy
from needle.tile import program as p
from needle.tile.ir import ProgramError

from ..native.helpers import instruction_set

pytestmark = pytest.mark.skipif(c_build.compiler() is None, reason="needs a C compiler")
CPU = ndl.cpu()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(c_build.config, "CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def built(source):
    return c_build.library(elements_of(source) + source)


class Both:
    """Programs to run twice: by the interpreter, and all built as one library."""

    def __init__(self):
        self.calls = []

    def add(self, typed, outs, ins, inner, note):
        space = c_space.space_of(typed, outs, ins, inner)
        rendered = c11.render(f"k{len(self.calls)}", typed, space)
        self.calls.append((typed, rendered, outs, ins, inner, note))

    def run(self):
        """(note, interpreted outputs, built outputs) of every call."""
        sources = [rendered.source for _, rendered, *_ in self.calls]
        library = built("\n".join(sources))
        for typed, rendered, outs, ins, inner, note in self.calls:
            CPU.mod.run(typed, outs, ins, inner)
            interpreted = [out.numpy() for out in outs]
            for out in outs:
                CPU.mod.fill(out, 0)
            call = tiers.RenderedCall(rendered, outs, ins, rendered.grain)
            addresses = tiers._addresses(library, rendered)
            tiers.Built([call], [addresses]).launch(CPU.mod, lambda x: x)
            yield note, interpreted, [out.numpy() for out in outs]


def assert_same_bits(interpreted, built, note=""):
    """Also in the sign of zero; NaNs are all the same."""
    for a, b in zip(interpreted, built, strict=True):
        np.testing.assert_array_equal(a, b, str(note))
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]), str(note))


def numbers(dtype, rng, n=3000):
    """Ordinary numbers and the edges of a dtype."""
    if dtype == "bool":
        return rng.random(n) > 0.5
    if dtype.is_integer:
        info = np.iinfo(dtype.storage)
        near = rng.integers(max(info.min, -9), 10, n)
        return np.where(rng.random(n) < 0.9, near, info.max).astype(dtype.storage)
    usual = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-40, 88.0, -104.0, 3e6]
    usual[: len(edges)] = edges
    any_bits = rng.integers(0, 1 << 8 * dtype.itemsize, n, f"u{dtype.itemsize}")
    any_bits = any_bits.view(dtype.storage) if dtype.itemsize > 2 else usual[::-1]
    return np.where(rng.random(n) < 0.7, usual, any_bits)


def array(values, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        return from_numpy(np.ascontiguousarray(values), dtype, CPU)


# Those that C is built for in different ways.
SETS = {c_build.MACHINE.get(isa): isa for isa in _native.instruction_sets()}.values()


@pytest.mark.parametrize("isa", SETS)
def test_every_function_gives_the_same_bits(isa):
    """The native kernels and generated C are made of the same headers, read in two ways."""
    with instruction_set(isa):
        check_every_function(np.random.default_rng(0))


def check_every_function(rng):
    both = Both()
    for name, count in [*((n, 1) for n in UNARY), *((n, 2) for n in BINARY)]:
        for dtype in (float32, float64, int32, int64, bool_):
            arguments = ["x", "y"][:count]
            function = p.trace(lambda *x, name=name: p.apply(name, *x), name, arguments)
            try:
                typed = function.for_dtypes((dtype,) * count)
                ins = [array(numbers(dtype, rng, 20_000), dtype) for _ in range(count)]
                outs = [empty(ins[0].shape, typed.outputs[0], CPU)]
                CPU.mod.run(typed, outs, ins, 1)
            except (ProgramError, ValueError):
                continue  # it has no meaning for this type
            both.add(typed, outs, ins, 1, (name, str(dtype)))
    assert len(both.calls) > 150
    for note, interpreted, built in both.run():
        assert_same_bits(interpreted, built, note)


def test_casts_give_the_same_bits():
    rng = np.random.default_rng(1)
    both = Both()
    for source in DTYPES:
        for target in DTYPES:
            typed = p.trace(lambda x, t=target: p.cast(x, t), "cast", ["x"]).for_dtypes((source,))
            x = array(numbers(source, rng), source)
            both.add(typed, [empty(x.shape, target, CPU)], [x], 1, (str(source), str(target)))
    for note, interpreted, built in both.run():
        assert_same_bits(interpreted, built, note)


@p.program
def rows(x: p.Symbol, w: p.Symbol, index: p.Row, scale: p.Scalar):
    total = p.row_sum(x)
    centred = x - total / 7
    e = p.exp(centred - p.row_max(centred))
    y = e / p.row_sum(e) * w * scale
    at = p.gather(y, index)
    return p.add_at(y, index, at), total, p.row_min(y) + at, p.column_sum(y)


layouts = st.sampled_from(["plain", "transposed", "flipped", "spread"])


def laid_out(values, layout):
    """The same elements in another layout."""
    made = array(values, float32)
    if layout == "transposed":
        return array(values.swapaxes(-1, -2), float32).permute(
            (*range(values.ndim - 2), values.ndim - 1, values.ndim - 2)
        )
    if layout == "flipped":
        return array(values[..., ::-1], float32).flip((values.ndim - 1,))
    if layout == "spread":
        wide = array(np.repeat(values, 2, -1), float32)
        return wide[tuple([slice(None)] * (values.ndim - 1) + [slice(None, None, 2)])]
    return made


@settings(max_examples=8, deadline=None)
@given(
    st.tuples(*(st.sampled_from(sizes) for sizes in ([1, 3], [1, 7], [1, 5, 64, 1300]))),
    layouts, layouts, st.integers(1, 2),
)  # fmt: skip
def test_rows_of_any_layout(shape, of_input, of_output, inner):
    rng = np.random.default_rng(0)
    cut = 3 - inner
    row, column = (*shape[:cut], *[1] * inner), (*[1] * cut, *shape[cut:])
    length = int(np.prod(shape[cut:]))
    ins = [
        laid_out(rng.standard_normal(shape).astype("f4"), of_input),
        laid_out(rng.standard_normal(column).astype("f4"), "plain"),
        array(rng.integers(-1, length + 1, row), int64),
        array(np.array(0.5, "f4"), float32),
    ]
    typed = rows.for_dtypes((float32, float32, int64, float32))
    zeros = np.zeros(shape, "f4")
    outs = [laid_out(zeros, of_output), empty(row, float32, CPU), empty(row, float32, CPU),
            empty(column, float32, CPU)]  # fmt: skip
    both = Both()
    both.add(typed, outs, ins, inner, None)
    for _, interpreted, built in both.run():
        for a, b in zip(interpreted, built, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def test_row_sums_have_the_same_bits():
    rng = np.random.default_rng(0)
    both = Both()
    for length in (1, 5, 63, 64, 65, 1000, 1024, 1025, 5000):
        x = array(rng.standard_normal((4, length)).astype("f4"), float32)
        typed = p.trace(p.row_sum, "sum", ["x"]).for_dtypes((float32,))
        both.add(typed, [empty((4, 1), float32, CPU)], [x], 1, length)
    for note, interpreted, built in both.run():
        assert_same_bits(interpreted, built, note)


@p.program
def columns(x: p.Symbol, w: p.Symbol, row: p.Row):
    y = x * w + row
    return y, p.column_sum(y), p.column_sum(p.exp(x) * y)


@settings(max_examples=3, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 700), st.integers(1, 1100)), min_size=8, max_size=8))
def test_column_sums_have_the_same_bits(shapes):
    rng = np.random.default_rng(0)
    both = Both()
    for m, n in [*shapes, (100, 50), (128, 10), (1000, 3), (9, 2500), (2048, 64)]:
        ins = [
            array(rng.standard_normal(s).astype("f4"), float32) for s in ((m, n), (1, n), (m, 1))
        ]
        outs = [empty(s, float32, CPU) for s in ((m, n), (1, n), (1, n))]
        both.add(columns.for_dtypes((float32,) * 3), outs, ins, 1, (m, n))
    for note, interpreted, built in both.run():
        assert_same_bits(interpreted, built, note)


def test_elements_are_read_before_they_are_overwritten():
    typed = p.trace(lambda a, b: (b, a), "swap", ["a", "b"]).for_dtypes((float32, float32))
    a, b = (array(np.full(100, v, "f4"), float32) for v in (1.0, 2.0))
    rendered = c11.render("swap", typed, c_space.space_of(typed, [a, b], [a, b], 1))
    library = built(rendered.source)
    call = tiers.RenderedCall(rendered, (a, b), (a, b), 100)
    tiers.Built([call], [tiers._addresses(library, rendered)]).launch(CPU.mod, lambda x: x)
    assert set(a.numpy()) == {2.0} and set(b.numpy()) == {1.0}


@p.program
def softmax_and_mean(x: p.Symbol):
    e = p.exp(x - p.row_max(x))
    return e / p.row_sum(e), p.row_mean(x)


def test_rows_may_be_written_over_an_input_in_the_last_pass():
    values = np.random.default_rng(0).standard_normal((9, 70)).astype("f4")
    typed = softmax_and_mean.for_dtypes((float32,))
    x, y, means = array(values, float32), empty((9, 70), float32, CPU), empty((9, 1), float32, CPU)
    assert writes_at_the_end(typed, 0)
    CPU.mod.run(typed, [y, means], [x], 1)
    rendered = c11.render("over", typed, c_space.space_of(typed, [x, means], [x], 1))
    library = built(rendered.source)
    expected = means.numpy()
    call = tiers.RenderedCall(rendered, (x, means), (x,), 4)
    tiers.Built([call], [tiers._addresses(library, rendered)]).launch(CPU.mod, lambda a: a)
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    np.testing.assert_array_equal(means.numpy(), expected)


def test_hostile_calls_are_refused():
    good = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    with pytest.raises(ValueError, match="expected a function"):
        CPU.mod.run_compiled(((0, 0, (), (), 1, 1, 0),))
    with pytest.raises(ValueError, match="expected a function"):
        CPU.mod.run_compiled(((good, 0, (), (), 1, 1, 5),))
    with pytest.raises(ValueError, match="7 fields"):
        CPU.mod.run_compiled(((good,),))
