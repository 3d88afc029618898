"""The course's apps: names, the first homework, ResNet9 and CIFAR-10 training."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from apps import models, simple_ml

import needle as ndl
from needle import nn
from tests.data.files import write_cifar10, write_mnist

ROOT = Path(__file__).parents[2]
HW0 = ROOT / "apps" / "hw0"
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def run(code: str, folder: Path, backend: str = "nd") -> str:
    """What a new interpreter prints in a folder; it must not complain."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={**os.environ, "NEEDLE_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Names that the suites import, from a folder with apps/ in it -------------------------------------

COURSE_PATHS = "import sys; sys.path += ['./python', './apps', './src', '.']\n"


@pytest.fixture
def homework(tmp_path: Path) -> Path:
    """The layout of a homework: apps/, and hw0's files in src/."""
    (tmp_path / "apps").symlink_to(ROOT / "apps")
    (tmp_path / "src").symlink_to(HW0)
    return tmp_path


@pytest.mark.parametrize(
    "backend, module, names",
    [
        ("np", "simple_ml", "parse_mnist softmax_loss nn_epoch loss_err"),
        ("np", "mlp_resnet", "ResidualBlock MLPResNet epoch train_mnist"),
        ("nd", "simple_ml", "train_ptb evaluate_ptb train_cifar10 evaluate_cifar10"),
    ],
)
def test_star_imports(homework: Path, backend: str, module: str, names: str) -> None:
    listed = ", ".join(names.split())
    code = f"from {module} import *\nassert all(map(callable, ({listed})))\n"
    run(COURSE_PATHS + code, homework, backend)


def test_models_import_under_both_names(homework: Path) -> None:
    code = "from apps.models import ResNet9\nfrom models import LanguageModel, ResNet9 as Same\n"
    code += "from simple_ml import *\nassert ResNet9.__name__ == Same.__name__"
    run(COURSE_PATHS + code, homework)


def test_hw0_has_its_own_simple_ml(homework: Path) -> None:
    names = "add parse_mnist softmax_loss softmax_regression_epoch nn_epoch loss_err"
    code = "import sys; sys.path.insert(0, './src')\nfrom simple_ml import *\n"
    code += "from simple_ml_ext import *\nassert 'needle' not in sys.modules\n"
    run(code + "\n".join([*names.split(), "softmax_regression_epoch_cpp"]), homework)


def test_linear_networks_over_numpy_arrays() -> None:
    """test_apps_mlp.py once more, as hw1 and hw2 run."""
    tests = Path(__file__).with_name("test_apps_mlp.py")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        cwd=ROOT,
        env={**os.environ, "NEEDLE_BACKEND": "np"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-3000:]


# hw0: plain NumPy, and one epoch in C++ -----------------------------------------------------------

hw0 = load(HW0 / "simple_ml.py", "hw0_simple_ml")


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (53, 9), y (53,), theta (9, 4)"""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((53, 9)).astype(np.float32)
    return X, rng.integers(0, 4, 53).astype(np.uint8), np.zeros((9, 4), np.float32)


def probabilities(Z: np.ndarray) -> np.ndarray:
    return np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


def regression(X: np.ndarray, y: np.ndarray, theta: np.ndarray, lr: float, batch: int):
    """Softmax regression by SGD, sample by sample within a batch."""
    theta = theta.astype(np.float64)
    for i in range(0, len(X), batch):
        part = range(i, min(i + batch, len(X)))
        errors = [
            probabilities(X[j : j + 1] @ theta)[0] - np.eye(theta.shape[1])[y[j]] for j in part
        ]
        step = sum(np.outer(X[j], error) for j, error in zip(part, errors, strict=True))
        theta = theta - lr * step / len(part)
    return theta


def test_hw0_add() -> None:
    assert hw0.add(5, 6) == 11
    np.testing.assert_array_equal(hw0.add(np.array([1, 2]), np.array([5, 6])), [6, 8])


def test_hw0_parse_mnist(tmp_path: Path) -> None:
    pixels, labels = write_mnist(tmp_path, 12)
    images = str(tmp_path / "train-images-idx3-ubyte.gz")
    X, y = hw0.parse_mnist(images, str(tmp_path / "train-labels-idx1-ubyte.gz"))
    assert (X.shape, X.dtype, y.dtype) == ((12, 784), np.float32, np.uint8)
    assert X.min() >= 0 and X.max() <= 1
    np.testing.assert_allclose(X, pixels.reshape(12, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(y, labels)


def test_hw0_loss_and_error(problem) -> None:
    _, y, _ = problem
    Z = np.random.default_rng(1).standard_normal((53, 4)).astype(np.float32)
    expected = np.mean([-np.log(probabilities(Z)[i, label]) for i, label in enumerate(y)])
    np.testing.assert_allclose(hw0.softmax_loss(Z, y), expected, **CLOSE)
    np.testing.assert_allclose(hw0.softmax_loss(np.zeros((10, 4)), y[:10]), np.log(4))
    loss, error = hw0.loss_err(Z, y)
    np.testing.assert_allclose(loss, expected, **CLOSE)
    assert error == np.mean([Z[i].argmax() != y[i] for i in range(53)])


@pytest.mark.parametrize("lr, batch", [(0.1, 53), (0.5, 10)])
def test_hw0_softmax_regression_changes_theta_in_place(problem, lr: float, batch: int) -> None:
    X, y, theta = problem
    assert hw0.softmax_regression_epoch(X, y, theta, lr=lr, batch=batch) is None
    np.testing.assert_allclose(theta, regression(X, y, np.zeros((9, 4)), lr, batch), **CLOSE)


def test_hw0_two_layers_change_in_place(problem) -> None:
    X, y, _ = problem
    rng = np.random.default_rng(2)
    W1, W2 = rng.standard_normal((9, 7)) / 3, rng.standard_normal((7, 4)) / 3
    expected1, expected2 = W1.copy(), W2.copy()
    assert hw0.nn_epoch(X, y, W1, W2, lr=0.2, batch=20) is None
    for i in range(0, 53, 20):
        part = X[i : i + 20]
        hidden = np.maximum(part @ expected1, 0)
        G = (probabilities(hidden @ expected2) - np.eye(4)[y[i : i + 20]]) / len(part)
        step1 = part.T @ ((G @ expected2.T) * (hidden > 0))
        expected1, expected2 = expected1 - 0.2 * step1, expected2 - 0.2 * hidden.T @ G
    np.testing.assert_allclose(W1, expected1, **CLOSE)
    np.testing.assert_allclose(W2, expected2, **CLOSE)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """hw0's extension, built by its Makefile in a copy of the folder."""
    if shutil.which("make") is None or shutil.which("c++") is None:
        pytest.skip("no compiler")
    folder = tmp_path_factory.mktemp("hw0")
    for source in HW0.iterdir():
        if source.is_file() and source.suffix != ".so":
            shutil.copy(source, folder)
    subprocess.run(["make", "-s", "-C", str(folder)], check=True, capture_output=True)
    return load(folder / "simple_ml_ext.py", "hw0_simple_ml_ext")


@pytest.mark.parametrize("lr, batch", [(0.1, 53), (0.5, 10), (1.0, 100)])
def test_hw0_epoch_in_cpp(problem, compiled: ModuleType, lr: float, batch: int) -> None:
    X, y, theta = problem
    compiled.softmax_regression_epoch_cpp(X, y, theta, lr, batch)
    np.testing.assert_allclose(theta, regression(X, y, np.zeros((9, 4)), lr, batch), **CLOSE)


def test_hw0_cpp_has_the_default_arguments_of_the_numpy_one(problem, compiled) -> None:
    X, y, theta = problem
    again = theta.copy()
    compiled.softmax_regression_epoch_cpp(X, y, theta)
    hw0.softmax_regression_epoch(X, y, again)
    np.testing.assert_allclose(theta, again, **CLOSE)


def test_hw0_cpp_refuses_what_it_cannot_change_in_place(problem, compiled) -> None:
    X, y, theta = problem
    with pytest.raises(TypeError, match="float32 in C order"):
        compiled.softmax_regression_epoch_cpp(X, y, theta.astype(np.float64), 0.1, 10)
    with pytest.raises(ValueError, match="shapes differ"):
        compiled.softmax_regression_epoch_cpp(X, y[:-1], theta, 0.1, 10)
    with pytest.raises(ValueError, match="batch"):
        compiled.softmax_regression_epoch_cpp(X, y, theta, 0.1, 0)


def test_hw0_cpp_says_how_to_build_it(tmp_path: Path, problem) -> None:
    shutil.copy(HW0 / "simple_ml_ext.py", tmp_path)
    unbuilt = load(tmp_path / "simple_ml_ext.py", "hw0_unbuilt")
    with pytest.raises(ImportError, match="run make in"):
        unbuilt.softmax_regression_epoch_cpp(*problem, 0.1, 10)


# hw4: ResNet9 and CIFAR-10 ------------------------------------------------------------------------


@pytest.mark.parametrize("device", [ndl.cpu(), ndl.cpu_numpy()], ids=str)
def test_resnet9(device) -> None:
    model = models.ResNet9(device=device)
    assert sum(p.size for p in model.parameters()) == 431946
    x = ndl.Tensor(np.random.randn(2, 3, 32, 32), device=device)
    y = model(x)
    assert (y.shape, y.device, y.dtype) == ((2, 10), device, "float32")
    y.sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.shape == p.shape, name
        assert np.isfinite(p.grad.numpy()).all(), name


def test_resnet9_has_its_convolutions_in_order() -> None:
    convs = [m for _, m in models.ResNet9().named_modules() if isinstance(m, nn.Conv)]
    shapes = [(c.in_channels, c.out_channels, c.kernel_size, c.stride) for c in convs]
    pairs = [[(32, 32, 3, 1)] * 2, [(128, 128, 3, 1)] * 2]
    first, second = [(3, 16, 7, 4), (16, 32, 3, 2)], [(32, 64, 3, 2), (64, 128, 3, 2)]
    assert shapes == [*first, *pairs[0], *second, *pairs[1]]


def test_residual_pairs_of_resnet9_add_their_input() -> None:
    blocks = models.ResNet9().eval().model.modules
    assert [i for i, b in enumerate(blocks) if isinstance(b, nn.Residual)] == [2, 5]
    x = ndl.randn(1, 32, 4, 4)
    np.testing.assert_allclose(blocks[2](x).numpy(), blocks[2].fn(x).numpy() + x.numpy(), rtol=1e-6)


@pytest.fixture
def cifar(tmp_path: Path) -> ndl.data.DataLoader:
    """50 images in batches of 20, 20 and 10."""
    write_cifar10(tmp_path)
    return ndl.data.DataLoader(ndl.data.CIFAR10Dataset(str(tmp_path), train=True), 20)


def small_network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 16), nn.ReLU(), nn.Linear(16, 10))


def test_evaluate_cifar10(cifar) -> None:
    model = small_network()
    accuracy, loss = simple_ml.evaluate_cifar10(model, cifar)
    assert not model.training
    data = cifar.dataset
    logits = model(ndl.Tensor(data.X)).numpy()
    assert accuracy == (logits.argmax(axis=1) == data.y).mean()
    picked = probabilities(logits.astype(np.float64))[np.arange(50), data.y]
    np.testing.assert_allclose(loss, -np.log(picked).mean(), **CLOSE)


def test_train_cifar10_learns_and_is_seeded(cifar) -> None:
    def train(seed: int) -> tuple[float, float, float]:
        np.random.seed(1)
        model = small_network()
        np.random.seed(seed)
        options = {"n_epochs": 12, "optimizer": ndl.optim.Adam, "lr": 0.002}
        shuffled = ndl.data.DataLoader(cifar.dataset, 10, shuffle=True)
        accuracy, loss = simple_ml.train_cifar10(model, shuffled, **options)
        assert model.training
        return accuracy, loss, np.random.rand()

    first = train(11)
    assert first == train(12)
    assert first[0] > 0.5 and first[1] < 2.3


def test_cifar10_functions_seed_the_generator(cifar) -> None:
    np.random.seed(99)
    simple_ml.evaluate_cifar10(small_network(), cifar)
    after = np.random.rand()
    np.random.seed(4)
    assert after == np.random.rand()


def test_train_cifar10_of_resnet9_keeps_the_number_of_tensors(cifar) -> None:
    model = models.ResNet9()
    counts = []
    for batch_size in (50, 10):  # 1 and 5 steps
        loader = ndl.data.DataLoader(cifar.dataset, batch_size)
        accuracy, loss = simple_ml.train_cifar10(model, loader, lr=0.001, weight_decay=0.001)
        assert 0 <= accuracy <= 1 and 0 < loss < 10
        gc.collect()
        counts.append(ndl.autograd.TENSOR_COUNTER)
    assert counts[0] == counts[1]
