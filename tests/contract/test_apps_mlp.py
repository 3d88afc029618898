"""The course's networks of linear layers on MNIST, with both kinds of tensors.

Everything here holds in the default mode and over plain NumPy arrays (NEEDLE_BACKEND=np), which
test_apps.py runs in a process of its own.
"""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from apps import mlp_resnet, simple_ml

import needle as ndl
from needle import nn
from tests.data.files import write_mnist

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def softmax(Z: np.ndarray) -> np.ndarray:
    shifted = np.exp(Z - Z.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def mean_loss(Z: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(softmax(Z)[np.arange(len(y)), y]).mean())


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X (47, 12), y (47,), W1 (12, 8), W2 (8, 5): 47 is no multiple of a batch."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((47, 12)).astype(np.float32)
    y = rng.integers(0, 5, 47).astype(np.uint8)
    W1 = rng.standard_normal((12, 8)).astype(np.float32) / np.float32(3)
    W2 = rng.standard_normal((8, 5)).astype(np.float32) / np.float32(3)
    return X, y, W1, W2


# hw1: a two-layer network


def test_parse_mnist(tmp_path: Path) -> None:
    pixels, labels = write_mnist(tmp_path, 20)
    X, y = simple_ml.parse_mnist(
        str(tmp_path / "train-images-idx3-ubyte.gz"), str(tmp_path / "train-labels-idx1-ubyte.gz")
    )
    assert (X.dtype, X.shape, y.dtype) == (np.float32, (20, 784), np.uint8)
    np.testing.assert_allclose(X, pixels.reshape(20, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(y, labels)


def test_softmax_loss_is_the_mean_over_one_hot_labels(problem) -> None:
    _, y, _, _ = problem
    logits = np.random.default_rng(1).standard_normal((47, 5)).astype(np.float32)
    one_hot = np.eye(5, dtype=np.float32)[y]
    Z = ndl.Tensor(logits)
    loss = simple_ml.softmax_loss(Z, ndl.Tensor(one_hot))
    assert isinstance(loss, ndl.Tensor)
    np.testing.assert_allclose(loss.numpy(), mean_loss(logits, y), **CLOSE)
    loss.backward()
    np.testing.assert_allclose(Z.grad.numpy(), (softmax(logits) - one_hot) / 47, **CLOSE)


def test_softmax_loss_of_large_logits() -> None:
    Z = ndl.Tensor(np.array([[1000.0, 0.0], [0.0, -1000.0]], np.float32))
    loss = simple_ml.softmax_loss(Z, ndl.Tensor(np.eye(2, dtype=np.float32)))
    np.testing.assert_allclose(loss.numpy(), 500.0)


@pytest.mark.parametrize("lr, batch", [(0.1, 10), (0.3, 47), (0.2, 16)])
def test_nn_epoch_returns_new_weights(problem, lr: float, batch: int) -> None:
    X, y, W1, W2 = problem
    start1, start2 = ndl.Tensor(W1), ndl.Tensor(W2)
    new1, new2 = simple_ml.nn_epoch(X, y, start1, start2, lr=lr, batch=batch)
    expected1, expected2 = W1.astype(np.float64), W2.astype(np.float64)
    for i in range(0, 47, batch):
        part, labels = X[i : i + batch], y[i : i + batch]
        hidden = np.maximum(part @ expected1, 0)
        G = (softmax(hidden @ expected2) - np.eye(5)[labels]) / len(part)
        hidden_grad = (G @ expected2.T) * (hidden > 0)
        expected1, expected2 = expected1 - lr * part.T @ hidden_grad, expected2 - lr * hidden.T @ G
    np.testing.assert_allclose(new1.numpy(), expected1, **CLOSE)
    np.testing.assert_allclose(new2.numpy(), expected2, **CLOSE)
    assert isinstance(new1, ndl.Tensor) and new1 is not start1
    np.testing.assert_array_equal(start1.numpy(), W1)


def test_loss_err_gives_loss_and_error_rate(problem) -> None:
    _, y, _, _ = problem
    logits = np.random.default_rng(2).standard_normal((47, 5)).astype(np.float32)
    loss, error = simple_ml.loss_err(ndl.Tensor(logits), y)
    np.testing.assert_allclose(loss, mean_loss(logits, y), **CLOSE)
    assert error == (logits.argmax(axis=1) != y).mean()


# hw2: residual blocks


def count(model: nn.Module) -> int:
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm1d])
def test_residual_block_is_relu_of_a_residual_branch(norm: type[nn.Module]) -> None:
    block = mlp_resnet.ResidualBlock(6, 4, norm=norm, drop_prob=0.5).eval()
    assert count(block) == 6 * 4 + 4 + 2 * 4 + 4 * 6 + 6 + 2 * 6
    kinds = [type(m) for _, m in block.named_modules()]
    layers = [nn.Linear, norm, nn.ReLU, nn.Dropout, nn.Linear, norm]
    assert kinds == [nn.Sequential, nn.Residual, nn.Sequential, *layers, nn.ReLU]
    x = ndl.Tensor(np.random.randn(3, 6), dtype="float32")
    branch = block.modules[0](x) - x
    expected = np.maximum(branch.numpy() + x.numpy(), 0)
    np.testing.assert_allclose(block(x).numpy(), expected, **CLOSE)


def test_residual_block_forward_in_numpy() -> None:
    block = mlp_resnet.ResidualBlock(6, 4, norm=nn.LayerNorm1d).eval()
    x = np.random.randn(3, 6).astype(np.float32)
    w1, b1, _, _, w2, b2, _, _ = (p.numpy() for p in block.parameters())

    def standard(z: np.ndarray) -> np.ndarray:
        return (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)

    hidden = np.maximum(standard(x @ w1 + b1), 0)
    expected = np.maximum(standard(hidden @ w2 + b2) + x, 0)
    np.testing.assert_allclose(block(ndl.Tensor(x)).numpy(), expected, **CLOSE)


def test_mlp_resnet_draws_in_order_of_execution_and_takes_images() -> None:
    np.random.seed(7)
    model = mlp_resnet.MLPResNet(784, hidden_dim=10, num_blocks=2, num_classes=4)
    np.random.seed(7)
    sizes = [(784, 10), (10, 5), (5, 10), (10, 5), (5, 10), (10, 4)]
    expected = [nn.Linear(*size) for size in sizes]
    found = [m for _, m in model.named_modules() if isinstance(m, nn.Linear)]
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got.weight.numpy(), want.weight.numpy())
        np.testing.assert_array_equal(got.bias.numpy(), want.bias.numpy())
    images = ndl.Tensor(np.random.rand(3, 28, 28, 1), dtype="float32")
    assert model(images).shape == (3, 4)


def test_mlp_resnet_defaults() -> None:
    model = mlp_resnet.MLPResNet(20)
    block = 100 * 50 + 50 + 2 * 50 + 50 * 100 + 100 + 2 * 100
    assert count(model) == 20 * 100 + 100 + 3 * block + 100 * 10 + 10
    assert {m.p for _, m in model.named_modules() if isinstance(m, nn.Dropout)} == {0.1}


def loader(folder: Path, batch_size: int, shuffle: bool = False) -> ndl.data.DataLoader:
    dataset = ndl.data.MNISTDataset(
        str(folder / "train-images-idx3-ubyte.gz"), str(folder / "train-labels-idx1-ubyte.gz")
    )
    return ndl.data.DataLoader(dataset, batch_size, shuffle)


def test_epoch_without_optimizer_measures_in_eval_mode(tmp_path: Path) -> None:
    pixels, labels = write_mnist(tmp_path, 25)
    model = mlp_resnet.MLPResNet(784, 16)
    before = {name: t.numpy() for name, t in model.state_dict().items()}
    error, loss = mlp_resnet.epoch(loader(tmp_path, 10), model)
    assert not model.training
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), before[name])
    X = ndl.Tensor(pixels.reshape(25, 784) / 255, dtype="float32")
    logits = model(X).numpy()
    assert error == (logits.argmax(axis=1) != labels).mean()
    np.testing.assert_allclose(loss, mean_loss(logits, labels), **CLOSE)  # short batch: per sample


def test_epoch_with_optimizer_trains_and_seeds_the_generator(tmp_path: Path) -> None:
    write_mnist(tmp_path, 40)

    def run(seed: int) -> tuple[tuple[float, float], np.ndarray, float]:
        np.random.seed(1)
        model = mlp_resnet.MLPResNet(784, 16)
        opt = ndl.optim.SGD(model.parameters(), lr=0.1)
        np.random.seed(seed)
        result = mlp_resnet.epoch(loader(tmp_path, 10, shuffle=True), model, opt)
        assert model.training
        return result, model.parameters()[0].numpy(), np.random.rand()

    first, second = run(11), run(12)
    assert first[0] == second[0] and first[2] == second[2]
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("optimizer", [ndl.optim.Adam, ndl.optim.SGD])
def test_train_mnist_is_seeded_epochs_over_a_seeded_model(tmp_path: Path, optimizer) -> None:
    write_mnist(tmp_path, 60)
    options = {"optimizer": optimizer, "lr": 0.01, "weight_decay": 0.02, "hidden_dim": 12}
    result = mlp_resnet.train_mnist(20, 2, data_dir=str(tmp_path), **options)
    np.random.seed(4)
    model = mlp_resnet.MLPResNet(784, hidden_dim=12)
    opt = optimizer(model.parameters(), lr=0.01, weight_decay=0.02)
    for _ in range(2):
        train = mlp_resnet.epoch(loader(tmp_path, 20, shuffle=True), model, opt)
    test = mlp_resnet.epoch(loader(tmp_path, 20), model)  # the test files are the same here
    np.testing.assert_allclose(result, (*train, *test), rtol=1e-6)
    assert 0 <= result[0] <= 1 and 0 <= result[2] <= 1


def test_training_lowers_the_error_and_keeps_parameters_float32(tmp_path: Path) -> None:
    write_mnist(tmp_path, 50)
    model = mlp_resnet.MLPResNet(784, 32, drop_prob=0.0)
    opt = ndl.optim.Adam(model.parameters(), lr=0.003)
    batches = loader(tmp_path, 25)
    results = [mlp_resnet.epoch(batches, model, opt) for _ in range(8)]
    assert results[-1][0] <= 0.2 and results[-1][1] < results[0][1] / 3
    assert {str(p.dtype) for p in model.parameters()} == {"float32"}


@pytest.mark.parametrize("optimizer", [ndl.optim.Adam, ndl.optim.SGD])
def test_live_tensors_do_not_grow_with_steps(tmp_path: Path, optimizer) -> None:
    write_mnist(tmp_path, 30)
    model = mlp_resnet.MLPResNet(784, 16)
    opt = optimizer(model.parameters(), lr=0.01, weight_decay=0.01)
    gc.collect()
    others = ndl.autograd.TENSOR_COUNTER
    counts = []
    for batch_size in (30, 10, 3):  # 1, 3 and 10 steps
        mlp_resnet.epoch(loader(tmp_path, batch_size), model, opt)
        gc.collect()
        counts.append(ndl.autograd.TENSOR_COUNTER - others)
    assert counts[0] == counts[1] == counts[2]
    assert counts[0] < 500
