"""Gradients through the results of compiled functions are those of eager mode."""

import gc
import weakref

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.nn import functional as F


def tensor(*shape, seed=0, **options):
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return ndl.tensor(numbers, **options)


def close(found, expected):
    for ours, theirs in zip(ndl.tree.leaves(found), ndl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-4, 1e-5)


TRANSFORMS = {
    "grad": lambda f, x: ndl.grad(f)(x),
    "vjp": lambda f, x: ndl.vjp(f, x)[1](ndl.tensor(1.0)),
    "jvp": lambda f, x: ndl.jvp(f, (x,), (x + 1,)),
    "jacobian": lambda f, x: ndl.jacobian(f)(x),
    "hessian": lambda f, x: ndl.hessian(f)(x),
    "third": lambda f, x: ndl.grad(lambda x: ndl.hessian(f)(x).square().sum())(x),
    "value": lambda f, x: ndl.value_and_grad(f)(x),
    "by closure": lambda f, x: ndl.grad(lambda x: ndl.jit(lambda: f(x))())(x),
    "checkpoint": lambda f, x: ndl.grad(lambda x: ndl.checkpoint(f, x))(x),
    "in jit": lambda f, x: ndl.jit(ndl.grad(f))(x),
}


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(transform, fuse):
    w = tensor(4, requires_grad=True)

    def f(x):
        return ((w * x).sin() * x**2).sum()

    x = tensor(4, seed=1)
    close(transform(ndl.jit(f, fuse=fuse), x), transform(f, x))


def test_a_function_that_returns_what_it_is_given():
    w, x = tensor(3, requires_grad=True), tensor(3, seed=1, requires_grad=True)
    a, b = ndl.jit(lambda x: (x, w))(x)
    (a * 2 + b * 3).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and w.grad.tolist() == [3.0] * 3


def test_backward_through_several_results_in_nested_arguments():
    x, y = tensor(3, 4, requires_grad=True), tensor(4, 2, seed=1, requires_grad=True)

    def f(pair, *, more):
        product = pair["x"] @ more[0]
        return {"sum": product.sum(), "parts": [product.tanh(), pair["x"].argmax()]}

    def total(out):
        return (out["sum"] * 3 + out["parts"][0].square().sum()).square()

    expected = [g.numpy() for g in _gradients(total(f({"x": x}, more=(y, 2))), x, y)]
    found = _gradients(total(ndl.jit(f)({"x": x}, more=(y, 2))), x, y)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-4, 1e-4)


def _gradients(loss, *tensors):
    for x in tensors:
        x.grad = None
    loss.backward(create_graph=False)
    return [x.grad for x in tensors]


def test_a_tensor_that_is_given_twice_or_also_used_from_outside():
    x = tensor(3, requires_grad=True)
    f = ndl.jit(lambda a, b: (a * b * x).sum())
    (gradient,) = _gradients(f(x, x), x)
    np.testing.assert_allclose(gradient.numpy(), 3 * x.numpy() ** 2, 1e-5)


def test_arguments_of_numpy_may_change_before_backward():
    w, numbers = tensor(3, requires_grad=True), np.array([1.0, 2.0, 3.0], np.float32)
    loss = ndl.jit(lambda x: (w * x).sum())(numbers)
    numbers[:] = 0
    loss.backward()
    assert w.grad.tolist() == [1.0, 2.0, 3.0]


def test_functions_one_after_the_other():
    w = tensor(4, 4, requires_grad=True)
    x = tensor(2, 4, seed=1, requires_grad=True)
    layer, head = ndl.jit(lambda x: (x @ w).tanh()), ndl.jit(lambda x: (x @ w.T).square().sum())
    found = _gradients(head(layer(layer(x)) * 2), x, w)
    plain = head._function(layer._function(layer._function(x)) * 2)
    expected = _gradients(plain, x, w)
    close(found, expected)


@pytest.mark.parametrize("seed", [3, None])
def test_training_with_a_compiled_model(seed, numpy_generator):
    """Running statistics are updated once, and dropout's gradient has the mask of its result."""
    losses = []
    for compiled in (False, True):
        np.random.seed(5)
        if seed is not None:
            ndl.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 2)
        )
        call = ndl.jit(lambda x, model=model: model(x)) if compiled else model
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        x, y = tensor(16, 4), ndl.tensor(np.arange(16) % 2)
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        losses.append(model[1].running_var.numpy().sum())
        if compiled:
            assert call.cache_info()[:2] == (3, 1)
    np.testing.assert_allclose(losses[:5], losses[5:], 1e-5)


def test_hooks_run_once():
    w, x = tensor(3, requires_grad=True), tensor(3, seed=1, requires_grad=True)
    for tensor_with_hook in (w, x):
        tensor_with_hook.register_hook(lambda g: g * 2)
    found = _gradients(ndl.jit(lambda x: (w * x).sum())(x), w, x)
    close(found, (x * 2, w * 2))


def test_the_gradient_is_one_program_for_all_calls():
    w = tensor(3, requires_grad=True)
    f = ndl.jit(lambda x: (w * x).sum())
    for i in range(4):
        f(tensor(3, seed=i)).backward(create_graph=False)
    vjp = f.program.vjp
    assert vjp.cache_info()[:2] == (3, 1) and f.cache_info()[:2] == (3, 1)
    assert [k.name for k in vjp.kernels] == ["multiply"]


def test_what_requires_no_gradient_has_none():
    w = tensor(3, requires_grad=True)
    f = ndl.jit(lambda x: (w * x).sum())
    with ndl.no_grad():
        assert not f(tensor(3)).requires_grad
    assert not ndl.jit(lambda x: x * 2)(tensor(3)).requires_grad


def test_results_are_freed_with_their_history():
    w = tensor(3, requires_grad=True)
    f = ndl.jit(lambda x: w * x)
    x = tensor(3)
    reference = weakref.ref(f(x).cached_data._handle)
    gc.collect()
    assert reference() is None


# What is refused ---------------------------------------------------------------------------------


def test_steps_that_change_gradients_are_differentiated_inside():
    w = tensor(3, requires_grad=True)

    @ndl.jit
    def step(x):
        loss = (w * x).sum()
        loss.backward()
        w.data = w.data - 0.1 * w.grad.data
        return loss

    with pytest.raises(ndl.TraceError, match=r"that changes gradients.* inside of the function"):
        step(tensor(3)).backward()


def test_state_that_the_function_changes_and_its_gradient_reads():
    w, count = tensor(3, requires_grad=True), ndl.tensor(0.0)

    @ndl.jit
    def f(x):
        is_first = count < 1
        count.data = count + 1
        return ndl.where(is_first, w * x, -w * x).sum()

    with pytest.raises(ndl.TraceError, match=r"shape \(\) from outside.* or by it"):
        f(tensor(3)).backward()


@pytest.mark.parametrize("change", ["data", "in place", "buffer"])
def test_tensors_that_change_before_backward(change):
    w, b = tensor(3, requires_grad=True), tensor(3)
    loss = ndl.jit(lambda x: (w * w * x * b).sum())(tensor(3))
    if change == "data":
        w.data = w.data * 2
    elif change == "in place":
        with ndl.no_grad():
            w[0] = 5.0
    else:
        b[1] = 4.0
    with pytest.raises((ndl.TraceError, ValueError), match=r"replaced|changed"):
        loss.backward()


def test_a_training_flag_that_changes_before_backward():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    loss = ndl.jit(lambda x: model(x).sum())(tensor(2, 3))
    model.eval()
    with pytest.raises(ndl.TraceError, match=r"has changed \(.*training.*\); call it again"):
        loss.backward()


def test_another_compiled_function_cannot_go_back_beyond_its_start():
    w = tensor(3, requires_grad=True)
    y = ndl.jit(lambda x: (w * x).sum())(tensor(3))
    with pytest.raises(ndl.TraceError, match="inside of one compiled function"):
        ndl.jit(lambda: (y * 2).backward())()
