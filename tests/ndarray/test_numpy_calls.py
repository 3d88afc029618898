"""NumPy's functions take tensors and arrays as NumPy arrays, and give NumPy's results."""

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


@pytest.mark.parametrize("make", [ndl.tensor, ndl.Tensor], ids=["constant", "with gradient"])
@pytest.mark.parametrize("name", CALLS)
def test_as_with_arrays(name, make):
    found, expected = flat(CALLS[name](make(VALUES))), flat(CALLS[name](VALUES))
    for a, b in zip(found, expected, strict=True):
        assert not isinstance(a, ndl.Tensor)
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


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
