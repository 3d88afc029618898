"""A dynamic axis: other sizes run without another trace, with the same results as eager."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn, optim

SIZES = (32, 7, 2, 100, 32, 1, 7)


def training(compiled, make, sizes=SIZES):
    """Losses of training steps on batches of several sizes."""
    ndl.manual_seed(3)
    rng = np.random.default_rng(0)
    model, shape = make()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    runs = 0

    def step(x, y):
        nonlocal runs
        runs += 1
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss, model(x).mean()

    called = ndl.jit(step, dynamic=0) if compiled else step
    found = []
    for n in sizes:
        x = ndl.tensor(rng.standard_normal((n, *shape)).astype("f4"))
        found.append([out.item() for out in called(x, ndl.tensor(rng.integers(0, 5, n)))])
    return np.array(found), called, runs


def mlp():
    layers = nn.Linear(12, 16), nn.GELU(), nn.LayerNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 5)
    return nn.Sequential(*layers), (12,)


def cnn():
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
              nn.Flatten(), nn.Linear(16, 5))  # fmt: skip
    return nn.Sequential(*layers), (3, 4, 4)


def attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(48, 5)), (6, 8)


@pytest.mark.parametrize("make", [mlp, attention])
def test_other_batches_need_no_trace(make):
    expected, _, _ = training(False, make)
    found, step, runs = training(True, make)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    info = step.cache_info()
    assert info.resized == 3 and info.misses == 2  # 32 and 1 are traced; 7, 2 and 100 follow
    assert runs == 1 + 3 + 1  # the first trace and its probes, and the one for a batch of 1


def test_statistics_of_batches_follow():
    sizes = (16, 5, 9)
    expected, _, _ = training(False, cnn, sizes)
    found, step, _ = training(True, cnn, sizes)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert step.cache_info().misses == 1


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(2, 70), min_size=1, max_size=4), st.integers(0, 5))
def test_any_size_equals_eager(sizes, case):
    def f(x):
        n, m = x.shape
        if case == 0:
            return x.reshape((n * m,)).sum() / n + x.sum(0).mean()
        if case == 1:
            return ndl.stack([x, x * 2], 0).transpose((0, 1)).reshape((2 * n, m)).max(0)
        if case == 2:
            return (x.T @ x) / (x.shape[0] - 1)
        if case == 3:
            return x[1:] - x[:-1]
        if case == 4:
            return ndl.concatenate([x, ndl.ones(n, 2)], 1).cumsum(0)
        return (x - x.mean(0)) / (x.var(0) + 1e-3).sqrt()

    step = ndl.jit(f, dynamic={"x": 0})
    for n in (11, *sizes):
        x = ndl.tensor(np.random.default_rng(n).standard_normal((n, 3)).astype("f4"))
        np.testing.assert_allclose(step(x).numpy(), f(x).numpy(), 1e-4, 1e-5)
    assert step.cache_info().misses == 1


def test_branches_on_the_size_are_seen():
    @ndl.jit(dynamic=0)
    def f(x):
        return x * 2 if x.shape[0] > 10 else x * 3

    for n, factor in ((20, 2), (5, 3), (12, 2), (7, 3), (10, 3), (11, 2)):
        assert f(ndl.ones(n)).sum().item() == factor * n
    info = f.cache_info()
    assert info.misses == 4 and info.resized == 2  # below 10 each size is traced


def test_whether_a_size_is_zero_is_seen():
    @ndl.jit(dynamic=0)
    def f(x):
        return x * 2 if x.shape[0] - 5 else x * 3

    for n, factor in ((20, 2), (7, 2), (5, 3), (8, 2)):
        assert f(ndl.ones(n)).sum().item() == factor * n
    assert f.cache_info()[1:] == (2, 128, 4, 2)


@pytest.mark.parametrize(
    "leak",
    [
        lambda x: x * (1 / x.shape[0]),
        lambda x: x * float(x.shape[0]),
        lambda x: x * (x.shape[0] % 2),
        lambda x: x * {12: 1.0}.get(x.shape[0], 2.0),
        lambda x: x * len(x),
        lambda x: x * int(x.shape[0]),
        lambda x: x * (x.shape[0] // 2),
        lambda x: x * (x.shape[0] & 1024),
        lambda x: x * abs(x.shape[0] - 2),
    ],
)
def test_sizes_that_become_numbers_are_refused(leak):
    with pytest.raises(ndl.TraceError, match=r"dynamic axis.*\n.*test_dynamic.py:\d+"):
        ndl.jit(leak, dynamic=0)(ndl.ones(12))


@pytest.mark.parametrize(
    "changing",
    [
        lambda x: sum(x[i] for i in range(x.shape[0])),
        lambda x: (x @ x.reshape((1, x.shape[0]))) if x.ndim == 2 else x.reshape((-1, 1)) * x,
        lambda x: x + ndl.tensor(np.arange(x.shape[0], dtype=np.float32) ** 2),
    ],
)
def test_programs_that_change_with_the_size_are_refused(changing):
    with pytest.raises(ndl.TraceError, match="dynamic axis"):
        ndl.jit(changing, dynamic=0)(ndl.ones(12))


def test_what_depends_on_half_the_size_is_refused():
    """The middle row starts at element 4 (n // 2): a straight line as long as n is odd."""
    with pytest.raises(ndl.TraceError, match="dynamic axis"):
        ndl.jit(lambda x: x.median(axis=0), dynamic=0)(ndl.ones(5, 4))


def test_axes_must_agree():
    f = ndl.jit(lambda x, y: x.sum() + y.sum(), dynamic=0)
    with pytest.raises(ValueError, match=r"one size for all dynamic axes, got \[2, 3\]"):
        f(ndl.ones(2), ndl.ones(3))
    with pytest.raises(ValueError, match=r"parameters of the function \(x\), got 'z'"):
        ndl.jit(lambda x: x, dynamic={"z": 0})


@pytest.mark.parametrize("dynamic", [-1, {"x": -1}, {"x": 1}])
def test_axes_may_count_from_the_last(dynamic):
    f = ndl.jit(lambda x: x.sum(0), dynamic=dynamic)
    for n in (4, 6, 9):
        assert f(ndl.ones(3, n)).tolist() == [3.0] * n
    assert f.cache_info() == (0, 1, 128, 3, 2)


def test_axes_that_an_array_does_not_have_are_refused():
    with pytest.raises(ValueError, match="got axis 2 for an array with 2 axes"):
        ndl.jit(lambda x: x, dynamic={"x": 2})(ndl.ones(3, 4))
    assert ndl.jit(lambda x, y: x * y, dynamic=-1)(ndl.ones(3), ndl.tensor(2.0)).shape == (3,)


def test_tensors_that_require_a_gradient_or_not_trace_again():
    w, v = ndl.ones(3).requires_grad_(), ndl.ones(3).requires_grad_()

    @ndl.jit(dynamic=0)
    def f(x):
        (x * w * v).sum().backward(create_graph=False)

    f(ndl.ones(4, 3))
    w.grad = None
    w.requires_grad = False
    f(ndl.ones(5, 3))
    assert w.grad is None and v.grad.tolist() == [5.0] * 3 and f.cache_info().misses == 2


@pytest.mark.parametrize("is_shared", [True, False])
def test_tensors_that_share_memory_or_not_trace_again(is_shared):
    a = ndl.ones(3)
    b = a.detach() if is_shared else ndl.ones(3)

    @ndl.jit(dynamic=0)
    def f(x):
        before = b * 2
        a[0] = 5.0
        return x * (before + 1), x * b

    f(ndl.ones(4, 3))
    a.data, b.data = (ndl.ones(3), ndl.ones(3) * 7) if is_shared else (a, a.data)
    former = b.tolist()
    found = f(ndl.ones(6, 3))
    assert found[0][5].tolist() == [2 * v + 1 for v in former]
    assert found[1][5].tolist() == ([7.0] * 3 if is_shared else [5.0, 1.0, 1.0])


def test_new_state_traces_again():
    w = ndl.ones(3)
    f = ndl.jit(lambda x: x * w, dynamic=0)
    f(ndl.ones(4, 3))
    w.data = ndl.ones(1, 3)
    assert f(ndl.ones(5, 3)).shape == (5, 3) and f.cache_info().misses == 2


def test_arguments_may_have_any_name():
    f = ndl.jit(lambda array: array * 2, dynamic=0)
    for n in (4, 5, 6):
        assert f(array=ndl.ones(n)).shape == (n,)
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("axes", [True, "x", 1.5, [0], {"x": "first"}])
def test_axes_that_are_none(axes):
    with pytest.raises(TypeError, match=r"number of an axis, as in dynamic=0 or .*, got "):
        ndl.jit(lambda x: x, dynamic=axes)


def test_a_loop_over_the_axis_is_named():
    f = ndl.jit(lambda x: sum(x[i] for i in range(x.shape[0])), dynamic=0)
    with pytest.raises(
        ndl.TraceError, match=r"derived, in binary at .*test_dynamic.py:\d+: the num"
    ):
        f(ndl.ones(4, 2))


def test_a_size_that_is_also_a_constant():
    # The program of batch norm's gradient has the constants n and 2, which are one for n = 2.
    def batch_norm():
        return nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 5)), (6,)

    eager, _, _ = training(False, batch_norm, (2, 7, 4))
    ours, step, _ = training(True, batch_norm, (2, 7, 4))
    np.testing.assert_allclose(eager, ours, 1e-4)
    assert step.cache_info()[1:] == (1, 128, 3, 2)


def test_the_first_call_changes_whether_gradients_add_up():
    w = nn.Parameter(ndl.ones(3))
    optimizer = optim.SGD([w], lr=0.1)

    @ndl.jit(dynamic=0)
    def step(x):
        for part in (x, x * 2):  # in the first call the second gradient replaces the first
            (part * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = []
    for n in (4, 2, 5):
        step(ndl.ones(n, 3))
        found.append(w.numpy()[0])
    np.testing.assert_allclose(found, 1 - 0.1 * np.cumsum([8, 6, 15]), 1e-5)
    assert step.cache_info().misses == 2
