"""Built-in programs: the lists are those of the definitions, and results those of the interpreter.

Operands whose elements are not side by side are left to the interpreter, so one program on the same
numbers in both layouts shows whether the bits are equal.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import needle as ndl
from needle import _native
from needle.ndarray import functions as F
from needle.tile.program import Program

from .helpers import Array

TOOL = Path(__file__).parents[2] / "tools" / "builtin_programs.py"
spec = importlib.util.spec_from_file_location("builtin_programs", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

PROGRAMS = dict(tool.all_programs())


def test_the_header_has_the_programs_of_the_definitions():
    assert tool.TARGET.read_text() == tool.header(), "run: python tools/builtin_programs.py"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_found(name):
    assert _native.is_builtin(PROGRAMS[name])


def test_a_program_is_found_with_other_constants_and_not_with_other_dtypes():
    norm = importlib.import_module("needle.ops.normalization.layer_norm").affine_norm_program
    source = norm(0.125, True, ndl.float32, True, True)
    assert _native.is_builtin(source.for_dtypes((ndl.float32,) * 3))
    assert not _native.is_builtin(source.for_dtypes((ndl.float64,) * 3))


def operands(program: Program, dtypes, rows: int, length: int, seed: int):
    """Numbers for the inputs: weights are as long as a row, second moments are positive."""
    rng = np.random.default_rng(seed)
    shapes = {"full": (rows, length), "row": (rows, 1), "scalar": ()}
    for name, kind, dtype in zip(program.arguments, program.inputs, dtypes, strict=True):
        shape = (length,) if name in ("weight", "bias") else shapes[kind]
        if dtype == "int64":
            yield rng.integers(-1, length + 1, shape)
            continue
        numbers = np.asarray(3 * rng.standard_normal(shape), dtype)
        if kind == "full" and name in ("x", "x0") and rng.random() < 0.3:
            numbers[rng.random(shape) < 0.02] *= 100  # exp takes its other formula
        yield abs(numbers) if name == "exp_avg_sq" or name.startswith("rate") else numbers


def spread(array: np.ndarray) -> ndl.Tensor:
    """The same numbers, every other one in memory."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return ndl.tensor(wide)[..., ::2]


def run(program: Program, arrays):
    has_rows = any(i.kind in ("row", "column") for i in program.instructions)
    found = F.run(program, *(a.cached_data for a in arrays), axes=(1,) if has_rows else ())
    return [out.numpy() for out in (found if isinstance(found, tuple) else (found,))]


def check_bits(name: str, rows: int, length: int, seed: int = 0):
    typed = PROGRAMS[name]
    program = typed.program
    arrays = list(operands(program, typed.inputs, rows, length, seed))
    built_in = run(program, [ndl.tensor(a) for a in arrays])
    is_full = [kind == "full" for kind in program.inputs]
    interpreted = run(
        program,
        [spread(a) if full else ndl.tensor(a) for a, full in zip(arrays, is_full, strict=True)],
    )
    for mine, other in zip(built_in, interpreted, strict=True):
        np.testing.assert_array_equal(mine.view(np.int32), other.view(np.int32))


@pytest.mark.parametrize("name", PROGRAMS)
@given(st.integers(1, 300), st.integers(1, 2100), st.integers(0, 1000))
def test_results_have_the_bits_of_the_interpreter(name, rows, length, seed):
    check_bits(name, min(rows, 1 + 40_000 // length), length, seed)


@pytest.mark.parametrize("name", PROGRAMS)
@given(st.integers(1, 600), st.integers(1, 130), st.integers(0, 1000))
def test_short_rows_have_the_bits_of_the_interpreter(name, rows, length, seed):
    """Tiles of several rows: their columns are added four at a time."""
    check_bits(name, rows, length, seed)


@pytest.mark.parametrize("name", ["group_statistics", "place_sums", "lines", "softmax"])
def test_long_rows_have_the_bits_of_the_interpreter(name):
    check_bits(name, 2, 100_353)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_the_number_of_threads(name):
    typed = PROGRAMS[name]
    arrays = [ndl.tensor(a) for a in operands(typed.program, typed.inputs, 500, 300, 0)]
    before = ndl.get_num_threads()
    found = []
    for count in (1, 2, 3):
        ndl.set_num_threads(count)
        found.append([out.tobytes() for out in run(typed.program, arrays)])
    ndl.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_an_output_may_be_an_input():
    x = np.random.default_rng(0).standard_normal((6, 70)).astype(np.float32)
    array = ndl.tensor(x).cached_data
    typed = PROGRAMS["softmax"]
    array.device.mod.run(typed, (array,), (array,), 1)
    expected = run(typed.program, [ndl.tensor(x)])[0]
    np.testing.assert_array_equal(array.numpy(), expected)


def test_nan_and_infinities_of_a_row_stay_there():
    x = np.zeros((3, 20), np.float32)
    x[0, 3], x[1, 4] = np.nan, -np.inf
    y = run(PROGRAMS["softmax"].program, [ndl.tensor(x)])[0]
    assert np.isnan(y[0]).all()
    assert y[1, 4] == 0
    np.testing.assert_allclose(y[1:].sum(1), 1, rtol=1e-6)


def test_both_zeros_of_a_row_have_the_bits_of_the_interpreter():
    rng = np.random.default_rng(0)
    typed = PROGRAMS["cross_entropy"]  # one of its outputs is the row's largest element
    for length in (1, 7, 64, 100, 129, 1100):
        x = rng.choice([0.0, -0.0], (9, length)).astype(np.float32)
        others = [ndl.tensor(np.zeros((9, 1), dtype)) for dtype in ("int64", "float32")]
        built_in = run(typed.program, [ndl.tensor(x), *others])
        interpreted = run(typed.program, [spread(x), *others])
        for mine, other in zip(built_in, interpreted, strict=True):
            np.testing.assert_array_equal(mine.view(np.int32), other.view(np.int32))


def test_large_rows_may_begin_anywhere():
    rows, length = 4096, 1024  # beyond the caches
    x = np.random.default_rng(0).standard_normal((rows, length), np.float32)
    for gap in (0, 1, 4):
        handle = _native.empty(rows * (length + gap), "float32")
        out = Array(handle, (rows, length), (length + gap, 1))
        _native.run(PROGRAMS["softmax"], (out,), (ndl.tensor(x).cached_data,), 1)
        np.testing.assert_array_equal(out.numpy(), run(PROGRAMS["softmax"].program, [spread(x)])[0])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rows, length", [(0, 500), (3, 0), (0, 0)])
def test_without_elements(name, rows, length):
    typed = PROGRAMS[name]
    arrays = []
    for kind, dtype in zip(typed.program.inputs, typed.inputs, strict=True):
        shape = {"full": (rows, length), "row": (rows, 1), "scalar": ()}[kind]
        array = np.zeros(shape, str(dtype))
        arrays.append(spread(array) if kind == "full" else ndl.tensor(array))
    for out in run(typed.program, arrays):
        assert out.shape in ((rows, length), (rows, 1), (1, length))
