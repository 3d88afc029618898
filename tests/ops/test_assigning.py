"""Methods that end in `_`, recorded and not, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4)).astype("f4")
AT = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
CALLS = {
    **{name: (lambda x, y, m, n=name: getattr(x, n)()) for name in (
        "abs_", "exp_", "log_", "sqrt_", "rsqrt_", "square_", "sigmoid_", "tanh_", "relu_",
        "neg_", "reciprocal_", "tril_", "triu_", "sin_", "cos_")},
    "add_": lambda x, y, m: x.add_(y, alpha=0.5),
    "sub_": lambda x, y, m: x.sub_(y),
    "mul_": lambda x, y, m: x.mul_(y),
    "div_": lambda x, y, m: x.div_(y),
    "pow_": lambda x, y, m: x.pow_(2),
    "clamp_": lambda x, y, m: x.clamp_(0.2, 0.7),
    "clamp_min_": lambda x, y, m: x.clamp_min_(0.5),
    "lerp_": lambda x, y, m: x.lerp_(y, 0.25),
    "addcmul_": lambda x, y, m: x.addcmul_(y, y, value=0.1),
    "addcdiv_": lambda x, y, m: x.addcdiv_(y, y + 1, value=-0.1),
    "masked_fill_": lambda x, y, m: x.masked_fill_(x.detach() > 0.5, 0.25),
    "scatter_": lambda x, y, m: x.scatter_(0, m.as_tensor(AT[:1]), y[:1]),
    "scatter_ number": lambda x, y, m: x.scatter_(1, m.as_tensor(AT), 1.0),
    "scatter_add_": lambda x, y, m: x.scatter_add_(0, m.as_tensor(AT), y[:2]),
    "index_add_": lambda x, y, m: x.index_add_(0, m.as_tensor([2, 0, 2]), y),
    "chain": lambda x, y, m: x.mul_(0.9).add_(y, alpha=0.1).clamp_(max=0.8),
}  # fmt: skip


def run(m, call, record):
    w = m.tensor(X, requires_grad=record)
    x, y = w * 1, (w * w).flip((0,))
    seen = x  # another name of the same tensor sees the change
    result = call(x, y, m)
    assert result is x
    if record:
        (seen * seen).sum().backward()
        return seen.detach().numpy(), w.grad.numpy()
    return (seen.numpy(),)


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_as_in_torch(name, record):
    expected, found = (run(m, CALLS[name], record) for m in (torch, ndl))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_compiled():
    @ndl.jit
    def step(average, new):
        average.mul_(0.9).add_(new, alpha=0.1)
        average.lerp_(new, 0.5)

    average = ndl.zeros(3)
    step(average, ndl.ones(3))
    np.testing.assert_allclose(average.numpy(), [0.55] * 3, rtol=1e-6)


def test_leaves_are_refused():
    w = ndl.tensor([1.0, -1.0], requires_grad=True)
    for write in (lambda: w.relu_(), lambda: w.add_(1), lambda: w.clamp_(0, 1)):
        with pytest.raises(ValueError, match=r"_\] expected no gradients to record here, got a le"):
            write()
    with ndl.no_grad():
        w.relu_().add_(1)
    assert w.tolist() == [2, 1] and w.is_leaf()


def test_random():
    ndl.manual_seed(0)
    x = ndl.empty(20_000)
    assert abs(x.bernoulli_(0.3).mean().item() - 0.3) < 0.02 and set(x.unique().tolist()) == {0, 1}
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02 and x.min().item() >= 0
