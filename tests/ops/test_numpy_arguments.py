"""Every operator that NumPy has, too: 0-d and empty tensors, all of NumPy's parameters, and what is
refused, by its text."""

import inspect
import re

import numpy as np
import pytest

import needle as ndl
from needle.ops.common import REFUSED

from .record import results

# Functions of NumPy's names that mean something else here (the course's split and transpose,
# PyTorch's select and nonzero), or are no operators.
OTHERS = {"load", "save", "finfo", "iinfo", "split", "transpose", "select", "nonzero"}
CREATION = {"arange", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"}


def namesakes():
    """The public functions that NumPy has, too, without those above."""
    for name in dir(ndl):
        ours, theirs = getattr(ndl, name), getattr(np, name, None)
        if name[0] != "_" and inspect.isfunction(ours) and callable(theirs) and name not in OTHERS:
            yield name


NAMES = sorted(namesakes())
AXES = [{}, *({"axis": axis} for axis in (None, 0, -1, 1))]
KEPT = [*AXES, *({"axis": axis, "keepdims": True} for axis in (None, 0, -1))]
TUPLES = [*KEPT, {"axis": (0, 1)}, {"axis": ()}, {"axis": (0,), "keepdims": True}]
REDUCTIONS = {
    **dict.fromkeys("sum prod max min amax amin mean var std any all median".split(), TUPLES),
    **dict.fromkeys("argmax argmin".split(), KEPT),
    **dict.fromkeys("cumsum cumprod sort argsort".split(), AXES),
}
PAIRS = ("allclose", "isclose", "dot", "outer", "searchsorted")
LISTS = ("concat", "concatenate", "stack", "hstack", "vstack")

# The other arguments of functions of one tensor x; `X` stands for x once more.
X = object()
ARGUMENTS = {
    "array_split": [(2,), (2, -1), ([1],)], "asarray": [()], "astype": [("int32",)],
    "broadcast_to": [((2, 1, 0, 3),), ((2, 3, 0),)], "clip": [(0, 1)], "diag": [()],
    "diagonal": [()], "expand_dims": [(0,), (-1,), ((0, 1),)], "flip": [(), (0,)],
    "full_like": [(3,)], "ones_like": [()], "zeros_like": [()], "empty_like": [],
    "moveaxis": [(0, -1)], "swapaxes": [(0, -1)], "round": [(), (2,)], "trace": [()],
    "pad": [(1,), (1, "edge"), (0, "reflect"), (1, "wrap"), (1, "symmetric")],
    "repeat": [(2,), (2, 0), (0,)], "reshape": [((-1,),), ((0, 7),)], "roll": [(1,), (1, 0)],
    "squeeze": [(), (0,)], "take": [([],), ([0],), ([], 0), (0, -1), (np.zeros((0, 2), int), 0)],
    "take_along_axis": [(np.zeros((3, 0), int), -1), (np.zeros((), int), 0)],
    "tile": [(2,), ((2, 0),)], "tril": [()], "triu": [(1,)], "bincount": [()],
    "unique": [()], "where": [(X, X), (X, 0)],
}  # fmt: skip


def calls(name, x):
    """Calls of a function with an array x: positional arguments and keywords."""
    function = getattr(np, name)
    if name in REDUCTIONS:
        return [((x,), options) for options in REDUCTIONS[name]]
    if isinstance(function, np.ufunc):
        return [((x,) * function.nin, {}), ((x, 2)[: function.nin], {})]
    if name in PAIRS:
        return [((x, x), {})]
    if name in LISTS:
        return [(([x, x],), {}), (([x],), {"axis": -1} if "stack" not in name else {})]
    if name == "einsum":
        return [(("...->...", x), {}), (("...,...->...", x, x), {})]
    if name == "meshgrid":
        return [((x, x), {"indexing": kind}) for kind in ("ij", "xy")]
    more = [tuple(x if a is X else a for a in given) for given in ARGUMENTS[name]]
    return [((x, *given), {}) for given in more]


def as_tensors(x):
    if isinstance(x, list):
        return [as_tensors(item) for item in x]
    return ndl.tensor(x) if isinstance(x, np.ndarray) else x


# NumPy's answers to 0-d arrays that are one element of a vector: here they are 0-d, as in PyTorch.
ZERO_D = {"argsort", "cumsum", "cumprod"}
# What is refused where NumPy gives something: a matrix from a vector, and grids of matrices.
REFUSES = {"tril", "triu", "meshgrid"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if n not in CREATION])
def test_operators_take_0d_and_empty_tensors(name, shape):
    for dtype in ("float64", "int64"):
        for args, options in calls(name, np.ones(shape, dtype)):
            about = f"{name}{args}{options}"
            try:
                expected = getattr(np, name)(*args, **options)
            except (ValueError, TypeError, IndexError):
                expected = None
            try:
                found = getattr(ndl, name)(*map(as_tensors, args), **options)
            except (ValueError, TypeError, IndexError) as error:
                assert str(error).startswith("["), f"{about}: {error}"
                assert expected is None or name in REFUSES, f"{about}: {error}"
                continue
            if expected is None or isinstance(found, bool):
                assert expected is None or found == expected, about
                continue
            wanted = expected if isinstance(expected, (tuple, list)) else [expected]
            for ours, theirs in zip(results(found), map(np.asarray, wanted), strict=True):
                if not (shape == () and name in ZERO_D):
                    assert ours.shape == theirs.shape, about
                assert ours.dtype == theirs.dtype or name == "reciprocal", about
                np.testing.assert_allclose(ours.numpy().ravel(), theirs.ravel(), 1e-15, 0)


# 0 and -1 as axes of 0-d tensors, where PyTorch has them -----------------------------------------

ALONG = {
    "sum": (), "prod": (), "mean": (), "amax": (), "amin": (), "all": (), "any": (), "argmax": (),
    "argmin": (), "logsumexp": (), "cumsum": (), "cumprod": (), "softmax": (), "log_softmax": (),
    "squeeze": (), "unsqueeze": (), "argsort": (), "sort": (), "max": (), "min": (), "median": (),
}  # fmt: skip
ZERO = np.array(0)


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ALONG)
def test_dim_of_a_0d_tensor(name, dim):
    torch = pytest.importorskip("torch")
    expected = getattr(torch, name)(torch.tensor(2.5), dim=dim)
    expected = expected if isinstance(expected, torch.Tensor) else expected.values
    for given in ({"dim": dim}, {"axis": dim}):
        x = ndl.tensor(2.5, requires_grad=True)
        found = getattr(ndl, name)(x, **given)
        assert found.shape == tuple(expected.shape)
        np.testing.assert_allclose(found.numpy(), expected.numpy())
        if found.requires_grad:
            found.sum().backward()
            assert x.grad.shape == ()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("index_select", (0, np.array([0]))), ("gather", (0, ZERO)), ("gather", (-1, ZERO[None])),
        ("scatter", (0, ZERO, np.array(5.0))), ("scatter", (-1, ZERO[None], np.array([5.0]))),
        ("scatter_add", (0, ZERO, np.array(5.0))), ("index_add", (0, np.array([0]), np.array(5.0))),
        ("topk", (1, -1)), ("norm", (2, 0)), ("norm", (3, -1)), ("transpose", (0, -1)),
        ("swapaxes", (-1, 0)), ("movedim", (0, -1)), ("flatten", (0, -1)), ("std", (0, False)),
        ("var", (-1, False)), ("unsqueeze", (-1,)), ("flip", ((0,),)), ("logsumexp", ((-1,), True)),
    ],
)  # fmt: skip
def test_axes_of_a_0d_tensor_among_other_arguments(name, args):
    torch = pytest.importorskip("torch")
    given = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    expected = getattr(torch, name)(torch.tensor(2.5, dtype=torch.float64), *given)
    found = getattr(ndl, name)(ndl.tensor(2.5, dtype="float64"), *map(as_tensors, args))
    wanted = expected if isinstance(expected, tuple) else [expected]
    for ours, theirs in zip(results(found), wanted, strict=True):
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("name", ["sum", "argmax", "cumsum", "sort", "softmax", "norm", "median"])
def test_other_axes_of_a_0d_tensor_are_refused(name):
    with pytest.raises(ValueError, match=r"axis 1 is out of range for an array with 0 axes"):
        getattr(ndl, name)(ndl.tensor(2.5), axis=1)


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_numpy_is_known(name):
    """By its name, or in the table of refused ones; only the arrays themselves have other names."""
    ours = inspect.signature(getattr(ndl, name)).parameters
    first, *theirs = inspect.signature(getattr(np, name)).parameters.values()
    collects = any(p.kind is p.VAR_KEYWORD for p in ours.values())
    named = (first.POSITIONAL_OR_KEYWORD, first.KEYWORD_ONLY)
    missing = {p.name for p in theirs if p.kind in named} - set(ours)
    assert not missing or collects, missing
    if name not in CREATION:
        x = np.ones((2, 2), "int64")
        args, options = next(iter(calls(name, x)), ((x,), {}))
        for keyword in missing & set(REFUSED):
            with pytest.raises(TypeError, match=rf"^\[\w+\] {keyword}(=.*object.*| must be)"):
                getattr(ndl, name)(*map(as_tensors, args), **options, **{keyword: object()})
        if collects:
            with pytest.raises(
                TypeError, match=r"^\[\w+\] got an unexpected keyword argument 'no'"
            ):
                getattr(ndl, name)(*map(as_tensors, args), **options, no=1)


T, V = ndl.tensor([[1.5, 2.0], [3.0, 4.0]]), ndl.tensor([1, 2, 3])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.sum(out=T), TypeError, "[sum] out=Tensor is not supported; a result is a new"),
        (lambda: T.sum(0, "float64"), TypeError, "[sum] keepdims must be True or False, got 'flo"),
        (lambda: T.sum(keepdims=True, keepdim=False), TypeError, "[sum] give one of keepdims and"),
        (lambda: T.sum(True), TypeError, "[sum] axis must be an integer, got True"),
        (lambda: T.std(False), TypeError, "[std] axis must be an integer, got False"),
        (lambda: T.sum(where=[1, 0]), TypeError, "[sum] where must be a mask of bools, got int64"),
        (lambda: T.sum(where=np.ones((3, 2, 2), bool)), ValueError, "[sum] where must broadcast t"),
        (lambda: T.max(where=T > 2), ValueError, "[max] expected initial beside where"),
        (lambda: V.max(initial=0.5), TypeError, "[max] expected a whole number as initial for in"),
        (lambda: V.astype("int8").max(initial=300), ValueError, "[max] 300 does not fit into int8"),
        (lambda: T.sum(initial="a"), TypeError, "[sum] expected an array or a number, got str"),
        (lambda: T.any(dtype="int8"), TypeError, "[any] got an unexpected keyword argument 'dtype"),
        (lambda: T.mean(initial=1), TypeError, "[mean] got an unexpected keyword argument 'initi"),
        (lambda: V.mean(dtype="int64"), TypeError, "[mean] dtype must be a floating one, got int6"),
        (lambda: T.var(mean=ndl.ones(3, 1, 1)), ValueError, "[var] mean must broadcast to (2, 2)"),
        (lambda: T.max(T, keepdims=True), TypeError, "[max] expected two tensors alone, got axes"),
        (lambda: T.max(T, where=T > 1), TypeError, "[maximum] where=Tensor is not supported; cho"),
        (lambda: T.argmax(out=T), TypeError, "[argmax] out=Tensor is not supported"),
        (lambda: T.cumsum(0, None, T), TypeError, "[cumsum] out=Tensor is not supported"),
        (lambda: T.exp(dtype="int64"), TypeError, "[exp] float32 does not go into int64; cast it"),
        (lambda: V.exp(dtype="int64"), TypeError, "[exp] cannot be computed in int64: the result"),
        (lambda: ndl.add(V, 0.5, dtype="int64"), TypeError, "[add] float does not go into int64"),
        (lambda: ndl.equal(V, V, dtype="int64"), TypeError, "[equal] cannot be computed in int64"),
        (lambda: ndl.exp(T, order="F"), TypeError, "[exp] order='F' is not supported; permute"),
        (lambda: ndl.add(T, T, casting="no"), TypeError, "[add] casting='no' is not supported"),
        (lambda: T.clip(0, a_min=1), TypeError, "[clip] expected one of min and a_min, got min an"),
        (lambda: T.round(1.5), TypeError, "[round] decimals must be a whole number, got 1.5"),
        (lambda: (T > 2).round(1), TypeError, "[round] expected numbers to round to decimals, got"),
        (lambda: T.sort(kind="bogo"), ValueError, "[sort] kind must be quicksort, mergesort, heap"),
        (lambda: T.sort(-1, "stable"), TypeError, "[sort] descending must be True or False, got '"),
        (lambda: T.argsort(order="x"), TypeError, "[argsort] order='x' is not supported; tensors"),
        (lambda: T.sort(stable="yes"), TypeError, "[sort] stable must be True or False, got 'yes'"),
        (lambda: T.median(overwrite_input=True), TypeError, "[median] overwrite_input=True is not"),
        (lambda: T.take([9], mode="near"), ValueError, "[take] mode must be 'raise', 'wrap' or 'c"),
        (lambda: T.take([9], out=T), TypeError, "[take] out=Tensor is not supported"),
        (lambda: T.take([1], indices=[1]), TypeError, "[take] expected one of index and indices, "),
        (lambda: T.take(), TypeError, "[take] expected one of index and indices, got none"),
        (lambda: T[:0].take([1], 0, mode="wrap"), IndexError, "[take] index 1 is out of bounds"),
        (lambda: T.tril(1, diagonal=2), TypeError, "[tril] expected one of k and diagonal, got k "),
        (lambda: T.diag(1, k=1), TypeError, "[diag] expected one of diagonal and k, got diagonal"),
        (lambda: T.norm(1, p=2), TypeError, "[norm] expected one of ord and p, got ord and p"),
        (lambda: T.norm(np.nan), ValueError, "[norm] ord must be a number, inf, -inf or 'fro', g"),
        (lambda: T.trace(out=T), TypeError, "[trace] out=Tensor is not supported"),
        (lambda: T.reshape(4, order="F"), TypeError, "[reshape] order='F' is not supported; permu"),
        (lambda: T.reshape(4, copy=True), TypeError, "[reshape] copy=True is not supported; a r"),
        (lambda: T.reshape(4, shape=4), TypeError, "[reshape] expected sizes once, got (4,) and 4"),
        (lambda: T.flatten(order="F"), TypeError, "[flatten] order='F' is not supported"),
        (lambda: T.broadcast_to(2, 2, subok=True), TypeError, "[broadcast_to] subok=True is not s"),
        (lambda: T.astype("int8", casting="safe"), TypeError, "[astype] casting='safe' is not sup"),
        (lambda: ndl.concat([T], dtype="int8"), TypeError, "[concatenate] float32 does not go int"),
        (lambda: ndl.hstack([T], casting="no"), TypeError, "[hstack] casting='no' is not supporte"),
        (lambda: ndl.stack([T], out=T), TypeError, "[stack] out=Tensor is not supported"),
        (lambda: ndl.dot(T, T, T), TypeError, "[dot] out=Tensor is not supported"),
        (lambda: ndl.einsum("ij", T, optimize="best"), TypeError, "[einsum] optimize must be True"),
        (lambda: ndl.einsum("ij", T, out=T), TypeError, "[einsum] out=Tensor is not supported"),
        (lambda: ndl.roll(T, 1, shift=2), TypeError, "[roll] expected one of shifts and shift, go"),
        (lambda: ndl.pad(T, 1, "edge", 2), TypeError, "[pad] expected no value for mode 'edge', g"),
        (lambda: ndl.pad(T, 1, constant_values=(1, 2)), TypeError, "[pad] expected an array or a "),
        (lambda: ndl.pad(T, 1, "linear_ramp"), ValueError, "[pad] mode must be one of constant, r"),
        (lambda: ndl.pad(T, 1, "reflect", reflect_type="odd"), TypeError, "[pad] reflect_type='od"),
        (lambda: ndl.searchsorted(V, V, side="mid"), ValueError, "[searchsorted] side must be 'le"),
        (lambda: ndl.searchsorted(V, V, True, side="left"), ValueError, "[searchsorted] expected "),
        (lambda: ndl.searchsorted(V, V, sorter=[0]), ValueError, "[searchsorted] sorter must be p"),
        (lambda: ndl.unique(V, sorted="no"), TypeError, "[unique] sorted must be True or False, g"),
        (lambda: ndl.meshgrid(V, sparse=2), TypeError, "[meshgrid] sparse must be True or False, "),
        (lambda: ndl.zeros(2, order="F"), TypeError, "[zeros] order='F' is not supported; permute"),
        (lambda: ndl.ones((2, 3), "int8"), TypeError, "[ones] expected sizes, got 'int8'; use dty"),
        (lambda: ndl.full(2, 1, like=T), TypeError, "[full] like=Tensor is not supported; results"),
        (lambda: ndl.full_like(T, 1, subok=False), TypeError, "[full_like] subok=False is not sup"),
        (lambda: ndl.eye(2, 3, M=3), TypeError, "[eye] expected one of m and M, got m and M"),
        (lambda: ndl.linspace(0, 1, 3, steps=3), TypeError, "[linspace] expected one of num and s"),
        (lambda: ndl.linspace(0, 1, 3, "yes"), TypeError, "[linspace] endpoint must be True or Fa"),
        (lambda: ndl.linspace(0, 1, 3, axis=1), TypeError, "[linspace] axis=1 is not supported"),
        (lambda: ndl.asarray([1], copy=False), ValueError, "[asarray] copy=False needs a copy; fr"),
        (lambda: ndl.from_dlpack(T, device=ndl.cpu_numpy(), copy=False), ValueError,
         "[from_dlpack] copy=False needs a copy: the memory is on"),
    ],
)  # fmt: skip
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)) as caught:
        call()
    assert type(caught.value) is error


# New tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("linspace", (0, 1, 5), {"endpoint": False}), ("linspace", (-1, 0, 4), {"dtype": "int64"}),
        ("linspace", (2, 7, 3), {"retstep": True}), ("linspace", (0, 1, 1), {"axis": 0}),
        ("linspace", (0, 1, 0), {}), ("eye", (2,), {"M": 3, "k": -1}), ("eye", (0, 2), {}),
        ("eye", (3, None, 1, "int64"), {"order": "C", "like": None}), ("arange", (0,), {}),
        ("full", ((2, 0), 3, "int8"), {"order": "C"}), ("zeros", (0,), {"order": "C"}),
        ("ones", ((2, 3),), {"like": None}), ("full", ((), 2), {"like": None}),
    ],
)  # fmt: skip
def test_creation(name, args, options):
    kind = {} if any(isinstance(a, str) for a in args) else {"dtype": "float64"}
    found = getattr(ndl, name)(*args, **{**kind, **options})
    expected = getattr(np, name)(*args, **{**kind, **options})
    if options.get("retstep"):
        assert found[1] == expected[1]
        found, expected = found[0], expected[0]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("name", ["full_like", "ones_like", "zeros_like", "empty_like"])
def test_tensors_like_others(name):
    x = np.ones((2, 3), "float32")
    args = (7,) if name == "full_like" else ()
    options = [{}, {"shape": (4, 0)}, {"shape": ()}, {"shape": 5}, {"dtype": "int8"},
               {"order": "K", "subok": True}]  # fmt: skip
    for given in options:
        found = getattr(ndl, name)(ndl.tensor(x), *args, **given)
        expected = getattr(np, name)(x, *args, **given)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        if name != "empty_like":
            np.testing.assert_array_equal(found.numpy(), expected)


def test_copies_where_they_are_asked_for():
    x = ndl.tensor([1.0, 2.0])
    for copied in (ndl.asarray(x, copy=True), x.astype("float32", copy=True),
                   ndl.from_dlpack(x, copy=True), *ndl.meshgrid(x, copy=True)):  # fmt: skip
        copied[0] = 5.0
    assert ndl.asarray(x, copy=False) is x and x.astype("float32", copy=False) is x
    assert x.tolist() == [1.0, 2.0]
