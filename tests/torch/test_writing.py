"""Changes in place: views, what they are views of, and their gradients, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle.torch as face

real = pytest.importorskip("torch")


def into_a_view(t: Any, w: Any) -> Any:
    base = t.zeros(3, 4)
    base[1].copy_(w)
    return base * 2


def view_before_write(t: Any, w: Any) -> Any:
    base = t.ones(2, 4) * w
    row = base[0]
    base.mul_(3)
    return row * w


def written_twice(t: Any, w: Any) -> Any:
    base = w.repeat(2, 1)
    base[0] *= w
    base[:, 1:3] += w[:2]
    return base


def nested(t: Any, w: Any) -> Any:
    base = t.zeros(2, 2, 4)
    base[1][0].add_(w)
    base.transpose(0, 1)[0, 1] *= 2
    return base


def through_reshape(t: Any, w: Any) -> Any:
    base = t.zeros(2, 4) + w
    flat = base.view(-1)
    flat[2:6] = w * w
    return base * flat.view(2, 4)


def residual(t: Any, w: Any) -> Any:
    y = w * 2
    y += w
    y -= 1
    y.relu_()
    return y * w


def chunks(t: Any, w: Any) -> Any:
    base = w * 2
    a, b = base.clone().chunk(2)
    return t.cat([b, a]) * w


def masked(t: Any, w: Any) -> Any:
    y = w * 3
    y[y > 0] = 0
    y.masked_fill_(w < -1, 5.0)
    return y * w


def by_index(t: Any, w: Any) -> Any:
    y = t.zeros(6, dtype=w.dtype) + w.sum()
    y.index_add_(0, t.tensor([0, 2, 2, 5]), w)
    y.scatter_add_(0, t.tensor([1, 1, 3, 3]), w * w)
    y[[4, 0]] = w[:2]
    return y


CASES = (into_a_view, view_before_write, written_twice, nested, through_reshape, residual, chunks,
         masked, by_index)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: Callable[[Any, Any], Any]) -> None:
    values = [0.5, -1.5, 2.0, 0.25]
    results = []
    for library in (real, face):
        w = library.tensor(values, dtype=library.float64, requires_grad=True)
        y = case(library, w)
        weights = library.arange(y.numel(), dtype=library.float64).reshape(tuple(y.shape))
        (y * weights).sum().backward()
        results.append((y.detach().numpy(), w.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_memory_is_shared() -> None:
    base = face.zeros(2, 3)
    view, alias = base.view(-1), base.detach()
    view[4] = 7
    base.t()[0] += 1
    assert base.tolist() == [[1, 0, 0], [1, 7, 0]] == alias.tolist()
    array = base.numpy()
    base.fill_(2)
    assert (array == 2).all()


def test_leaves_are_protected() -> None:
    w = face.ones(3, requires_grad=True)
    for change in (lambda: w.add_(1), lambda: w[0].fill_(2), lambda: w.__setitem__(0, 1.0)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            change()
    with face.no_grad():
        w.add_(1)
        w[0] = 5
    assert w.tolist() == [5, 2, 2] and w.is_leaf


def test_results_must_fit() -> None:
    x = face.zeros(3, dtype=face.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x.add_(face.ones(2, 3, dtype=face.int64))
    with pytest.raises(RuntimeError, match="single memory location"):
        face.zeros(1).expand(3).add_(1)


def test_a_view_becomes_a_leaf() -> None:
    x = face.arange(6.0)[2:4]
    x.requires_grad_()
    (x * x).sum().backward()
    assert x.is_leaf and x.grad.tolist() == [4, 6]
