"""Element types: names, promotion, weak scalars."""

import pickle
from itertools import product

import numpy as np
import pytest

import needle as ndl
from needle import dtype as types
from needle.dtype import DTYPES, bfloat16, bool_, dtype_of, float16, float32, promote

NUMPY_DTYPES = [d for d in DTYPES if d is not bfloat16]


@pytest.mark.parametrize(("a", "b"), list(product(NUMPY_DTYPES, NUMPY_DTYPES)))
def test_promotion_is_numpys(a, b):
    assert promote(a, b) == np.promote_types(a.storage, b.storage)


@pytest.mark.parametrize("a", DTYPES)
def test_bfloat16_promotes_as_float16_does(a):
    if a is bfloat16:
        expected = "bfloat16"
    elif a is float16:
        expected = "float32"
    else:
        name = np.promote_types("float16", a.storage).name
        expected = "bfloat16" if name == "float16" else name
    assert promote(bfloat16, a) == promote(a, bfloat16) == expected


@pytest.mark.parametrize(("a", "b"), list(product(DTYPES, DTYPES)))
def test_promotion_holds_both(a, b):
    assert promote(a, b) is promote(b, a)
    assert promote(promote(a, b), a) is promote(promote(a, b), b) is promote(a, b)


@pytest.mark.parametrize("scalar", [True, 2, 2.5])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_scalars_are_weak_as_in_numpy(dtype, scalar):
    expected = (np.ones(3, dtype.storage) * scalar).dtype
    tensor = ndl.Tensor(np.ones(3), dtype=dtype)
    assert (tensor * scalar).dtype == expected
    assert (scalar * tensor).dtype == expected


def test_scalars_keep_bfloat16():
    tensor = ndl.Tensor([1.0, 2.0], dtype="bfloat16")
    for result in (tensor + 1, tensor * 2.5, 1 / tensor, tensor**2):
        assert result.dtype == "bfloat16"


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_a_dtype_is_its_name_and_numpys_type(dtype):
    name = str(dtype)
    assert dtype == name and hash(dtype) == hash(name)
    assert dtype == np.dtype(name) and dtype == np.dtype(name).type
    assert dtype_of(name) is dtype and dtype_of(np.dtype(name)) is dtype
    assert np.dtype(dtype) == dtype.storage
    assert dtype.itemsize == np.dtype(name).itemsize
    assert dtype != "complex64" and dtype != np.dtype("complex64")
    assert repr(dtype) == f"needle.{name}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_singletons_through_pickle(dtype):
    assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_kinds():
    assert [str(d) for d in DTYPES if d.is_floating] == [
        "float32", "float64", "float16", "bfloat16",
    ]  # fmt: skip
    assert [str(d) for d in DTYPES if d.is_integer] == ["int8", "int16", "int32", "int64", "uint8"]
    assert not bool_.is_floating and not bool_.is_integer


@pytest.mark.parametrize(("spec", "name"), [(float, "float64"), (int, "int64"), (bool, "bool")])
def test_python_types_name_dtypes(spec, name):
    assert dtype_of(spec) == name


def test_torch_and_jax_name_dtypes():
    torch = pytest.importorskip("torch")
    assert dtype_of(str(torch.float32).removeprefix("torch.")) is float32
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert dtype_of(np.dtype(ml_dtypes.bfloat16)) is bfloat16


@pytest.mark.parametrize("bad", ["float8", "complex64", np.dtype("U3"), None, 3, [1], object])
def test_unknown_dtypes_say_what_is_known(bad):
    with pytest.raises(TypeError, match=r"\[dtype\] expected one of float32, float64, .*got "):
        dtype_of(bad)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_functions_compute_in_numpys_type(dtype):
    assert types.floating(dtype) == np.exp(np.ones(1, dtype.storage)).dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_widen_integers_only(dtype):
    assert types.summed(dtype) is (dtype if dtype.is_floating else types.int64)


def test_a_tensor_is_no_dtype():
    with pytest.raises(TypeError, match=r"\[dtype\] expected one of float32"):
        dtype_of(ndl.ones(3))
