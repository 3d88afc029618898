"""NumPy's keywords do what they do in NumPy: values, shapes, dtypes, gradients, and compiled."""

import numpy as np
import pytest

import needle as ndl
from needle.dtype import dtype_of
from needle.testing import check_grads

from .record import Arguments, Call, OpRecord, Plain, results

F64, F32, INT, BOOL = (dtype_of(d) for d in ("float64", "float32", "int64", "bool"))
NUMBERS, FLOATS, ALL = (F64, F32, INT), (F64, F32), (F64, F32, INT, BOOL)

MASK = np.array([[True, False, True, True], [False] * 4, [True, True, False, True]])
COLUMN = np.array([[True], [False], [True]])


def masked(*axes, **options):
    """A reduction of some elements, with the axes and options that it is tested with."""
    masks = [Call((3, 4), axis=axis, where=MASK, **options) for axis in axes]
    return [*masks, Call((3, 4), where=COLUMN, keepdims=True, **options)]


REDUCED = [Call((3, 4), dtype="float32"), Call((3, 4), axis=(0, 1), dtype="float64")]
SUMS = [
    *REDUCED, *masked(None, 0, 1), *masked(1, initial=2), Call((3, 4), axis=0, initial=3),
    Call((0, 3), axis=0, initial=3), Call((3, 4), axis=1, out=None, where=True),
]  # fmt: skip
EXTREMES = [
    *masked(None, 0, 1, initial=-1), Call((3, 4), axis=0, initial=1), Call((0,), initial=2),
    Call((0, 3), axis=0, initial=-2, keepdims=True), Call((2, 3, 4), axis=(-1, 0), keepdims=True),
]  # fmt: skip
SPREADS = [
    *REDUCED[:1], *masked(None, 0), Call((3, 4), axis=0, ddof=1), Call((3, 4), correction=1),
    Call((3, 4), axis=1, mean=np.array([[0.5], [0.25], [1.0]])), Call((3, 4), where=MASK, ddof=2),
]  # fmt: skip
SCANS = [Call((3, 4), axis=1, dtype="float32"), Call((3, 4), -1, "float64"), Call((2, 3), out=None)]
SORTS = [
    *(Call((3, 4), kind=kind) for kind in ("quicksort", "mergesort", "heapsort", "stable", None)),
    Call((3, 4), axis=0, stable=True), Call((5,), stable=False), Call((3, 4), axis=None),
]  # fmt: skip
WIDE = [Call((3, 4), dtype="float64"), Call((3, 4), out=None, where=True, casting="same_kind"),
        Call((2, 3), order="K", subok=True)]  # fmt: skip
PAIRS = [Call((3, 4), (4,), dtype="float64"), Call((3,), (3,), out=None, where=True, order="K")]
TESTS = [Call((3, 4), dtype="bool"), Call((3,), out=None, where=True, subok=True)]
BOTH = [Call((3, 4), (4,), dtype="bool"), Call((3,), (3,), out=None, order="K")]
JOINED = [Call([(2, 3), (2, 3)], dtype="float64"), Call([(2, 3)], dtype=None, casting="same_kind")]
FAR = np.array([5, -7, 1, 100])

# Every call is made with the same arguments to both, in each of the dtypes.
TABLE = {
    "sum": (SUMS, NUMBERS), "prod": (SUMS, FLOATS), "max": (EXTREMES, NUMBERS),
    "min": (EXTREMES, NUMBERS), "amax": (EXTREMES, NUMBERS), "amin": (EXTREMES, NUMBERS),
    "mean": ([*REDUCED, *masked(None, 0)], NUMBERS), "var": (SPREADS, FLOATS),
    "std": (SPREADS, FLOATS), "any": (masked(None, 0, 1), ALL), "all": (masked(None, 0, 1), ALL),
    "argmax": ([Call((3, 4), axis=-1, keepdims=True, out=None)], ALL),
    "argmin": ([Call((3, 4), axis=0, keepdims=True, out=None)], ALL),
    "median": ([Call((2, 3, 4), axis=(0, 2)), Call((2, 3), axis=(-1,), keepdims=True),
                Call((2, 3, 4), axis=(1, -1), keepdims=True, out=None, overwrite_input=False),
                Call((0, 3), axis=0), Call((3, 0), axis=0), Call((0,))], NUMBERS),
    "cumsum": (SCANS, NUMBERS), "cumprod": (SCANS, NUMBERS),
    "sort": (SORTS, ALL), "argsort": (SORTS[3:-1], FLOATS),
    "round": ([Call((3, 4), 1), Call((3, 4), decimals=2), Call((3, 4), -1), Call((), decimals=3),
               Call((0, 3), decimals=1, out=None)], NUMBERS),
    "clip": ([Call((3, 4), a_min=-0.5, a_max=1.0), Call((3, 4), min=0), Call((3, 4), max=1),
              Call((3, 4), -1, 1, dtype="float64"), Call((3,), 0, None, out=None)], NUMBERS),
    "take": ([Call((3, 4), FAR, mode="wrap"), Call((3, 4), indices=FAR, axis=1, mode="clip"),
              Call((3, 4), [2, -1], mode="raise", out=None), Call((3, 4), -9, 0, mode="wrap"),
              Call((3, 4), FAR.reshape(2, 2), -1, mode="wrap"), Call((3, 4), [], 0, mode="clip"),
              Call((), [0, 0], axis=0), Call((), 3, mode="clip"), Call((0, 3), [], axis=0)], ALL),
    "take_along_axis": ([Call((3, 4), np.array([[1], [0], [3]])), Call((3, 4), FAR[1:3] + 7, None),
                         Call((3, 4), indices=np.array([[2, 0, 1, 1]]), axis=0)], ALL),
    "searchsorted": ([Call(np.array([0.0, 1.0, 1.0, 2.0]), (3,), side="left"),
                      Call(np.array([0.0, 1.0, 1.0, 2.0]), v=np.array([1.0, 5.0]), side="right"),
                      Call(np.array([2.0, 0.0, 1.0]), (2, 2), sorter=np.array([1, 2, 0])),
                      Call(np.array([1.0, 2.0]), ()), Call((0,), (3,))], FLOATS),
    "unique": ([Call(np.array([2.0, 1.0, 2.0, np.nan, np.nan]), return_index=True),
                Call(np.array([2.0, np.nan, np.nan]), equal_nan=False, return_counts=True),
                Call(np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]]), axis=0, return_inverse=True,
                     return_index=True, return_counts=True),
                Call(np.array([[1.0, 1.0], [2.0, 2.0]]), axis=1), Call((3, 0), axis=0),
                Call((), return_inverse=True), Call((2, 0, 3), axis=2, return_inverse=True)],
               FLOATS),
    "trace": ([Call((3, 4), offset=1), Call((2, 3, 4), axis1=1, axis2=-1), Call((2, 3), -1, 0, 1),
               Call((3, 3), dtype="float64", out=None), Call((0, 3))], NUMBERS),
    "diag": ([Call((3,), k=1), Call((3, 4), k=-1), Call((0,)), Call((0, 3))], ALL),
    "tril": ([Call((3, 4), k=1), Call((0, 3))], ALL), "triu": ([Call((3, 4), k=-1)], ALL),
    "roll": ([Call((3, 4), shift=2, axis=1), Call((3, 4), shift=(1, 2), axis=(0, 1)),
              Call((), 1), Call((0, 3), 1, axis=0)], ALL),
    "tile": ([Call((2, 3), reps=(2, 1, 2)), Call((), reps=3), Call((0, 3), reps=2)], ALL),
    "repeat": ([Call((), 2, axis=0), Call((), 3), Call((0, 3), 2, 1), Call((2, 3), [1, 0, 2], 1)],
               ALL),
    "pad": ([Call((3, 4), pad_width=1, constant_values=2), Call((3, 4), ((1, 2), (0, 1)), "edge"),
             Call((3, 4), 2, mode="wrap"), Call((3, 4), 3, mode="symmetric"),
             Call((3, 4), 2, mode="reflect", reflect_type="even"), Call((), 1), Call((0, 3), 1),
             Call((0, 3), ((0, 0), (1, 1)), "edge")], ALL),
    "concatenate": ([*JOINED, Call([(2, 3), (4,), ()], axis=None), Call([(0, 3), (2, 3)])], ALL),
    "concat": (JOINED, ALL), "stack": ([*JOINED, Call([(), ()], -1), Call([(0,), (0,)], 1)], ALL),
    "hstack": ([*JOINED, Call([(), ()])], ALL), "vstack": ([*JOINED, Call([(), ()])], ALL),
    "matmul": ([Call((3, 4), (4, 2), dtype="float64"), Call((0, 4), (4, 2)), Call((3, 0), (0, 2)),
                Call((2, 3, 0), (0,))], NUMBERS),
    "dot": ([Call((3, 4), (4,), out=None), Call((), (3,)), Call((0,), (0,))], NUMBERS),
    "outer": ([Call((3,), (4,), out=None), Call((), (3,)), Call((0,), (3,))], NUMBERS),
    "einsum": ([Call("ij,jk->ik", (3, 4), (4, 2), dtype="float64", optimize=True),
                Call("ij,jk,k->i", (3, 4), (4, 2), (2,), optimize="greedy", out=None),
                Call("ij->j", (0, 3), optimize=False), Call(",i->i", (), (3,))], NUMBERS),
    "meshgrid": ([Call((3,), (2,), indexing="xy", sparse=True), Call((), (3,), indexing="ij"),
                  Call((3,), (0,), indexing="ij", copy=True)], ALL),
    "broadcast_to": ([Call((3, 1), Plain((2, 3, 0)), subok=False), Call((), shape=(2, 3))], ALL),
    "reshape": ([Call((2, 6), Plain((3, 4)), order="C", copy=None), Call((), shape=(1, 1))], ALL),
    "astype": ([Call((3,), "float32", copy=True), Call((0, 3), "int8", copy=False)], ALL),
    "expand_dims": ([Call((), Plain((0, 1))), Call((0,), axis=-1)], ALL),
    "squeeze": ([Call((1, 0, 1)), Call((), axis=0)], ALL),
    "moveaxis": ([Call((2, 0, 3), 0, -1), Call((2, 3, 4), [0, 1], [-1, 0])], ALL),
    "array_split": ([Call((0, 3), 2), Call((3, 0), [1], axis=1)], ALL),
    "bincount": ([Call(np.array([0, 2]), weights=np.array([0.5, 1.0]), minlength=4)], (F64,)),
    "isclose": ([Call((3,), (3,), rtol=0.5, atol=0.0, equal_nan=True), Call((), ())], FLOATS),
    **dict.fromkeys("abs sign square floor ceil".split(), (WIDE, NUMBERS)),
    **dict.fromkeys("exp expm1 sin cos tan tanh sinh cosh atan".split(), (WIDE, FLOATS)),
    **dict.fromkeys("add subtract multiply maximum minimum".split(), (PAIRS, NUMBERS)),
    **dict.fromkeys("divide atan2".split(), (PAIRS, FLOATS)),
    **dict.fromkeys("isnan isinf isfinite logical_not".split(), (TESTS, NUMBERS)),
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), (BOTH, ALL)),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), (BOTH, ALL)),
}  # fmt: skip

CASES = [(name, c, d) for name, (calls, dtypes) in TABLE.items() for c in calls for d in dtypes]
NO_GRADIENT = {"any", "all", "argmax", "argmin", "argsort", "searchsorted", "unique", "isclose",
               "isnan", "isinf", "isfinite", "logical_not", "sign", "floor", "ceil", "round",
               "bincount"}  # fmt: skip
DATA_DEPENDENT = {"unique", "bincount"}


def shown(case):
    name, call, dtype = case
    return f"{name}{call}-{dtype}"


def arguments_of(case):
    name, call, dtype = case
    return Arguments(OpRecord(name, getattr(np, name), ()), call, dtype, seed=1)


@pytest.mark.parametrize("case", CASES, ids=shown)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_keywords_do_what_they_do_in_numpy(case):
    name, _, dtype = case
    args, kwargs = arguments_of(case).tensors()
    found = results(getattr(ndl, name)(*args, **kwargs))
    args, kwargs = arguments_of(case).arrays(dtype.storage)
    expected = getattr(np, name)(*args, **kwargs)
    wanted = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    for ours, theirs in zip(found, map(np.asarray, wanted), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-6, 1e-6)


def inputs_of(case):
    """The function of a case's floating tensors alone, and these."""
    args, kwargs = arguments_of(case).tensors()
    leaves = []

    def place(x):
        if isinstance(x, list):
            return [place(item) for item in x]
        if isinstance(x, ndl.Tensor) and dtype_of(x.dtype).is_floating:
            leaves.append(x)
            return len(leaves) - 1
        return (x,)

    places, named = [place(x) for x in args], {k: place(v) for k, v in kwargs.items()}

    def value(x, tensors):
        if isinstance(x, list):
            return [value(item, tensors) for item in x]
        return tensors[x] if isinstance(x, int) else x[0]

    def function(*tensors):
        options = {k: value(v, tensors) for k, v in named.items()}
        found = getattr(ndl, case[0])(*(value(x, tensors) for x in places), **options)
        return tuple(results(found))

    return function, leaves


def is_smooth(case):
    """Has it a gradient that finite differences in float64 can find?"""
    name, call, dtype = case
    is_narrow = {"float32", "int8"} & {*map(str, call.args), str(call.kwargs.get("dtype"))}
    of_nothing = name == "median" and 0 in call.args[0]
    return dtype is F64 and name not in NO_GRADIENT and not is_narrow and not of_nothing


@pytest.mark.parametrize("case", list(filter(is_smooth, CASES)), ids=shown)
def test_keywords_have_gradients(case):
    function, leaves = inputs_of(case)
    check_grads(function, *leaves)


@pytest.mark.parametrize("case", [c for c in CASES if c[0] not in DATA_DEPENDENT], ids=shown)
def test_compiled_functions_take_keywords(case):
    function, leaves = inputs_of(case)
    for eager, compiled in zip(function(*leaves), ndl.jit(function)(*leaves), strict=True):
        assert compiled.dtype == eager.dtype and compiled.shape == eager.shape
        np.testing.assert_allclose(compiled.numpy(), eager.numpy(), 1e-6, 1e-6)


@pytest.mark.parametrize("name", "sum prod mean var std max min logsumexp".split())
def test_elements_that_do_not_count_have_no_say(name):
    """NaN and infinity behind a mask change neither the result nor the gradients."""
    hidden = np.array([[np.nan, 1.0, 2.0], [3.0, np.inf, 5.0]])
    mask = np.isfinite(hidden)
    options = {"max": {"initial": -9.0}, "min": {"initial": 9.0}}.get(name, {})
    for axis in (None, 0, -1):
        found = []
        for values in (hidden, np.where(mask, hidden, 7.0)):
            x = ndl.tensor(values, requires_grad=True)
            y = getattr(ndl, name)(x, axis=axis, where=mask, **options)
            y.sum().backward()
            found.append((y.numpy(), x.grad.numpy()))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
        assert (found[0][1][~mask] == 0).all()


def test_the_extreme_of_bools_is_a_bool():
    x = np.array([[True, False], [False, False]])
    for name, initial in (("max", 0), ("max", True), ("min", 1)):
        found = getattr(ndl, name)(ndl.tensor(x), axis=0, initial=initial)
        expected = getattr(np, name)(x, axis=0, initial=initial)
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_small_integers_are_positions_in_long_axes(mode):
    x, index = np.arange(300.0), np.array([-1, 100, 127], "int8")
    found = ndl.take(ndl.tensor(x), ndl.tensor(index), mode=mode)
    np.testing.assert_array_equal(found.numpy(), np.take(x, index, mode=mode))
