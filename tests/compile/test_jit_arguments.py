"""Arguments and results of compiled functions."""

from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

import needle as ndl
from needle import optim

from .jit_steps import X, bits

pytestmark = pytest.mark.usefixtures("numpy_generator")


def test_arguments_and_results_may_be_nested():
    @ndl.jit
    def f(pair, scale, options):
        a, b = pair
        return {"sum": a + b, "rest": [a * scale, options["bias"] - b], "name": options["name"]}

    options = {"bias": ndl.tensor([10.0]), "name": "x"}
    for scale in (2.0, 3.0, 2.0):
        out = f((ndl.tensor([1.0]), np.array([2.0], np.float32)), scale, options)
        assert out["sum"].tolist() == [3.0] and out["name"] == "x"
        assert [x.tolist() for x in out["rest"]] == [[scale], [8.0]]
    assert f.cache_info() == (1, 2, 128, 2, 0)


def test_results_are_not_overwritten_by_the_next_call():
    f = ndl.jit(lambda x: x * 2)
    first = f(ndl.tensor([1.0]))
    second = f(ndl.tensor([2.0]))
    assert (first.item(), second.item()) == (2.0, 4.0)


def test_results_that_are_arguments_or_state_are_copies():
    w = ndl.tensor([1.0, 2.0])
    f = ndl.jit(lambda x: (x, w, x.T, w[1:]))
    x = ndl.tensor([[1.0, 2.0], [3.0, 4.0]])
    same, state, turned, part = f(x)
    w += 1
    assert same.tolist() == x.tolist() and turned.tolist() == [[1, 3], [2, 4]]
    assert state.tolist() == [1.0, 2.0] and part.tolist() == [2.0]


def test_strided_arguments_are_accepted():
    f = ndl.jit(lambda x: x.exp())
    x = ndl.tensor(X)
    for view in (x.T, x[::2, 1:], ndl.flip(x, 0)):
        assert (bits(f(view)) == bits(view.exp())).all()


def test_arguments_that_are_written_change():
    @ndl.jit
    def f(x, y):
        x += 1
        y.data = y * 2
        return x * y

    x, y = ndl.tensor([1.0]), ndl.tensor([3.0])
    assert f(x, y).item() == 12.0 and (x.item(), y.item()) == (2.0, 6.0)
    assert f(x, y).item() == 36.0 and (x.item(), y.item()) == (3.0, 12.0)


def test_writing_into_an_argument_is_seen_by_its_views():
    @ndl.jit
    def f(x):
        x[1:3] = 5.0
        return x.sum()

    whole = ndl.zeros(4)
    view = whole[1:].detach()
    assert f(whole).item() == 10.0 and view.tolist() == [5.0, 5.0, 0.0]
    assert f(view).item() == 15.0 and whole.tolist() == [0.0, 5.0, 5.0, 5.0]
    y = (whole.requires_grad_() * whole).sum()
    f(whole.detach())
    with pytest.raises(ValueError, match="changed in place"):
        y.backward()
    with pytest.raises(ValueError, match="broadcast view"):
        f(ndl.broadcast_to(ndl.zeros(1), (4,)))


def test_an_object_that_is_given_twice_is_one_object():
    @ndl.jit
    def f(x, y):
        x += 1
        return x * y

    x = ndl.tensor([1.0])
    assert f(x, x).item() == 4.0
    assert f(x, ndl.tensor([3.0])).item() == 9.0
    with pytest.raises(ndl.TraceError, match="also known to the function as another argument"):
        f(x, x.detach())


@pytest.mark.parametrize("change", ["data", "place", "gradient"])
def test_an_argument_that_is_changed_from_outside_is_refused(change):
    w = ndl.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)

    @ndl.jit
    def f(x):
        if change == "data":
            w.data = w + 1
        elif change == "place":
            with ndl.no_grad():
                w[0] = 7.0
        else:
            (x * x).sum().backward()
            optimizer.step()
        return x * 2

    assert f(ndl.tensor([1.0], requires_grad=True)).item() == 2.0
    with pytest.raises(ndl.TraceError, match="or from outside"):
        f(w)
    if change == "place":
        with pytest.raises(ndl.TraceError, match="or from outside"):
            f(w.detach().requires_grad_())


def test_the_gradient_of_an_argument_is_not_added_to():
    @ndl.jit
    def f(x):
        (x * x).sum().backward(accumulate=True)

    x = ndl.tensor([3.0], requires_grad=True)
    f(x)
    assert x.grad.tolist() == [6.0]
    with pytest.raises(ndl.TraceError, match="reads the gradient of an argument"):
        f(x)
    assert x.grad.tolist() == [6.0]


def test_gradients_of_arguments_are_cleared():
    x = ndl.tensor([1.0, 2.0], requires_grad=True)

    @ndl.jit
    def clear(x, again):
        x.grad = None
        if again:
            (x * 3).sum().backward(create_graph=False, accumulate=True)

    for again, expected in ((False, None), (True, [3.0, 3.0]), (True, [3.0, 3.0])):
        x.grad = ndl.ones(2)
        clear(x, again)
        assert (None if x.grad is None else x.grad.tolist()) == expected
    clear(np.ones(2), False)  # which has none


def test_arrays_of_numpy_have_no_gradient_and_stay():
    @ndl.jit
    def f(x):
        x.requires_grad_()
        (x * x).sum().backward(create_graph=False)
        x.data = x.detach() * 0
        return x.grad

    x = np.array([1.0, 2.0])
    for _ in range(2):
        assert f(x).tolist() == [2.0, 4.0] and x.tolist() == [1.0, 2.0]


def test_gradients_of_arguments_are_set():
    @ndl.jit
    def f(x):
        loss = (x * x * x).sum()
        loss.backward()
        return loss

    for value in (2.0, 3.0):
        x = ndl.tensor([value], requires_grad=True)
        f(x)
        assert x.grad.tolist() == [3 * value**2]
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("kind", [float, np.float32, np.float64, np.float16, complex])
def test_numbers_are_told_apart_by_sign_and_type(kind):
    seen = []

    @ndl.jit
    def f(x, number):
        seen.append(number)
        return x / number.real

    for value in (0.0, -0.0, float("nan"), -float("nan") * 0, 0.0, -0.0, float("nan")):
        found = f(ndl.ones(1), kind(value)).numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            np.testing.assert_array_equal(found, np.ones(1) / kind(value).real)
    assert len(seen) in (3, 4)  # NaN may have a sign


def test_a_tuple_of_tensors_is_an_argument():
    parts = ndl.split(ndl.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    f = ndl.jit(lambda parts: parts[0] * 2 + parts[1])
    assert f(parts).tolist() == [5.0, 8.0]
    assert ndl.jit(lambda x: x * parts[0] + parts[1])(ndl.ones(2)).tolist() == [4.0, 6.0]


def test_unhashable_arguments_are_refused():
    f = ndl.jit(lambda *args, **kwargs: None)
    expected = "hashable values as arguments, got set in argument"
    for args, kwargs, where in (
        (({1},), {}, "1"),
        ((ndl.ones(1), [2, {1}]), {}, "2"),
        ((3,), {"options": {"a": {1}}}, "'options'"),
    ):
        with pytest.raises(TypeError, match=f"{expected} {where}; pass what is in it"):
            f(*args, **kwargs)


def test_slices_are_fixed_values():
    f = ndl.jit(lambda x, where: x[where])
    x = ndl.arange(6)
    for where in (slice(2), slice(1, 3), slice(None, None, 2), slice(2)):
        assert f(x, where).tolist() == x[where].tolist()
    assert f.cache_info().misses == 3


def test_dicts_of_the_users_kind_stay_what_they_are():
    def f(given):
        return type(given), given["b"], given

    counted = defaultdict(lambda: 7, a=ndl.ones(2), b=ndl.zeros(1))
    ordered = OrderedDict(b=ndl.ones(2), a=ndl.ones(1))
    for given in (counted, ordered):
        kind, b, back = ndl.jit(f)(given)
        assert kind is type(given) is type(back) and b.shape == given["b"].shape
        assert list(back) == list(given)
    assert ndl.jit(lambda given: given["c"])(counted) == 7
    assert ndl.jit(lambda x: Counter(a=2))(ndl.ones(1)) == Counter(a=2)


def test_writing_into_a_read_only_array_is_refused_before_the_run():
    w = ndl.zeros(2)

    @ndl.jit
    def f(x):
        w.data = w.detach() + 1.0
        x[0] = 5.0

    fixed = np.ones(2, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only NumPy array of shape \(2,\); copy it first"):
        f(fixed)
    assert w.tolist() == [0.0, 0.0]


def test_the_reference_device_runs_too():
    f = ndl.jit(lambda x: (x @ x.T).exp().sum(1))
    x = ndl.tensor(X, device=ndl.cpu_numpy())
    np.testing.assert_array_equal(bits(f(x)), bits((x @ x.T).exp().sum(1)))
    assert f(x).device == ndl.cpu_numpy()


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(2), np.bool_(True)])
def test_numbers_of_numpys_are_numbers(number):
    def f(x, number):
        return x * number + number, number - x, x**number, ndl.where(x > number, x, number)

    x = ndl.tensor([1.0, 2.0, 3.0])
    for found, expected in zip(ndl.jit(f)(x, number), f(x, number), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
