"""Reverse mode by PyTorch's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import needle as ndl
import needle.torch as face
from needle.torch import func

real = pytest.importorskip("torch")


def test_gradients_add_up_and_the_graph_is_freed() -> None:
    w = face.ones(2, requires_grad=True)
    y = (w * w).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad.tolist() == [4, 4] and not w.grad.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (w * 2).backward()
    assert (w * 2).grad is None


def test_non_leaves_keep_gradients_when_asked() -> None:
    w = face.ones(2, requires_grad=True)
    y, z = w * 2, w * 3
    y.retain_grad()
    (y * z).sum().backward()
    assert y.grad.tolist() == [3, 3] and z.grad is None


def test_second_derivatives() -> None:
    x = face.tensor(2.0, requires_grad=True)
    (g,) = face.autograd.grad(x**4, x, create_graph=True)
    (h,) = face.autograd.grad(g, x)
    assert (g.item(), h.item()) == (32, 48)


def test_both_faces_share_graphs() -> None:
    course = ndl.Tensor([1.0, 2.0], dtype="float32")
    w = face.tensor([3.0, 4.0], requires_grad=True)
    product = course * w
    assert type(product) is face.Tensor
    product.sum().backward()
    assert w.grad.tolist() == [1, 2]
    assert type(ndl.exp(w)) is face.Tensor


class Cube(face.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Both(face.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, k: int) -> Any:
        ctx.k = k
        return x * k, x + k

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        return a * ctx.k + b, None


def test_functions_of_users() -> None:
    x = face.tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(x)
    assert "CubeBackward" in repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [3, 12]
    x.grad = None
    a, b = Both.apply(x, 5)
    (a.sum() + 2 * b.sum()).backward()
    assert x.grad.tolist() == [7, 7]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transforms_of_functions() -> None:
    def f(t: Any) -> Any:
        return lambda x: (x**3).sum() + x[0] * x[1]

    x = [0.5, -1.0, 2.0]
    pairs = [
        (real.func.grad(f(real)), func.grad(f(face))),
        (real.func.hessian(f(real)), func.hessian(f(face))),
        (real.func.jacrev(lambda v: v.exp() * v[0]), func.jacrev(lambda v: v.exp() * v[0])),
        (real.func.vmap(lambda v: v * v + 1), func.vmap(lambda v: v * v + 1)),
    ]
    for theirs, ours in pairs:
        expected = theirs(real.tensor(x, dtype=real.float64)).numpy()
        found = ours(face.tensor(x, dtype=face.float64)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    v = face.tensor(x)
    out, tangent = func.jvp(face.sin, (v,), (face.ones(3),))
    np.testing.assert_allclose(tangent.numpy(), np.cos(x), rtol=1e-6)
    assert not out.requires_grad


def test_hooks() -> None:
    w = face.ones(2, requires_grad=True)
    handle = w.register_hook(lambda g: g * 10)
    seen: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    w.sum().backward()
    handle.remove()
    w.sum().backward()
    assert seen == [[10, 10], [11, 11]]


def test_gradcheck_finds_mistakes() -> None:
    class Wrong(Cube):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = face.randn(3, dtype=face.float64, requires_grad=True)
    assert face.autograd.gradcheck(Cube.apply, x)
    assert not face.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
