"""Every schedule gives PyTorch's sequence of rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from needle import Tensor, optim

STEPS = 40


def make_ours(kind: str = "SGD") -> optim.Optimizer:
    groups = [{"params": [Tensor([1.0])], "lr": 0.4}, {"params": [Tensor([1.0])]}]
    return getattr(optim, kind)(groups, lr=0.1)


def make_theirs(kind: str = "SGD") -> Any:
    torch = pytest.importorskip("torch")
    groups = [{"params": [torch.zeros(1)], "lr": 0.4}, {"params": [torch.zeros(1)]}]
    return getattr(torch.optim, kind)(groups, lr=0.1)


def rates(optimizer: Any, scheduler: Any, steps: int) -> np.ndarray:
    """(steps + 1, groups): the rates before each step."""
    sequence = [[group["lr"] for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        sequence.append([group["lr"] for group in optimizer.param_groups])
        assert scheduler.get_last_lr() == sequence[-1]
    return np.array(sequence)


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "step": lambda s, o: s.StepLR(o, 7, gamma=0.3),
    "multistep": lambda s, o: s.MultiStepLR(o, [20, 5, 9, 9], gamma=0.5),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.93),
    "linear": lambda s, o: s.LinearLR(o),
    "linear down": lambda s, o: s.LinearLR(o, 1.0, 0.25, total_iters=11),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, STEPS),
    "cosine, several periods": lambda s, o: s.CosineAnnealingLR(o, 8, eta_min=0.01),
    "cosine to zero and back": lambda s, o: s.CosineAnnealingLR(o, 10),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, eta_min=0.01),
    "longer and longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, T_mult=2),
    "polynomial": lambda s, o: s.PolynomialLR(o, 17, power=0.9),
    "lambda": lambda s, o: s.LambdaLR(o, lambda t: 1 / (1 + t)),
    "lambda from zero": lambda s, o: s.LambdaLR(o, [lambda t: t / 9, lambda t: 0.9**t]),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.5, STEPS + 1, cycle_momentum=False),
    "one cycle, linear": lambda s, o: s.OneCycleLR(
        o,
        [0.5, 0.3],
        epochs=6,
        steps_per_epoch=7,
        pct_start=0.4,
        anneal_strategy="linear",
        div_factor=10.0,
        final_div_factor=100.0,
        three_phase=True,
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=6), s.CosineAnnealingLR(o, 20)], [6]
    ),
    "three in sequence": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9), s.StepLR(o, 5)],
        milestones=[4, 15],
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, total_iters=6), s.ExponentialLR(o, 0.9), s.StepLR(o, 10)]
    ),
}
every_schedule = pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES.keys())


@every_schedule
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_rates_are_pytorchs(make: Callable[[Any, Any], Any], kind: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = make_ours(kind), make_theirs(kind)
    actual = rates(ours, make(optim, ours), STEPS)
    expected = rates(theirs, make(torch.optim.lr_scheduler, theirs), STEPS)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind, name", [("SGD", "momentum"), ("Adam", "betas")])
@pytest.mark.parametrize("three_phase", [False, True])
def test_one_cycle_moves_momentum_as_pytorch_does(kind: str, name: str, three_phase: bool) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = make_ours(kind), make_theirs(kind)
    options = {"max_lr": 0.5, "total_steps": 30, "three_phase": three_phase, "pct_start": 0.25}
    own = optim.OneCycleLR(ours, **options)
    other = torch.optim.lr_scheduler.OneCycleLR(theirs, **options)
    for _ in range(29):
        for a, e in zip(ours.groups, theirs.param_groups, strict=True):
            np.testing.assert_allclose(a[name], e[name], rtol=1e-12)
        ours.step()
        theirs.step()
        own.step()
        other.step()


@every_schedule
def test_a_loaded_schedule_continues(make: Callable[[Any, Any], Any]) -> None:
    optimizer = make_ours()
    straight = rates(optimizer, make(optim, optimizer), 20)
    first = make_ours()
    scheduler = make(optim, first)
    rates(first, scheduler, 8)
    second = make_ours()
    resumed = make(optim, second)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    np.testing.assert_array_equal(rates(second, resumed, 12), straight[8:])


def test_schedulers_of_one_optimizer_can_be_stepped_side_by_side() -> None:
    torch = pytest.importorskip("torch")

    def run(module: Any, optimizer: Any) -> list[float]:
        both = [module.ExponentialLR(optimizer, 0.9), module.StepLR(optimizer, 4, 0.5)]
        sequence = []
        for _ in range(12):
            optimizer.step()
            for scheduler in both:
                scheduler.step()
            sequence.append(optimizer.param_groups[0]["lr"])
        return sequence

    expected = run(torch.optim.lr_scheduler, make_theirs())
    np.testing.assert_allclose(run(optim, make_ours()), expected, rtol=1e-12)


def test_a_rate_set_by_hand_stays_a_factor() -> None:
    optimizer = make_ours()
    scheduler = optim.ExponentialLR(optimizer, 0.5)
    optimizer.groups[0]["lr"] = 4.0
    scheduler.step()
    assert optimizer.groups[0]["lr"] == 2.0
    assert optimizer.groups[1]["lr"] == 0.05


def test_linear_warmup_reaches_the_rate_at_its_last_step() -> None:
    optimizer = make_ours()
    scheduler = optim.LinearWarmup(optimizer, 4)
    expected = [0.025, 0.05, 0.075, 0.1, 0.1, 0.1]
    np.testing.assert_allclose(rates(optimizer, scheduler, 5)[:, 1], expected)
    single = make_ours()
    optim.LinearWarmup(single, 1)
    assert single.lr == 0.4


def test_the_rate_is_written_into_the_optimizers_tensor() -> None:
    optimizer = make_ours()
    tensor = optimizer.groups[0].tensor("lr")
    scheduler = optim.ExponentialLR(optimizer, 0.5)
    scheduler.step()
    assert optimizer.groups[0].tensor("lr") is tensor
    assert float(tensor) == 0.2


PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2},
    {"mode": "max", "factor": 0.5, "patience": 1, "cooldown": 2},
    {"threshold": 0.3, "threshold_mode": "abs", "patience": 1, "min_lr": [0.05, 0.01]},
    {"mode": "max", "threshold": 0.2, "threshold_mode": "abs", "patience": 0, "eps": 0.03},
]


@pytest.mark.parametrize("options", PLATEAUS)
def test_plateau_is_pytorchs(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = make_ours(), make_theirs()
    own = optim.ReduceLROnPlateau(ours, **options)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    rng = np.random.default_rng(2)
    for t in range(60):
        metric = math.exp(-t / 20) + 0.1 * rng.standard_normal()
        own.step(Tensor(metric, dtype="float64"))
        other.step(metric)
        assert own.get_last_lr() == [group["lr"] for group in theirs.param_groups]
    assert ours.lr < 0.4


def test_a_loaded_plateau_continues() -> None:
    metrics = [1.0, 0.5, 0.6, 0.6, 0.6, 0.4, 0.5, 0.5, 0.5, 0.5]
    first, second = make_ours(), make_ours()
    own, other = (optim.ReduceLROnPlateau(o, patience=2) for o in (first, second))
    for metric in metrics[:4]:
        own.step(metric)
    other.load_state_dict(own.state_dict())
    second.load_state_dict(first.state_dict())
    for metric in metrics[4:]:
        own.step(metric)
        other.step(metric)
    assert own.get_last_lr() == other.get_last_lr() == pytest.approx([0.004, 0.001])


def test_mistakes_are_explained() -> None:
    optimizer = make_ours()
    with pytest.raises(TypeError, match="expected an Optimizer, got list"):
        optim.ExponentialLR([], 0.9)
    with pytest.raises(ValueError, match="load the optimizer's state"):
        optim.ExponentialLR(make_ours(), 0.9, last_epoch=3)
    with pytest.raises(ValueError, match="one lr_lambda or 2, got 3"):
        optim.LambdaLR(optimizer, [abs, abs, abs])
    with pytest.raises(ValueError, match="step_size must be at least 1"):
        optim.StepLR(optimizer, 0)
    with pytest.raises(ValueError, match=r"T_0 and T_mult must be at least 1, got 0 and 1"):
        optim.CosineAnnealingWarmRestarts(make_ours("SGD"), 0)
    with pytest.raises(ValueError, match=r"start_factor must be in \(0, 1\]"):
        optim.LinearLR(optimizer, start_factor=2.0)
    with pytest.raises(ValueError, match="total_steps, or epochs"):
        optim.OneCycleLR(optimizer, 0.1)
    with pytest.raises(ValueError, match="Adagrad has no momentum"):
        optim.OneCycleLR(make_ours("Adagrad"), 0.1, 10)
    with pytest.raises(ValueError, match="expected factor < 1"):
        optim.ReduceLROnPlateau(optimizer, factor=1.5)
    step = optim.StepLR(optimizer, 3)
    with pytest.raises(ValueError, match="expected 0 milestones for 1 schedulers"):
        optim.SequentialLR(optimizer, [step], [3])
    with pytest.raises(ValueError, match="of one optimizer"):
        optim.SequentialLR(make_ours(), [step], [])
    with pytest.raises(TypeError, match="got ReduceLROnPlateau"):
        optim.ChainedScheduler([step, optim.ReduceLROnPlateau(optimizer)])
    with pytest.raises(ValueError, match="at least one scheduler"):
        optim.ChainedScheduler([])
    with pytest.raises(ValueError, match="cycle_momentum=False"):
        optim.ChainedScheduler([optim.OneCycleLR(optimizer, 0.1, 10)])
    cycle = optim.OneCycleLR(optimizer, 0.1, 2)
    for _ in range(2):
        cycle.step()
    with pytest.raises(ValueError, match="after the last of total_steps=2"):
        cycle.step()


def test_a_refused_step_counts_nothing() -> None:
    optimizer = make_ours()
    schedule = optim.StepLR(optimizer, 2)
    optimizer.add_param_group({"params": [Tensor([1.0])]})
    with pytest.raises(ValueError, match=r"\[StepLR\] .* 2 groups of parameters, now there are 3"):
        schedule.step()
    assert schedule.last_epoch == 0
    cycle = optim.OneCycleLR(optimizer, 0.1, 1)
    cycle.step()
    before = cycle.get_last_lr()
    with pytest.raises(ValueError, match="after the last"):
        cycle.step()
    assert cycle.last_epoch == 1 and cycle.get_last_lr() == before
