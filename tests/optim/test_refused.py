"""What optimizers, schedules and averages refuse: each would train nothing, or something else."""

import re

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.optim import lr_scheduler

OPTIMIZERS = [
    optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.Adadelta, optim.RMSprop,
    optim.Adafactor, optim.Lion, optim.Muon,
]  # fmt: skip


def weight(*shape):
    return ndl.ones(*(shape or (2, 2)), requires_grad=True)


w = weight()


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ([w * 2], ValueError, r"\[optim\] expected leaves, got a result of MulScalar of shape"),
        ([{"params": [w[0]]}], ValueError, r"\[optim\] expected leaves, got a result of GetItem"),
        ([w, w], ValueError, "given twice"),
        ([{"params": [w]}, {"params": w}], ValueError, "given twice"),
        ([], ValueError, "expected parameters, got an empty list"),
        (w, TypeError, "expected a list of parameters, got one Tensor"),
        ([np.ones(2)], TypeError, "expected Tensors, got ndarray"),
        ([None], TypeError, "expected Tensors, got NoneType"),
        (nn.Linear(1, 1), TypeError, "expected Tensors, got Linear"),
        ([*nn.Linear(1, 1).named_parameters()], TypeError, "expected Tensors, got tuple"),
        ([{"lr": 1.0}], TypeError, 'expected a dict with "params"'),
        ([ndl.Tensor([1, 2], dtype="int32")], TypeError, "expected floating parameters, got int32"),
    ],
)
def test_parameters(kind, params, error, words):
    with pytest.raises(error, match=words):
        kind(params)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("option", ["lr", "weight_decay", "eps"])
@pytest.mark.parametrize("value", ["0.1", -1.0, float("nan"), [0.1, -1.0]])
def test_options(kind, option, value):
    if option not in kind([w]).defaults:
        return
    with pytest.raises((TypeError, ValueError), match=rf"\[optim\] {option} must be"):
        kind([weight()], **{option: value})


def test_a_group_that_is_refused_is_not_added():
    optimizer = optim.SGD([w])
    for group in ({"params": [w * 2]}, {"params": [weight()], "rate": 1.0}):
        with pytest.raises(ValueError):
            optimizer.add_param_group(group)
    assert len(optimizer.groups) == 1


def test_what_each_step_computes_anew_trains_through_its_leaf():
    """The reason: `w * 2` of one forward is not the one of the next."""
    leaf = weight(3)
    optimizer = optim.SGD([leaf], lr=0.5)
    (leaf * 2).sum().backward()
    optimizer.step()
    assert leaf.tolist() == [0, 0, 0]
    started = nn.Parameter((leaf * 2).detach())
    assert optim.SGD([started]).params == [started]


# States ------------------------------------------------------------------------------------------


def trained(kind, params=None):
    optimizer = kind(params or [weight(2, 2)])
    for p in optimizer.params:
        p.grad = ndl.ones(*p.shape)
    optimizer.step()
    return optimizer


def state_of(optimizer):
    saved = optimizer.state_dict()
    arrays = [v.numpy().tolist() for values in saved["state"].values() for v in values.values()]
    return arrays, saved["param_groups"]


FOREIGN = [
    ({"a": 1}, ValueError, "expected a state with state, param_groups, got a;"),
    ({}, ValueError, "got an empty one"),
    (None, TypeError, "expected a dict of its state, got NoneType"),
    ([1], TypeError, "expected a dict of its state, got list"),
    (nn.Linear(2, 2).state_dict(), ValueError, "got weight, bias"),
    ({"state": [], "param_groups": []}, ValueError, "'state' to be a dict of dicts, got \\[\\]"),
    ({"state": {0: 1}, "param_groups": []}, ValueError, "'state' to be a dict of dicts"),
    ({"state": {}, "param_groups": 3}, ValueError, "'param_groups' to be a list, got 3"),
    ({"state": {}, "param_groups": [{}]}, ValueError, "expected a state with params"),
    ({"state": {}, "param_groups": [5]}, TypeError, "expected a dict of its state, got int"),
    ({"state": {}, "param_groups": []}, ValueError, r"groups of \[1\] parameters, got \[\]"),
]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(("state", "error", "words"), FOREIGN)
def test_foreign_states_of_optimizers(kind, state, error, words):
    optimizer = trained(kind)
    before = state_of(optimizer)
    with pytest.raises(error, match=words):
        optimizer.load_state_dict(state)
    assert state_of(optimizer) == before


def changed(saved, **entries):
    group = {**saved["param_groups"][0], **entries.pop("group", {})}
    return {**saved, "param_groups": [group], **entries}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"group": {"lr": "fast"}}, "lr must be a number, got 'fast'"),
        ({"group": {"lr": -1.0}}, "lr must be at least 0"),
        ({"group": {"rate": 1.0}}, "expected a state with its options"),
        ({"group": {"maximize": True}}, "expected a state with its options"),
        ({"state": {7: {"step": 1}}}, r"got some of \['7'\]"),
        ({"state": {"x": {"step": 1}}}, r"got some of \['x'\]"),
        ({"state": {0: {"step": "ten"}}}, "'step' to be a number, got 'ten'"),
        ({"state": {0: {"step": 1, "exp_avg": 3}}}, "for a parameter of shape"),
        ({"state": {0: {"step": 1, "what": ndl.ones(2, 2)}}}, "for a parameter of shape"),
    ],
)
def test_damaged_states_of_optimizers(kind, entries, words):
    optimizer = trained(kind)
    before = state_of(optimizer)
    with pytest.raises((TypeError, ValueError), match=words):
        optimizer.load_state_dict(changed(optimizer.state_dict(), **entries))
    assert state_of(optimizer) == before


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("other", OPTIMIZERS)
def test_states_of_other_optimizers(kind, other):
    """An optimizer with other options, which its groups name, is another one."""
    theirs = other([weight()]).state_dict()
    own = kind([weight()])
    if own.defaults.keys() == other([w]).defaults.keys():
        own.load_state_dict(theirs)
        return
    with pytest.raises(ValueError, match=f"{kind.__name__} expected a state with its options"):
        own.load_state_dict(theirs)


def test_parameters_by_the_numbers_that_a_group_gives():
    """As in PyTorch, numbers in the state are those in "params", whatever they are."""
    source = trained(optim.Adam, [weight(2, 2), weight(3)])
    saved = source.state_dict()
    saved["state"] = {40: saved["state"][0], 7: saved["state"][1]}
    saved["param_groups"][0]["params"] = [40, 7]
    target = optim.Adam([weight(2, 2), weight(3)])
    target.load_state_dict(saved)
    assert state_of(target)[0] == state_of(source)[0]


def test_states_of_pytorchs_optimizers():
    torch = pytest.importorskip("torch")
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Adafactor", "Muon"):
        theirs = getattr(torch.optim, name)([torch.ones(2, 2, requires_grad=True)], lr=0.125)
        state = theirs.state_dict()
        own = getattr(optim, name)([weight()])
        own.load_state_dict(state)
        assert own.lr == 0.125
        with pytest.raises(ValueError, match="is it another optimizer's"):
            own.load_state_dict(changed(state, group={"maximize": True}))


SCHEDULES = [
    lambda o: lr_scheduler.StepLR(o, 3),
    lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9),
    lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9)]),
    lambda o: lr_scheduler.ReduceLROnPlateau(o),
]


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.parametrize(
    "state", [{"a": 1}, {}, None, 5, {"last_epoch": 2}, optim.SGD([w]).state_dict()]
)
def test_foreign_states_of_schedules(make, state):
    schedule = make(optim.Adam([weight()]))
    before = schedule.state_dict()
    words = rf"\[load_state_dict\] {type(schedule).__name__} expected a (state with|dict of)"
    with pytest.raises((TypeError, ValueError), match=words):
        schedule.load_state_dict(state)
    assert schedule.state_dict() == before


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"last_epoch": "x"}, "'last_epoch' to be a whole number >= 0, got 'x'"),
        ({"last_epoch": 1.5}, "'last_epoch' to be a whole number >= 0, got 1.5"),
        ({"last_epoch": -3}, "'last_epoch' to be a whole number >= 0, got -3"),
        ({"base_lrs": 0.1}, "'base_lrs' to be a list of numbers, got 0.1"),
        ({"base_lrs": ["a"]}, "'base_lrs' to be a list of numbers"),
        ({"base_lrs": []}, r"the first rates of 1 groups of parameters, got \[\]"),
        ({"base_lrs": [1, 2]}, "the first rates of 1 groups"),
    ],
)
def test_damaged_states_of_schedules(entries, words):
    schedule = lr_scheduler.StepLR(optim.SGD([weight()]), 3)
    before = schedule.state_dict()
    with pytest.raises(ValueError, match=words):
        schedule.load_state_dict({**before, **entries})
    assert schedule.state_dict() == before


@pytest.mark.parametrize(
    "state", [{"a": 1}, None, {"averages": 1, "decay": 0.5, "updates": 1},
              {"averages": [1, 2], "decay": 0.5, "updates": 1}]
)  # fmt: skip
def test_foreign_states_of_averages(state):
    average = optim.ExponentialMovingAverage(nn.Linear(2, 2))
    before = [a.numpy() for a in average.averages]
    with pytest.raises((TypeError, ValueError), match=re.escape("[load_state_dict]")):
        average.load_state_dict(state)
    assert all((a.numpy() == b).all() for a, b in zip(average.averages, before, strict=True))
    with pytest.raises(TypeError, match="expected Tensors, got ndarray"):
        optim.ExponentialMovingAverage([np.ones(2)])


@pytest.mark.parametrize("state", [{"a": 1}, 5, None, b"", {"generator": "philox"}])
def test_foreign_states_of_generators(state):
    before = ndl.get_rng_state()
    with pytest.raises((TypeError, ValueError), match=r"\[set_state\] Generator expected a"):
        ndl.Generator(3).set_state(state)
    with pytest.raises((TypeError, ValueError), match=r"\[set_state\] Generator expected a"):
        ndl.set_rng_state(state)
    numpys = {"generator": "numpy", "algorithm": "MT19937", "keys": [1, 2]}
    with pytest.raises(ValueError, match=r"\[set_rng_state\] NumPy's generator expected"):
        ndl.set_rng_state(numpys)
    assert str(ndl.get_rng_state()) == str(before)


@pytest.mark.parametrize("state", [None, 5, [], "weights.ndl"])
def test_foreign_states_of_modules(state):
    for strict in (True, False):
        with pytest.raises(TypeError, match=r"\[load_state_dict\] Linear expected a dict of its"):
            nn.Linear(2, 2).load_state_dict(state, strict=strict)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda o: lr_scheduler.ReduceLROnPlateau(5), TypeError, "expected an Optimizer, got int"),
        (lambda o: lr_scheduler.StepLR(nn.Linear(1, 1), 3), TypeError, "an Optimizer, got Linear"),
        (lambda o: lr_scheduler.LambdaLR(5, abs), TypeError, "expected an Optimizer, got int"),
        (lambda o: lr_scheduler.LambdaLR(o, 0.5), TypeError, "expected functions, got float"),
        (
            lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=float("nan")),
            ValueError,
            "factor < 1",
        ),
        (lambda o: lr_scheduler.MultiStepLR(o, "ab"), TypeError, "a milestone must be a whole num"),
        (
            lambda o: lr_scheduler.MultiStepLR(o, [1.5]),
            TypeError,
            "a milestone must be a whole num",
        ),
        (lambda o: lr_scheduler.PolynomialLR(o, 0), ValueError, "total_iters must be at least 1"),
        (lambda o: optim.Adam([weight()], betas=(0.9,)), TypeError, "betas must be a pair of num"),
        (
            lambda o: optim.AdamW([weight()], betas=0.9),
            TypeError,
            "betas must be a pair of numbers",
        ),
        (lambda o: optim.Lion([weight()], betas=(1, 2, 3)), TypeError, "betas must be a pair of"),
        (
            lambda o: optim.Muon([weight()], betas="ab "),
            TypeError,
            "betas must be a pair of number",
        ),
        (lambda o: o.param_groups[0].update(betas=3), TypeError, "betas must be a pair of numbers"),
        (
            lambda o: nn.utils.clip_grad_norm_([w], -1.0),
            ValueError,
            "expected max_norm >= 0, got -1",
        ),
        (
            lambda o: nn.utils.clip_grad_norm_([w], float("nan")),
            ValueError,
            "max_norm >= 0, got nan",
        ),
        (lambda o: nn.utils.clip_grad_value_([w], -1.0), ValueError, "clip_value >= 0, got -1"),
        (lambda o: nn.utils.clip_grad_norm_([5], 1.0), TypeError, "expected Tensors, got int"),
        (lambda o: o.clip_grad_norm(-1.0), ValueError, "expected max_norm >= 0"),
    ],
)
def test_other_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make(optim.Adam([weight()]))
