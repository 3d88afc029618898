"""Results do not depend on the number of threads: equal bits for 1, 2 and 3 of them."""

import numpy as np
import pytest

import needle as ndl
from needle import _native
from needle.backend.protocol import BINARY, REDUCE, UNARY, takes
from needle.dtype import DTYPES, bfloat16, bool_, float16, float32, float64, int8, int32, int64

from .operands import Spec, blank, contiguous, mild, sliced, transposed, whole_memory
from .test_parity import result_dtype

LARGE = (3, 70_001)  # more than two blocks of work, of odd length


@pytest.fixture(autouse=True)
def _restore_threads():
    before = _native.get_num_threads()
    yield
    _native.set_num_threads(before)


def assert_equal_for_all_threads(call, out, *inputs):
    """The same bits in the whole memory of `out`."""
    found = []
    for threads in (1, 2, 3):
        _native.set_num_threads(threads)
        target = out.on(ndl.cpu())
        call(target, *(i.on(ndl.cpu()) for i in inputs))
        found.append(whole_memory(target))
    for other in found[1:]:
        assert found[0].tobytes() == other.tobytes()


@pytest.mark.parametrize("layout", [contiguous, transposed, sliced])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, layout):
    dtype = float32 if takes(name, float32) else int32
    spec = Spec(mild(dtype, LARGE), dtype, layout)
    assert_equal_for_all_threads(
        lambda out, a: _native.unary(name, out, a), blank(LARGE, result_dtype(name, dtype)), spec
    )


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    dtype = float32 if takes(name, float32) else int32
    inputs = (Spec(mild(dtype, LARGE, s), dtype) for s in (1, 2))
    assert_equal_for_all_threads(
        lambda out, a, b: _native.binary(name, out, a, b),
        blank(LARGE, result_dtype(name, dtype), transposed),
        *inputs,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_and_where(dtype):
    a, b = (Spec(mild(dtype, LARGE, s), dtype, transposed) for s in (1, 2))
    cond = Spec(mild(bool_, LARGE), bool_)
    out = blank(LARGE, dtype)
    assert_equal_for_all_threads(lambda o, x: _native.copy(o, x), out, a)
    assert_equal_for_all_threads(lambda o, c, x, y: _native.where(o, c, x, y), out, cond, a, b)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("layout", [contiguous, transposed, sliced])
@pytest.mark.parametrize("name", REDUCE)
def test_reduce(name, layout, axes):
    for dtype in (float32, float64, bfloat16):
        for shape in (LARGE, LARGE[::-1]):
            spec = Spec(mild(dtype, shape), dtype, layout)
            kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
            out = blank(kept, bool_ if name in ("any", "all") else dtype)
            assert_equal_for_all_threads(lambda o, a: _native.reduce(name, o, a), out, spec)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cumprod"])
def test_along_an_axis(name, axis):
    for shape in (LARGE, LARGE[::-1]):
        spec = Spec(mild(float32, shape), float32)
        kept = tuple(1 if i == axis else n for i, n in enumerate(shape))
        if name.startswith("arg"):
            assert_equal_for_all_threads(
                lambda o, a: _native.arg_reduce(name, o, a, axis), blank(kept, int64), spec
            )
        else:
            assert_equal_for_all_threads(
                lambda o, a: _native.scan(name, o, a, axis), blank(shape, float32), spec
            )


@pytest.mark.parametrize("axis", [0, 1])
def test_mix(axis):
    for shape in (LARGE, LARGE[::-1]):
        n = shape[axis]
        rng = np.random.default_rng(0)
        starts = Spec(np.arange(2 * n + 1) * 2, int64)
        places = Spec(rng.integers(0, n, 4 * n), int64)
        weights, spec = Spec(mild(float32, (4 * n,)), float32), Spec(mild(float32, shape), float32)
        out = blank((*shape[:axis], 2 * n, *shape[axis + 1 :]), float32)
        assert_equal_for_all_threads(
            lambda o, a, *m: _native.mix(o, a, *m, axis), out, spec, starts, places, weights
        )


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16, int32])
@pytest.mark.parametrize(
    "sizes",
    [(257, 300, 129), (520, 300, 260), (3, 3000, 5), (700, 2, 700), (90, 2100, 530), (99, 783, 97)],
)
def test_matmul(sizes, dtype):
    m, k, n = sizes
    for layout in (contiguous, transposed):
        a, b = Spec(mild(dtype, (m, k)), dtype, layout), Spec(mild(dtype, (k, n)), dtype)
        assert_equal_for_all_threads(
            lambda o, x, y: _native.matmul(o, x, y), blank((m, n), dtype), a, b
        )


@pytest.mark.parametrize("stored", [float32, bfloat16, int8])
@pytest.mark.parametrize("layout", [contiguous, transposed])
def test_few_rows(stored, layout):
    """Weights in runs of k and tiles of columns."""
    for rows, k, n in ((1, 1001, 777), (3, 500, 5003), (8, 1203, 600)):
        a, b = Spec(mild(float32, (rows, k)), float32), Spec(mild(stored, (k, n)), stored, layout)
        assert_equal_for_all_threads(
            lambda o, x, y: _native.matmul(o, x, y), blank((rows, n), float32), a, b
        )


def test_batched_matmul():
    a, b = Spec(mild(float32, (40, 33, 17)), float32), Spec(mild(float32, (40, 17, 31)), float32)
    assert_equal_for_all_threads(
        lambda o, x, y: _native.matmul(o, x, y), blank((40, 33, 31), float32), a, b
    )


def test_indexing():
    rows = np.random.default_rng(0).integers(0, 500, 5000)
    index = Spec(rows, int64)
    table, values = (
        Spec(mild(float32, (500, 70)), float32),
        Spec(mild(float32, (5000, 70)), float32),
    )
    assert_equal_for_all_threads(
        lambda o, a, i: _native.gather(o, a, (i,)), blank((5000, 70), float32), table, index
    )
    for name in ("set", "add"):
        assert_equal_for_all_threads(
            lambda o, a, i, n=name: _native.scatter(n, o, (i,), a),
            blank((500, 70), float32), values, index,
        )  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
def test_order(axis):
    spec = Spec(np.round(mild(float32, (300, 401)), 1), float32)
    for descending in (False, True):
        assert_equal_for_all_threads(
            lambda o, a, d=descending: _native.argsort(o, a, axis, d),
            blank((300, 401), int64),
            spec,
        )


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_random(name):
    for dtype in (float32, float64, bfloat16):
        assert_equal_for_all_threads(
            lambda o: _native.random(name, o, 5, 7), blank((200_003,), dtype)
        )
