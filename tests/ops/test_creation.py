"""Every creation function: values, shapes, dtypes, devices, and no gradient unless asked for."""

import inspect
import re

import numpy as np
import pytest

import needle as ndl

from .records import CREATION

CASES = [(r, i) for r in CREATION for i in range(len(r.calls))]


def make(record, position, **options):
    call = record.calls[position]
    accepted = accepted_by(record.operator)
    options = {k: v for k, v in options.items() if k in accepted}
    return record.operator(*call.args, **call.kwargs, **options)


def accepted_by(function):
    """The options that a function takes by name: also those of a TypedDict (Unpack[Like]), and all
    of them if the keywords are of any kind."""
    parameters = inspect.signature(function).parameters
    rest = [p.annotation for p in parameters.values() if p.kind == p.VAR_KEYWORD]
    if rest == ["Any"]:
        return {*parameters, "device", "dtype", "requires_grad"}
    kinds = [function.__globals__[r.removeprefix("Unpack[").removesuffix("]")] for r in rest]
    return {*parameters}.union(*(kind.__annotations__ for kind in kinds))


@pytest.mark.parametrize(("record", "position"), CASES, ids=[f"{r}-{i}" for r, i in CASES])
def test_values(record, position):
    found = make(record, position)
    assert found.dtype == record.dtype
    assert not found.requires_grad and found.op is None
    assert found.device == ndl.cpu()
    if record.reference is None:
        assert found.shape == record.shapes[position]
        return
    call = record.calls[position]
    expected = np.asarray(record.reference(*call.args, **call.kwargs))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("record", CREATION, ids=str)
def test_options(record):
    accepted = accepted_by(record.operator)
    if "device" in accepted:
        assert make(record, 0, device=ndl.cpu_numpy()).device == ndl.cpu_numpy()
        assert make(record, 0, device="cpu").device == ndl.cpu()
    if "requires_grad" in accepted:
        floats = {"dtype": "float32"} if "dtype" in accepted else {}
        assert make(record, 0, requires_grad=True, **floats).requires_grad
    if "dtype" in accepted:
        assert make(record, 0, dtype="float64").dtype == "float64"
        assert make(record, 0, dtype="bfloat16").dtype == "bfloat16"


def test_python_floats_become_float32_and_arrays_keep_their_dtype():
    assert ndl.tensor([1.0, 2.0]).dtype == "float32"
    assert ndl.tensor(np.array([1.0])).dtype == "float64"
    assert ndl.tensor([True]).dtype == "bool"
    assert ndl.arange(0.0, 1.0, 0.25).dtype == "float32"
    assert ndl.tensor([]).dtype == "float32"


def test_tensor_copies_and_from_numpy_shares():
    values = np.zeros(3, np.float32)
    copied, shared = ndl.tensor(values), ndl.from_numpy(values)
    values[1] = 5
    assert copied.numpy().tolist() == [0, 0, 0]
    assert shared.numpy().tolist() == [0, 5, 0]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ndl.tensor(300, dtype="int8"), ValueError, "[tensor] 300 does not fit into int8"),
        (lambda: ndl.Tensor([1, -1], dtype="uint8"), ValueError, "[Tensor] -1 does not fit"),
        (lambda: ndl.tensor(2**63), ValueError, "[tensor] 9223372036854775808 does not fit"),
        (lambda: ndl.arange(300, dtype="int8"), ValueError, "[arange] 299 does not fit"),
        (lambda: ndl.randint(0, 999, 5, dtype="int8"), ValueError, "[randint] 998 does not fit"),
        (lambda: ndl.full(2, float("nan"), dtype="int32"), ValueError, "[full] nan does not fit"),
        (lambda: ndl.tensor([[1, 2], [3]]), ValueError, "[tensor] expected lists of equal lengths"),
        (lambda: ndl.Tensor([[1, 2], [3]]), ValueError, "[Tensor] expected lists of equal lengths"),
        (lambda: ndl.arange("a"), TypeError, "[arange] expected an array or a number, got str"),
        (lambda: ndl.linspace(0, 1, 2.5), TypeError, "[linspace] num must be a whole number"),
        (lambda: ndl.linspace("a", 1), TypeError, "[linspace] expected an array or a number"),
        (lambda: ndl.tensor([1j], "float32"), TypeError, "[tensor] expected real numbers"),
        (lambda: ndl.tensor(["1.5"], "float32"), TypeError, "[tensor] expected real numbers"),
        (lambda: ndl.tensor([None], "float32"), TypeError, "[tensor] expected real numbers"),
        (lambda: ndl.tensor([2**70]), ValueError, "[tensor] 1180591620717411303424 does not fit"),
        (lambda: ndl.Tensor([2**70], dtype="int8"), ValueError, "[Tensor] 1180591620717411303424"),
        (lambda: ndl.arange(float("nan")), ValueError, "[arange] from 0 to nan by 1"),
        (lambda: ndl.arange(1e30), ValueError, "[arange] from 0 to 1e+30 by 1"),
        (lambda: ndl.randint(0, 2.5, 3), TypeError, "[randint] a bound must be a whole number"),
        (lambda: ndl.randint(5), TypeError, "[randint] expected (high, shape) or (low, high"),
        (lambda: ndl.randint(0, 5, 3, size=3), TypeError, "[randint] expected (high, shape) or"),
        (lambda: ndl.one_hot(-1, [0]), ValueError, "[one_hot] sizes must not be negative"),
        (lambda: ndl.zeros_like([1]), TypeError, "[zeros_like] expected a Tensor, got list"),
        (lambda: ndl.rand_like(None), TypeError, "[rand_like] expected a Tensor, got NoneType"),
        (lambda: ndl.eye(2.5), TypeError, "[eye] a shape is made of integers"),
        (lambda: ndl.randperm(-1), ValueError, "[randperm] sizes must not be negative"),
        (lambda: ndl.one_hot(ndl.tensor([1]), 5), TypeError, "use one_hot(n, i)"),
        (lambda: ndl.rand(2, generator=3), TypeError, "[random] expected a needle.Generator"),
        (lambda: ndl.manual_seed(1.5), TypeError, "[manual_seed] expected a whole number"),
    ],
)
def test_what_cannot_be_made(make, error, text):
    with pytest.raises(error, match=re.escape(text)):
        make()


def test_pytorchs_names_of_arguments():
    assert ndl.linspace(0, 1, steps=3).tolist() == [0, 0.5, 1]
    for made in (
        ndl.randint(3, size=(2, 5)),
        ndl.randint(1, 3, size=(2, 5)),
        ndl.randint(3, (2, 5)),
    ):
        assert made.shape == (2, 5) and 0 <= made.min().item() <= made.max().item() < 3


def test_arrays_are_cast_as_astype_does():
    assert ndl.tensor(np.array([300, -1]), dtype="uint8").tolist() == [44, 255]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_by_weight(replacement):
    weights = np.array([[1.0, 0.0, 2.0, 5.0], [3.0, 3.0, 0.0, 0.0]])
    np.random.seed(0)
    many = ndl.tensor(np.repeat(weights, 4000, 0))
    drawn = ndl.multinomial(many, 2, replacement).numpy().reshape(2, 4000, 2)
    for row, expected in zip(drawn, weights / weights.sum(1, keepdims=True), strict=True):
        shares = np.bincount(row[:, 0], minlength=4) / 4000
        np.testing.assert_allclose(shares, expected, atol=0.03)
        assert (shares[expected == 0] == 0).all()
        twice = (row[:, 0] == row[:, 1]).mean()
        assert (twice > 0) == replacement
    again = [ndl.multinomial(many, 1, generator=ndl.Generator(7)).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_multinomial_never_draws_a_weight_of_0(dtype):
    for weights in ([1.0, 0.0], [3e4, 0.0]):
        rows = ndl.tensor(weights, dtype).broadcast_to(20_000, 2)
        drawn = ndl.multinomial(rows, 1, generator=ndl.Generator(1))
        assert not drawn.any()


def test_multinomial_of_weights_near_the_largest_number():
    rows = ndl.tensor([3e38, 1e38]).broadcast_to(20_000, 2)
    drawn = ndl.multinomial(rows, 1, generator=ndl.Generator(1))
    assert abs(drawn.numpy().mean() - 0.25) < 0.01


@pytest.mark.parametrize(
    ("weights", "count", "error", "text"),
    [
        ([1.0, float("nan")], 1, ValueError, "[multinomial] expected finite weights >= 0"),
        ([1.0, float("inf")], 1, ValueError, "[multinomial] expected finite weights >= 0"),
        ([1.0, 2.0], 1.5, TypeError, "[multinomial] num_samples must be a whole number"),
    ],
)
def test_multinomial_refuses(weights, count, error, text):
    with pytest.raises(error, match=re.escape(text)):
        ndl.multinomial(ndl.tensor(weights), count)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bernoulli_draws_by_probability(dtype):
    shares = [0.0, 0.001, 0.3, 1.0]
    p = ndl.tensor(shares, dtype, requires_grad=True).broadcast_to(20_000, 4)
    np.random.seed(0)
    for generator in (None, ndl.Generator(7)):
        drawn = ndl.bernoulli(p, generator=generator)
        assert drawn.dtype == dtype and not drawn.requires_grad
        values = drawn.numpy()
        assert set(np.unique(values)) == {0, 1}
        np.testing.assert_allclose(values.mean(0), shares, atol=0.01)
        assert values[:, 0].sum() == 0 and values[:, 1].sum() > 0 and values[:, 3].sum() == 20_000
    again = [ndl.bernoulli(p, generator=ndl.Generator(7)).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_compiled_bernoulli_draws_anew_in_each_call():
    drawn = ndl.jit(lambda p: ndl.bernoulli(p))
    p = ndl.full((64,), 0.5)
    for seed in (np.random.seed, ndl.manual_seed):
        before = ndl.get_rng_state()
        try:
            seed(3)
            eager = [ndl.bernoulli(p).tolist() for _ in range(3)]
            seed(3)
            assert [drawn(p).tolist() for _ in range(3)] == eager
            assert eager[0] != eager[1]
        finally:
            ndl.set_rng_state(before)


def test_numbers_of_more_than_64_bits_are_floats():
    assert ndl.tensor([2**70, 1], dtype="float64").tolist() == [2.0**70, 1]
    assert ndl.Tensor([2**70]).tolist() == [2.0**70]


def test_shapes_may_be_arrays():
    sizes = np.array([3, 2])
    assert ndl.zeros(sizes).shape == ndl.ones(2, 3).reshape(sizes).shape == (3, 2)
    assert ndl.zeros(ndl.tensor([3, 2])).shape == (3, 2)
    with pytest.raises(TypeError, match=r"\[zeros\] a shape is made of integers"):
        ndl.zeros(np.array([1.5]))


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_by_name(name):
    make = getattr(ndl, name)
    assert make(size=(2, 3)).shape == (2, 3) and make(size=()).shape == ()
    with pytest.raises(TypeError, match=rf"\[{name}\] expected sizes once, got \(2,\) and size=3"):
        make(2, size=3)
