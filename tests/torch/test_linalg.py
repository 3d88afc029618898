"""`torch.linalg` beside PyTorch: values, first and second gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import needle.torch as torch

real = pytest.importorskip("torch")
rng = np.random.default_rng(0)
SQUARE = rng.normal(size=(2, 3, 3)) + 2 * np.eye(3)
TALL, WIDE = rng.normal(size=(4, 3)), rng.normal(size=(3, 4))
RIGHT = rng.normal(size=(2, 3, 2))

# name -> (a function of torch and a matrix whose value has no freedom of sign, the matrix)
CALLS = {
    "inv": (lambda t, x: t.linalg.inv(x), SQUARE),
    "solve": (lambda t, x: t.linalg.solve(x, t.tensor(RIGHT)), SQUARE),
    "solve vector": (lambda t, x: t.linalg.solve(x, t.tensor(RIGHT[..., 0])), SQUARE),
    "solve of right": (lambda t, x: t.linalg.solve(t.tensor(SQUARE[0]), x), RIGHT),
    "solve from right": (
        lambda t, x: t.linalg.solve(x, t.tensor(RIGHT).transpose(-2, -1), left=False),
        SQUARE,
    ),
    "cholesky": (lambda t, x: t.linalg.cholesky(x @ x.transpose(-2, -1)), SQUARE),
    "upper": (lambda t, x: t.linalg.cholesky(x @ x.transpose(-2, -1), upper=True), SQUARE),
    "eigh": (lambda t, x: t.linalg.eigh(x + x.transpose(-2, -1))[1] ** 2, SQUARE),
    "eigh of a triangle": (lambda t, x: t.linalg.eigh(x).eigenvectors ** 2, SQUARE),
    "eigvalsh": (lambda t, x: t.linalg.eigvalsh(x, "U"), SQUARE),
    "qr": (lambda t, x: t.linalg.qr(x)[0] ** 2, TALL),
    "r": (lambda t, x: t.linalg.qr(x).R ** 2, SQUARE),
    "svd tall": (lambda t, x: t.linalg.svd(x, full_matrices=False)[0] ** 2, TALL),
    "svd wide": (lambda t, x: t.linalg.svd(x, full_matrices=False).Vh ** 2, WIDE),
    "svdvals": (lambda t, x: t.linalg.svdvals(x), SQUARE),
    "pinv": (lambda t, x: t.linalg.pinv(x), TALL),
    "det": (lambda t, x: t.linalg.det(x), SQUARE),
    "slogdet": (lambda t, x: t.linalg.slogdet(x).logabsdet, SQUARE),
    "norm": (lambda t, x: t.linalg.norm(x), SQUARE),
    "nuc": (lambda t, x: t.linalg.matrix_norm(x, "nuc"), SQUARE),
    "2": (lambda t, x: t.linalg.norm(x, 2), TALL),
    "-1": (lambda t, x: t.linalg.norm(x, -1, (0, 2), True), SQUARE),
    "inf": (lambda t, x: t.linalg.norm(x, float("inf")), WIDE),
    "vector": (lambda t, x: t.linalg.vector_norm(x, 3, 1), SQUARE),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name):
    function, matrix = CALLS[name]
    found = []
    for t in (torch, real):
        x = t.tensor(matrix, requires_grad=True)
        y = function(t, x)
        weights = t.arange(1.0, y.numel() + 1, dtype=t.float64).reshape(y.shape).sin()
        g = t.autograd.grad((y * weights).sum(), x, create_graph=True)[0]
        second = t.autograd.grad((g * g + x * x).sum(), x)[0]
        found.append([v.detach().numpy() for v in (y, g, second)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_errors():
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.zeros(2, 2))
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-torch.eye(2))
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.det(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="float32 or float64"):
        torch.linalg.inv(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(NotImplementedError, match="full_matrices"):
        torch.linalg.svd(torch.ones(2, 3))


def test_results_are_of_the_face():
    x = torch.eye(2) * 2
    assert all(
        type(y) is torch.Tensor for y in (torch.det(x), torch.inverse(x), *torch.linalg.qr(x))
    )
    assert torch.logdet(x).isclose(torch.tensor(4.0).log()) and torch.logdet(-x).exp() == 4
    assert torch.logdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).isnan()
    assert torch.allclose(torch.pinverse(torch.ones(2, 3)), torch.full((3, 2), 1 / 6))
