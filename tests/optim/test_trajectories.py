"""Every optimizer follows PyTorch's for 50 steps; Lion, which PyTorch has not, its paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needle import optim

from .problem import TOLERANCE, assert_all_close, gradients, parameters, run, run_torch, start

torch = pytest.importorskip("torch")

MATRICES = ((5, 3), (3, 7), (4, 4))

# (name, our options, PyTorch's options when they differ)
CASES: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("SGD", {"lr": 0.1}, None),
    ("SGD", {"lr": 0.1, "weight_decay": 0.02}, None),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0}, None),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}, None),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0, "nesterov": True}, None),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}, None),
    ("Adam", {"lr": 0.01}, None),
    ("Adam", {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}, None),
    ("Adam", {"lr": 0.02, "beta1": 0.7, "beta2": 0.9}, {"lr": 0.02, "betas": (0.7, 0.9)}),
    ("Adam", {"lr": 0.02, "amsgrad": True, "betas": (0.9, 0.5)}, None),
    ("AdamW", {}, None),
    ("AdamW", {"lr": 0.02, "weight_decay": 0.3, "betas": (0.8, 0.95), "eps": 1e-4}, None),
    ("AdamW", {"lr": 0.02, "amsgrad": True}, None),
    ("Adagrad", {}, None),
    (
        "Adagrad",
        {
            "lr": 0.1,
            "lr_decay": 0.05,
            "weight_decay": 0.1,
            "initial_accumulator_value": 0.5,
            "eps": 1e-6,
        },
        None,
    ),
    ("Adadelta", {}, None),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}, None),
    ("RMSprop", {}, None),
    ("RMSprop", {"lr": 0.02, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.1}, None),
    ("RMSprop", {"lr": 0.02, "centered": True, "eps": 1e-2, "momentum": 0.5}, None),
    ("Adafactor", {}, None),
    ("Adafactor", {"lr": 0.05, "beta2_decay": -0.6, "d": 1.5, "weight_decay": 0.1}, None),
    ("Adafactor", {"lr": 0.5, "eps": (1e-4, 1e-2)}, None),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name, ours, theirs", CASES)
def test_follows_pytorch(
    name: str, ours: dict[str, Any], theirs: dict[str, Any] | None, dtype: str
) -> None:
    values = start(dtype=dtype)
    steps = list(gradients(50, dtype=dtype))
    actual = run(getattr(optim, name)(parameters(values), **ours), steps)
    options = ours if theirs is None else theirs
    expected = run_torch(
        lambda params: getattr(torch.optim, name)(params, **options), values, steps
    )
    assert_all_close(actual, expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["SGD", "Adadelta", "Adagrad", "RMSprop", "AdamW", "Adafactor"])
def test_defaults_are_pytorchs(name: str) -> None:
    values = start()
    ours = getattr(optim, name)(parameters(values)).groups[0]
    theirs = getattr(torch.optim, name)([torch.zeros(2)]).param_groups[0]
    own_choice = {"SGD": {"lr", "dampening"}}.get(name, set())  # the course's
    shared = set(theirs) & {*ours, "betas"} - {"params"} - own_choice
    assert {"weight_decay"} < shared
    for option in shared:
        assert ours[option] == theirs[option], option


def exact_newton_schulz(grad: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """PyTorch's iteration in the gradient's own dtype; its own rounds to bfloat16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.02, "nesterov": False, "momentum": 0.8, "weight_decay": 0.0},
        {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
        {"lr": 0.02, "adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5)},
    ],
)
def test_muon_follows_pytorch(
    options: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("torch.optim._muon")
    monkeypatch.setattr(module, "_zeropower_via_newtonschulz", exact_newton_schulz)
    values = start(MATRICES, dtype)
    steps = list(gradients(50, MATRICES, dtype))
    actual = run(optim.Muon(parameters(values), **options), steps)
    expected = run_torch(lambda params: torch.optim.Muon(params, **options), values, steps)
    tolerance = TOLERANCE[dtype] if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    assert_all_close(actual, expected, **tolerance)


def test_muon_is_near_pytorchs_bfloat16_steps() -> None:
    pytest.importorskip("torch.optim._muon")
    values = start(MATRICES, "float32")
    steps = list(gradients(10, MATRICES, "float32"))
    actual = run(optim.Muon(parameters(values), lr=0.02), steps)
    expected = run_torch(lambda params: torch.optim.Muon(params, lr=0.02), values, steps)
    assert_all_close(actual, expected, rtol=0, atol=0.02)


def test_muon_updates_all_but_matrices_as_adamw_does() -> None:
    values = start()
    steps = list(gradients(50))
    options = {"weight_decay": 0.2, "betas": (0.8, 0.9), "eps": 1e-6}
    muon = optim.Muon(parameters(values), lr=0.02, adamw_lr_ratio=0.1, **options)
    adamw = optim.AdamW(parameters(values), lr=0.002, **options)
    actual, expected = run(muon, steps), run(adamw, steps)
    for value, a, e in zip(values, actual, expected, strict=True):
        if value.ndim == 2:
            assert np.abs(a - e).max() > 1e-3
        else:
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-13)


def test_muon_leaves_matrices_of_a_group_to_adamw() -> None:
    values = start(MATRICES)
    steps = list(gradients(20, MATRICES))
    params = parameters(values)
    muon = optim.Muon([{"params": params[:1], "use_muon": False}, {"params": params[1:]}])
    adamw = optim.AdamW(parameters(values), betas=(0.9, 0.95), eps=1e-7, weight_decay=0.1)
    actual, expected = run(muon, steps), run(adamw, steps)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-12)
    assert np.abs(actual[1] - expected[1]).max() > 1e-3


def test_orthogonalize_brings_singular_values_near_one() -> None:
    for shape in ((6, 4), (4, 6), (5, 5)):
        (matrix,) = parameters([np.random.default_rng(1).standard_normal(shape)])
        result = optim.muon.orthogonalize(matrix, (3.4445, -4.7750, 2.0315)).numpy()
        singular = np.linalg.svd(result, compute_uv=False)
        assert singular.min() > 0.4 and singular.max() < 1.3
        u, _, vt = np.linalg.svd(matrix.numpy(), full_matrices=False)
        assert np.linalg.norm(result - u @ vt, 2) < 0.6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lion_is_its_papers_formula(decay: float, dtype: str) -> None:
    values = start(dtype=dtype)
    steps = list(gradients(50, dtype=dtype))
    actual = run(optim.Lion(parameters(values), 0.01, (0.8, 0.95), decay), steps)
    expected = [value.copy() for value in values]
    averages = [np.zeros_like(value) for value in values]
    for grads in steps:
        for i, g in enumerate(grads):
            m, p = averages[i], expected[i]
            expected[i] = p - 0.01 * (np.sign(0.8 * m + (1 - 0.8) * g) + decay * p)
            averages[i] = 0.95 * m + (1 - 0.95) * g
    expected = [np.asarray(value, dtype) for value in expected]
    assert_all_close(actual, expected, **TOLERANCE[dtype])
