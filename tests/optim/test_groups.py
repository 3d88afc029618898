"""Parameter groups, hyperparameters as tensors, and saving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needle import Tensor, nn, optim

from .problem import (
    TOLERANCE,
    assert_all_close,
    gradients,
    parameters,
    run,
    run_torch,
    set_gradients,
    start,
)

MAKERS = {
    "SGD": lambda ps: optim.SGD(ps, 0.1, 0.9, 0.01),
    "SGD nesterov": lambda ps: optim.SGD(ps, 0.1, 0.9, dampening=0, nesterov=True),
    "Adam": lambda ps: optim.Adam(ps, 0.02, weight_decay=0.01),
    "AdamW amsgrad": lambda ps: optim.AdamW(ps, 0.02, amsgrad=True),
    "Adagrad": lambda ps: optim.Adagrad(ps, 0.1, lr_decay=0.1),
    "Adadelta": lambda ps: optim.Adadelta(ps, 0.5),
    "RMSprop": lambda ps: optim.RMSprop(ps, momentum=0.9, centered=True),
    "Adafactor": lambda ps: optim.Adafactor(ps, weight_decay=0.01),
    "Lion": lambda ps: optim.Lion(ps, 0.01),
    "Muon": lambda ps: optim.Muon(ps, 0.02),
}
every_optimizer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def two_groups(params: list[Any]) -> list[dict[str, Any]]:
    return [
        {"params": params[:2], "lr": 0.05, "weight_decay": 0.2, "betas": (0.8, 0.9)},
        {"params": params[2:]},
    ]


def test_groups_follow_pytorch() -> None:
    torch = pytest.importorskip("torch")
    values = start()
    steps = list(gradients(50))
    ours = optim.AdamW(two_groups(parameters(values)), lr=0.01)
    expected = run_torch(lambda ps: torch.optim.AdamW(two_groups(ps), lr=0.01), values, steps)
    assert_all_close(run(ours, steps), expected, **TOLERANCE["float64"])


def test_params_are_the_parameters_of_all_groups_in_order() -> None:
    params = parameters(start())
    optimizer = optim.Adam(two_groups(params))
    assert all(a is b for a, b in zip(optimizer.params, params, strict=True))
    assert optimizer.param_groups is optimizer.groups
    added = Tensor([1.0])
    optimizer.add_param_group({"params": added, "lr": 0.5})
    assert optimizer.params[-1] is added
    assert [group["lr"] for group in optimizer.groups] == [0.05, 0.01, 0.5]


def test_parameters_may_come_from_an_iterator() -> None:
    params = parameters(start())
    assert len(optim.SGD(iter(params)).params) == len(params)


def test_hyperparameters_write_into_their_tensors() -> None:
    optimizer = optim.Adam(two_groups(parameters(start())))
    group = optimizer.groups[0]
    tensors = {name: group.tensor(name) for name in ("lr", "weight_decay", "beta1", "beta2")}
    assert all(t.shape == () and t.dtype == "float64" for t in tensors.values())
    group["lr"] *= 0.5
    assert optimizer.lr == group["lr"] == float(tensors["lr"]) == 0.025
    optimizer.lr = 0.3
    assert [g["lr"] for g in optimizer.groups] == [0.3, 0.3]
    group["betas"] = (0.5, 0.6)
    assert group["betas"] == (0.5, 0.6) and float(tensors["beta2"]) == 0.6
    for name, tensor in tensors.items():
        assert group.tensor(name) is tensor
    tensors["lr"].data = Tensor(0.7, dtype="float64")
    assert group["lr"] == 0.7


def test_a_group_is_a_mapping_of_plain_values() -> None:
    (group,) = optim.SGD(parameters(start()), lr=0.1).groups
    options = {k: v for k, v in group.items() if k != "params"}
    assert options == {
        "lr": 0.1,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "dampening": None,
        "nesterov": False,
    }
    assert len(group) == 6 and "params" in group and "betas" not in group
    assert "lr=0.1" in repr(group)


def test_a_changed_rate_and_decay_take_effect() -> None:
    w = Tensor(np.ones(3), dtype="float64")
    optimizer = optim.SGD([w], lr=0.1)
    run(optimizer, [[np.zeros(3)]])
    np.testing.assert_array_equal(w.numpy(), 1.0)
    optimizer.groups[0]["weight_decay"] = 0.5
    optimizer.lr = 1.0
    run(optimizer, [[np.zeros(3)]])
    np.testing.assert_allclose(w.numpy(), 0.5, rtol=1e-15)
    optimizer.groups[0]["momentum"] = 0.5
    run(optimizer, [[np.ones(3)]])
    np.testing.assert_allclose(w.numpy(), 0.5 - 0.5 * (1 + 0.25), rtol=1e-15)


def test_state_keeps_its_tensors() -> None:
    """A compiled step holds on to these objects."""
    for name, make in MAKERS.items():
        optimizer = make(parameters(start()))
        held = {id(t) for state in optimizer.state.values() for t in state.values()}
        steps = list(gradients(4))
        run(optimizer, steps[:2])
        saved = optimizer.state_dict()
        run(optimizer, steps[2:])
        optimizer.load_state_dict(saved)
        run(optimizer, steps[2:])
        now = {id(t) for state in optimizer.state.values() for t in state.values()}
        assert now == held, name


@every_optimizer
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_loaded_state_continues_bit_identically(make: Any, dtype: str) -> None:
    values = start(dtype=dtype)
    steps: list[Any] = list(gradients(12, dtype=dtype))
    steps[2] = [None, None, *steps[2][2:]]  # step counts differ from here on
    straight = run(make(parameters(values)), steps)
    first = make(parameters(values))
    half = run(first, steps[:6])
    saved = first.state_dict()
    run(first, steps[6:])  # what was saved is a copy
    second = make(parameters(half))
    second.load_state_dict(saved)
    for a, e in zip(run(second, steps[6:]), straight, strict=True):
        np.testing.assert_array_equal(a, e)


def test_state_dict_is_made_of_tensors_and_numbers() -> None:
    params = parameters(start())
    optimizer = optim.Adam(two_groups(params))
    run(optimizer, list(gradients(2)))
    saved = optimizer.state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2, 3, 4]]
    assert saved["param_groups"][0]["lr"] == 0.05
    assert set(saved["state"]) == set(range(5))
    assert set(saved["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert float(saved["state"][3]["step"]) == 2.0
    assert all(isinstance(t, Tensor) for state in saved["state"].values() for t in state.values())


def test_loading_restores_options_and_unused_state() -> None:
    values = start()
    fresh = optim.Adam(parameters(values), lr=0.5)
    used = optim.Adam(parameters(values), lr=0.1, beta1=0.3)
    steps = list(gradients(4))
    run(used, steps[:2])
    used.load_state_dict(fresh.state_dict())
    assert (used.lr, used.groups[0]["beta1"]) == (0.5, 0.9)
    for p, value in zip(used.params, values, strict=True):
        p.data = Tensor(value, dtype="float64")
    for a, e in zip(run(used, steps), run(fresh, steps), strict=True):
        np.testing.assert_array_equal(a, e)


def test_keys_may_be_strings_as_json_makes_them() -> None:
    optimizer = optim.Adam(parameters(start()))
    run(optimizer, list(gradients(2)))
    saved = optimizer.state_dict()
    saved["state"] = {str(i): state for i, state in saved["state"].items()}
    other = optim.Adam(parameters(start()))
    other.load_state_dict(saved)
    assert float(other.state[other.params[0]]["step"]) == 2.0


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.0}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
        ("AdamW", {"lr": 0.02}),
        ("RMSprop", {"lr": 0.02, "momentum": 0.9}),
        ("Adagrad", {"lr": 0.02}),
        ("Adadelta", {"lr": 0.5}),
        ("Adafactor", {"lr": 0.02}),
    ],
)
def test_pytorchs_state_can_be_loaded(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    values = start()
    steps = list(gradients(10))
    params = [torch.nn.Parameter(torch.tensor(value)) for value in values]
    theirs = getattr(torch.optim, name)(params, **options)
    for grads in steps[:5]:
        for p, g in zip(params, grads, strict=True):
            p.grad = torch.tensor(g)
        theirs.step()
    ours = getattr(optim, name)(parameters([p.detach().numpy() for p in params]))
    ours.load_state_dict(theirs.state_dict())
    expected = run_torch(lambda ps: getattr(torch.optim, name)(ps, **options), values, steps)
    assert_all_close(run(ours, steps[5:]), expected, **TOLERANCE["float64"])


def test_frozen_parameters_have_no_state_until_they_are_used() -> None:
    frozen, trained = parameters(start()[:2])
    frozen.requires_grad = False
    optimizer = optim.Adam([frozen, trained])
    assert set(optimizer.state) == {trained}
    assert set(optimizer.state_dict()["state"]) == {1}
    set_gradients([frozen, trained], next(gradients(1))[:2])
    optimizer.step()
    assert set(optimizer.state) == {frozen, trained}


def test_mistakes_are_explained() -> None:
    params = parameters(start())
    with pytest.raises(ValueError, match="empty list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="got one Tensor"):
        optim.SGD(params[0])
    layer = nn.Linear(2, 2)
    for forgotten in (layer, layer.parameters):
        with pytest.raises(TypeError, match=r"got (Linear|method); give model\.parameters\(\)"):
            optim.SGD(forgotten)
    with pytest.raises(TypeError, match="expected Tensors, got ndarray"):
        optim.SGD([np.ones(3)])
    with pytest.raises(TypeError, match='dict with "params"'):
        optim.SGD([{"params": params[:1]}, params[1]])
    with pytest.raises(ValueError, match="given twice"):
        optim.SGD([params[0], params[0]])
    with pytest.raises(ValueError, match=r"\[Adam\] unknown options \['momentum'\]"):
        optim.Adam([{"params": params, "momentum": 0.9}])
    with pytest.raises(ValueError, match="lr must be at least 0, got -1"):
        optim.SGD(params, lr=-1)
    with pytest.raises(ValueError, match=r"beta2 must be in \[0, 1\), got 1"):
        optim.Adam(params, betas=(0.9, 1.0))
    with pytest.raises(ValueError, match=r"\[SGD\] nesterov needs momentum above 0"):
        optim.SGD(params, lr=0.1, nesterov=True)
    with pytest.raises(ValueError, match="eps must be at least 0, got -1"):
        optim.AdamW(params, eps=-1.0)
    with pytest.raises(ValueError, match="initial_accumulator_value must be at least 0"):
        optim.Adagrad(params, initial_accumulator_value=-1.0)
    with pytest.raises(ValueError, match="lr_decay must be at least 0"):
        optim.Adagrad([{"params": params, "lr_decay": float("nan")}])
    with pytest.raises(ValueError, match="adjust_lr_fn must be"):
        optim.Muon(params, adjust_lr_fn="none")
    with pytest.raises(ValueError, match="beta2_decay <= 0"):
        optim.Adafactor(params, beta2_decay=0.5)
    with pytest.raises(KeyError, match="add_param_group"):
        optim.SGD(params).groups[0]["params"] = []
    with pytest.raises(TypeError, match="define update"):
        run(optim.Optimizer(params, lr=0.1, weight_decay=0.0), list(gradients(1)))


def test_a_state_that_does_not_fit_is_refused() -> None:
    adam = optim.Adam(parameters(start()))
    run(adam, list(gradients(1)))
    with pytest.raises(ValueError, match=r"groups of \[2\] parameters, got \[5\]"):
        optim.Adam(parameters(start()[:2])).load_state_dict(adam.state_dict())
    with pytest.raises(ValueError, match="SGD expected"):
        optim.SGD(parameters(start())).load_state_dict(adam.state_dict())
    reordered = optim.Adam(parameters(start()[::-1]))
    with pytest.raises(ValueError, match="for a parameter of shape"):
        reordered.load_state_dict(adam.state_dict())


def test_a_refused_state_changes_nothing() -> None:
    values = start()
    adam = optim.Adam([{"params": parameters(values[:2])}, {"params": parameters(values[2:])}], 0.5)
    run(adam, list(gradients(1)))
    saved = adam.state_dict()
    saved["state"][4]["exp_avg"] = Tensor(np.zeros(7))
    other = optim.Adam(
        [{"params": parameters(values[:2])}, {"params": parameters(values[2:])}], 0.1
    )
    with pytest.raises(ValueError, match="for a parameter of shape"):
        other.load_state_dict(saved)
    assert [group["lr"] for group in other.groups] == [0.1, 0.1]
    assert all(not state["exp_avg"].numpy().any() for state in other.state.values())
    saved["param_groups"][1]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr must be at least 0"):
        other.load_state_dict(saved)
    assert other.groups[0]["lr"] == 0.1


@every_optimizer
def test_a_gradient_of_another_shape_is_refused(make: Any) -> None:
    w = Tensor(np.ones(3))
    optimizer = make([w])
    for shape in ((2, 3), (1,)):
        w.grad = Tensor(np.ones(shape))
        with pytest.raises(ValueError, match=r"gradient of the parameter's shape \(3,\)"):
            optimizer.step()
    assert w.shape == (3,)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_a_step_of_halves_is_that_of_float32(name: str) -> None:
    """Sums of squares over a whole matrix do not fit into float16."""
    rng = np.random.default_rng(0)
    value, grad = (rng.standard_normal((300, 300)).astype("float16") for _ in range(2))
    grad *= 100
    after = []
    for dtype in ("float16", "float32"):
        w = Tensor(value, dtype=dtype)
        w.grad = Tensor(grad, dtype=dtype)
        getattr(optim, name)([w], lr=0.5).step()
        assert w.dtype == dtype
        after.append(w.numpy().astype("float32"))
    np.testing.assert_allclose(after[0], after[1], atol=0.01)
