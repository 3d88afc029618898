"""NumPy's functions take tensors and arrays as NumPy arrays, and give NumPy's results."""

import operator as op

import numpy as np
import pytest
from needle.backend_ndarray import NDArray

import needle as ndl

VALUES = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], np.float32)

CALLS = {
    **{
        name: getattr(np, name)
        for name in (
            "sum mean max min prod any all argmax argmin std var cumsum cumprod ptp round sort "
            "argsort ravel transpose squeeze diagonal trace nonzero median average copy flip size "
            "ndim shape count_nonzero unique zeros_like"
        ).split()
    },
    "sum over an axis": lambda x: np.sum(x, axis=0, keepdims=True, dtype="float64"),
    "sum where": lambda x: np.sum(x, where=np.array([True, False, True])),
    "max with a start": lambda x: np.max(x, axis=1, initial=2.5),
    "std with ddof": lambda x: np.std(x, axis=1, ddof=1),
    "sum into an array": lambda x: np.sum(x, axis=0, out=np.zeros(3, np.float32)),
    "clip": lambda x: np.clip(x, 1, 3),
    "repeat": lambda x: np.repeat(x, 2),
    "take": lambda x: np.take(x, [0, 4]),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "concatenate": lambda x: np.concatenate([x, x[:1]]),
    "stack of a tuple": lambda x: np.stack((x, x), axis=1),
    "block": lambda x: np.block([[x, x], [x, x]]),
    "where": lambda x: np.where(x > 1, x, 0),
    "norm": np.linalg.norm,
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "allclose": lambda x: np.allclose(x, x),
    "exp, as a ufunc": np.exp,
}


def flat(out):
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize("kind", ["constant", "detached", "no_grad"])
@pytest.mark.parametrize("name", CALLS)
def test_as_with_arrays(name, kind):
    x = ndl.tensor(VALUES) if kind == "constant" else ndl.Tensor(VALUES)
    with ndl.set_grad_enabled(kind != "no_grad"):
        found = flat(CALLS[name](x.detach() if kind == "detached" else x))
    for a, b in zip(found, flat(CALLS[name](VALUES)), strict=True):
        assert not isinstance(a, ndl.Tensor)
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


# What has no gradient anyway, and copies by name.
WITHOUT_GRADIENT = (
    "any all argmax argmin argsort nonzero copy size ndim shape count_nonzero zeros_like allclose"
).split()


@pytest.mark.parametrize("name", CALLS)
def test_no_graph_is_lost(name):
    """Numbers that are computed from a tensor that requires a gradient are refused."""
    x = ndl.Tensor(VALUES)
    if name in WITHOUT_GRADIENT:
        for a, b in zip(flat(CALLS[name](x)), flat(CALLS[name](VALUES)), strict=True):
            np.testing.assert_array_equal(a, b)
        return
    with pytest.raises(ValueError, match=r"\[\w+\] NumPy's result has no graph.*x\.detach\(\)"):
        CALLS[name](x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add(x, 1),
        lambda x: np.add(1, x),
        lambda x: np.add(ndl.tensor(VALUES), x),  # not the first tensor
        lambda x: np.add(VALUES, x),
        lambda x: np.exp(x[0, 0]),
        lambda x: np.modf(x),
        lambda x: np.add.reduce(x),
        lambda x: np.maximum.accumulate(x),
        lambda x: np.stack([ndl.tensor(VALUES), x]),
        lambda x: np.split(x, 3, 1),
    ],
)
def test_no_graph_is_lost_in_ufuncs_and_lists(call):
    with pytest.raises(ValueError, match=r"x\.detach\(\)"):
        call(ndl.Tensor(VALUES))
    call(ndl.Tensor(VALUES).detach())


def test_nothing_is_written_before_a_refusal():
    out = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"\[sum\].*x\.detach\(\)"):
        np.sum(ndl.Tensor(VALUES), axis=0, out=out)
    assert not out.any()


def test_conversions_and_comparisons_take_tensors_with_a_graph():
    x = ndl.Tensor(VALUES)
    for convert in (np.array, np.asarray, np.copy, lambda x: np.array(list(x))):
        np.testing.assert_array_equal(convert(x), VALUES)
    np.testing.assert_array_equal(x, VALUES)
    np.testing.assert_allclose(x, VALUES)
    assert np.isfinite(x).all() and (np.greater(x, 1) == (VALUES > 1)).all()
    assert np.array_equal(x, VALUES) and float(x[0, 0]) == 3.0


@pytest.mark.parametrize("operator", ["add", "mul", "sub", "truediv", "iadd"])
def test_operators_with_arrays_keep_the_graph(operator):
    x, array = ndl.Tensor(VALUES + 1), VALUES.copy()
    if operator == "iadd":
        array += x
    else:
        array = getattr(op, operator)(array, x)
    assert isinstance(array, ndl.Tensor) and array.requires_grad
    scaled = np.float32(2) * x
    assert isinstance(scaled, ndl.Tensor) and scaled.requires_grad


@pytest.mark.parametrize("function", [np.sum, np.max, np.transpose, np.median, np.std])
def test_arrays_of_needle(function):
    found = function(NDArray(VALUES))
    assert not isinstance(found, NDArray)
    np.testing.assert_array_equal(found, function(VALUES))


def test_both_kinds_and_other_devices_and_types():
    x = ndl.tensor(VALUES)
    mixed = np.concatenate([x, NDArray(VALUES), ndl.tensor(VALUES, device=ndl.cpu_numpy())])
    np.testing.assert_array_equal(mixed, np.concatenate([VALUES] * 3))
    np.testing.assert_array_equal(np.stack(ndl.split(x, 0)), VALUES)
    halves = np.mean(ndl.tensor(VALUES, dtype="bfloat16"))
    assert halves == np.mean(VALUES) and halves.dtype == np.float32


@pytest.mark.parametrize(
    "write",
    [
        lambda x: np.copyto(x, 1.0),
        lambda x: np.put(x, [0], [1.0]),
        lambda x: np.fill_diagonal(x, 1.0),
        lambda x: np.sum(VALUES, axis=0, out=x[0]),
    ],
)
def test_numpy_writes_into_no_tensor(write):
    """It would not know that a gradient needs the former values."""
    x = ndl.tensor(VALUES)
    with pytest.raises(ValueError, match="read-only"):
        write(x)
    np.testing.assert_array_equal(x.numpy(), VALUES)


def test_elements_are_not_known_while_tracing():
    with pytest.raises(ndl.TraceError, match="the elements of a tensor were asked for"):
        ndl.jit(lambda x: x * np.sum(x))(ndl.tensor(VALUES))


def test_tensors_in_other_containers():
    rows = np.empty(2, object)
    rows[:] = [ndl.tensor(row) for row in VALUES]
    with pytest.raises(TypeError, match=r"\[concatenate\] expected Tensors alone or in lists"):
        np.concatenate(rows)
