"""nn.init: spreads as in PyTorch, and the weight stays the same object."""

import copy
import pickle

import numpy as np
import pytest

import needle as ndl
from needle import nn

torch = pytest.importorskip("torch")

DRAWN = [
    ("uniform_", {"a": -2.0, "b": 3.0}),
    ("normal_", {"mean": 1.0, "std": 0.02}),
    ("trunc_normal_", {}),
    ("trunc_normal_", {"mean": 1.0, "std": 2.0, "a": 0.5, "b": 4.0}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {}),
    ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", {"a": 0.3}),
    ("kaiming_normal_", {"nonlinearity": "tanh"}),
]


# How a weight is made here, and its shape in PyTorch. Fans differ much: the wrong side shows.
WEIGHTS = {
    "tensor": (lambda: ndl.empty(60, 600), (60, 600)),
    "Parameter": (lambda: nn.Parameter(ndl.ones(600, 60)), (600, 60)),
    "Linear": (lambda: nn.Linear(600, 60).weight, (60, 600)),  # (in, out) here
    "Linear.data": (lambda: nn.Linear(60, 600).weight.data, (600, 60)),
    "Linear.detach()": (lambda: nn.Linear(60, 600).weight.detach(), (600, 60)),
    "Embedding": (lambda: nn.Embedding(600, 60).weight, (600, 60)),
    "kernel": (lambda: nn.Parameter(ndl.ones(60, 40, 5, 5)), (60, 40, 5, 5)),
    "Conv2d": (lambda: nn.Conv2d(10, 160, 5).weight, (160, 10, 5, 5)),
    "Conv": (lambda: nn.Conv(10, 160, 5).weight, (160, 10, 5, 5)),  # (k, k, in, out) here
    "LSTMCell": (lambda: nn.LSTMCell(30, 200).W_ih, (800, 30)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(200, 1).in_proj_weight, (600, 200)),
    "copy": (lambda: copy.deepcopy(nn.Linear(600, 60)).weight, (60, 600)),
    "pickle": (lambda: pickle.loads(pickle.dumps(nn.Linear(600, 60))).weight, (60, 600)),
}


@pytest.mark.parametrize(("name", "options"), DRAWN)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_spread_is_pytorchs(name, options, kind):
    np.random.seed(0)
    torch.manual_seed(0)
    make, shape = WEIGHTS[kind]
    weight = make()
    theirs = torch.empty(shape)
    getattr(torch.nn.init, name)(theirs, **options)
    assert getattr(nn.init, name)(weight, **options) is weight
    found = weight.numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.std(), theirs.std().item(), rtol=0.01)
    np.testing.assert_allclose(found.mean(), theirs.mean().item(), atol=0.02 * found.std() + 1e-3)
    np.testing.assert_allclose(np.abs(found).max(), theirs.abs().max().item(), rtol=0.25)


def test_constants():
    weight = nn.Parameter(ndl.tensor(np.zeros((2, 3))))
    assert nn.init.ones_(weight).numpy().sum() == 6 and weight.dtype == "float64"
    assert nn.init.constant_(weight, 0.5).numpy().sum() == 3
    assert nn.init.zeros_(weight).numpy().sum() == 0


def test_doubles_get_all_their_digits():
    weight = nn.Parameter(ndl.zeros(3, dtype="float64"))
    assert nn.init.constant_(weight, 0.1).numpy().tolist() == [0.1] * 3
    for fill in (nn.init.uniform_, nn.init.normal_):
        drawn = fill(weight).numpy()
        assert (drawn != drawn.astype(np.float32)).any()


@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "kaiming_normal_"])
def test_a_weight_without_elements(name):
    weight = nn.Parameter(ndl.zeros(0, 0))
    assert getattr(nn.init, name)(weight) is weight


def test_draws_are_numpys_global_ones():
    np.random.seed(3)
    weight = nn.init.normal_(nn.Parameter(ndl.zeros(2, 3)), std=0.02)
    np.random.seed(3)
    expected = (np.random.randn(2, 3) * 0.02).astype("float32")
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)


def test_applied_to_a_model():
    def start(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 5)).apply(start)
    assert model[0].bias.numpy().any() == np.False_
    np.testing.assert_allclose(model[0].weight.numpy().std(), 0.02, rtol=0.1)
    assert len(model.parameters()) == 4


def test_values_go_into_the_weights_memory():
    layer = nn.Linear(3, 4)
    nn.init.constant_(layer.weight.data, 2.0)
    nn.init.ones_(layer.weight[0])
    assert layer.weight.numpy().tolist() == [[1.0] * 4, [2.0] * 4, [2.0] * 4]
    result = layer.weight * 3
    assert nn.init.zeros_(result).numpy().any() == np.False_ and layer.weight.numpy().all()


def test_a_truncated_normal_stays_between_its_bounds():
    drawn = nn.init.trunc_normal_(nn.Parameter(ndl.zeros(5000)), 2.0, 1.0, -1.0, 1.0).numpy()
    assert drawn.min() >= -1 and 0.99 < drawn.max() <= 1


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (6, 2, 3), (2, 0)])
def test_orthogonal(shape):
    weight = nn.init.orthogonal_(nn.Parameter(ndl.zeros(*shape)), gain=2.0)
    flat = weight.numpy().reshape(shape[0], -1)
    flat = flat if shape[0] <= flat.shape[1] else flat.T
    np.testing.assert_allclose(flat @ flat.T, 4 * np.eye(len(flat)), atol=1e-5)


def test_gains_are_pytorchs():
    for name in (*nn.init.GAINS, "leaky_relu"):
        assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))


def test_errors():
    with pytest.raises(ValueError, match=r"\[xavier_normal_\] expected a weight with at least 2"):
        nn.init.xavier_normal_(nn.Parameter(ndl.ones(3)))
    with pytest.raises(ValueError, match=r"\[orthogonal_\] expected a weight with 2 axes or more"):
        nn.init.orthogonal_(nn.Parameter(ndl.ones(3)))
    with pytest.raises(ValueError, match=r"\[trunc_normal_\] expected a < b, and a mean at most"):
        nn.init.trunc_normal_(nn.Parameter(ndl.ones(3)), mean=9.0)
    with pytest.raises(ValueError, match=r"\[kaiming_normal_\] mode must be 'fan_in' or"):
        nn.init.kaiming_normal_(nn.Parameter(ndl.ones(3, 3)), mode="fan")
    with pytest.raises(ValueError, match=r"\[calculate_gain\] expected one of linear, .*'swish'"):
        nn.init.calculate_gain("swish")
