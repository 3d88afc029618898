"""Optimizers' and schedulers' trajectories are PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import needle.torch as ours

theirs = pytest.importorskip("torch")

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.01}),
    ("Adamax", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adadelta", {}),
    ("ASGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.01}),
    ("Adafactor", {"lr": 0.01}),
]


def train(torch: Any, name: str, options: dict[str, Any], steps: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    saved = optimizer.state_dict()
    return {
        "losses": losses, "groups": saved["param_groups"], "text": repr(optimizer),
        "state": {k: np.array(v.tolist()) for k, v in saved["state"].get(0, {}).items() if
                  hasattr(v, "tolist")},
    }  # fmt: skip


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_trajectories(name: str, options: dict[str, Any]) -> None:
    own, reference = train(ours, name, options, 12), train(theirs, name, options, 12)
    np.testing.assert_allclose(own["losses"], reference["losses"], rtol=2e-4, atol=1e-5)
    assert own["text"] == reference["text"]
    assert own["groups"] == reference["groups"]
    assert list(own["state"]) == list(reference["state"])
    for key, value in reference["state"].items():
        np.testing.assert_allclose(own["state"][key], value, rtol=2e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search: str | None) -> None:
    options = {"lr": 0.5, "line_search_fn": search, "max_iter": 8}
    own, reference = train(ours, "LBFGS", options, 2), train(theirs, "LBFGS", options, 2)
    np.testing.assert_allclose(own["losses"], reference["losses"], rtol=2e-3)


SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5]}),
    ("ConstantLR", {}),
    ("LinearLR", {}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "three_phase": True}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 4, "mode": "triangular2"}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
]


@pytest.mark.parametrize(("name", "options"), SCHEDULERS)
def test_schedules(name: str, options: dict[str, Any]) -> None:
    def rates(torch: Any) -> list[tuple[float, ...]]:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
        group, found = optimizer.param_groups[0], []
        for _ in range(18):
            optimizer.step()
            scheduler.step()
            found.append((group["lr"], group["momentum"], scheduler.get_last_lr()[0]))
        return found

    np.testing.assert_allclose(rates(ours), rates(theirs), rtol=1e-12)


def test_schedules_together() -> None:
    def rates(torch: Any) -> list[float]:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        kinds, found = torch.optim.lr_scheduler, []
        parts = [
            kinds.LinearLR(optimizer, 0.1, total_iters=4),
            kinds.CosineAnnealingLR(optimizer, 10),
        ]
        scheduler = kinds.SequentialLR(optimizer, parts, [4])
        for _ in range(18):
            optimizer.step()
            scheduler.step()
            found.append(optimizer.param_groups[0]["lr"])
        plateau = kinds.ReduceLROnPlateau(optimizer, patience=1)
        for metric in [1, 0.9, 0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8]:
            plateau.step(metric)
            found.append(optimizer.param_groups[0]["lr"])
        swa = torch.optim.swa_utils.SWALR(optimizer, 0.05, anneal_epochs=3)
        for _ in range(6):
            optimizer.step()
            swa.step()
            found.append(optimizer.param_groups[0]["lr"])
        return found

    np.testing.assert_allclose(rates(ours), rates(theirs), rtol=1e-12)


def test_resuming() -> None:
    """A loaded state goes on as the first optimizer does."""
    first = ours.nn.Parameter(ours.ones(3))
    one = ours.optim.Adam([first], lr=0.1)
    for _ in range(3):
        first.grad = first.detach() * 2
        one.step()
    second = ours.nn.Parameter(first.detach().clone())
    other = ours.optim.Adam([second], lr=0.5)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for parameter, optimizer in ((first, one), (second, other)):
        parameter.grad = ours.ones(3)
        optimizer.step()
    assert ours.equal(first, second)
