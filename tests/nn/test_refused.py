"""Uses that PyTorch refuses, since their result would be silently wrong: so does needle."""

import math

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn

nan, inf = math.nan, math.inf


def by_each_way(function, *args):
    """The errors of a function in eager mode, compiled, and compiled call by call."""
    for call in (function, ndl.jit(function), ndl.jit(function, fuse=False)):
        with pytest.raises(ValueError) as caught:
            call(*args)
        yield caught.value


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("which", ["inputs", "targets"])
@pytest.mark.parametrize(
    ("value", "told"),
    [(1.5, "1.5"), (-0.25, "-0.25"), (nan, "nan"), (inf, "1048576 or beyond"), (-inf, "-1048576")],
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 400)])
def test_probabilities(dtype, which, value, told, shape):
    numbers = np.full(shape, 0.5)
    wrong = numbers.copy()
    wrong.flat[-1] = value
    p, t = (wrong, numbers) if which == "inputs" else (numbers, wrong)
    p, t = ndl.tensor(p, dtype=dtype), ndl.tensor(t, dtype=dtype)
    for error in by_each_way(lambda p, t: F.binary_cross_entropy(p, t, reduction="none"), p, t):
        expected = f"[binary_cross_entropy] expected {which} from 0 to 1, got {told}"
        assert str(error).startswith(expected)


def test_probabilities_of_other_layouts_and_kinds():
    p = ndl.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 1.25]])
    ones = ndl.ones(3, 2)
    loss = nn.BCELoss(reduction="sum")
    for x in (p.transpose(), p.transpose()[::-1], p[1:2, 2:].broadcast_to((3, 2))):
        with pytest.raises(ValueError, match=r"expected inputs from 0 to 1, got 1.25"):
            loss(x, ones)
    with pytest.raises(ValueError, match=r"expected targets from 0 to 1, got 2;"):
        F.binary_cross_entropy(ndl.tensor([0.5]), ndl.tensor([2]))
    np.testing.assert_allclose(loss(p[:, :2].transpose()[:2], ones[:2]).item(), 5.52146, rtol=1e-5)
    edges = F.binary_cross_entropy(ndl.tensor([0.0, 1.0]), ndl.tensor([1.0, 1.0]), reduction="none")
    assert edges.tolist() == [100, 0]
    assert F.binary_cross_entropy(ndl.zeros(0), ndl.zeros(0), reduction="sum").item() == 0


def test_a_probability_that_leaves_its_range_in_a_compiled_step():
    """The check is part of the program: it is made in each call."""
    w = nn.Parameter(ndl.tensor([0.5]))

    @ndl.jit
    def step(x):
        loss = F.binary_cross_entropy(w * x, ndl.ones(1))
        loss.backward()
        return loss

    assert step(ndl.ones(1)).item() == pytest.approx(math.log(2))
    before = w.grad.numpy()
    with pytest.raises(ValueError, match=r"got 1.5; .*\n.*test_refused.py:\d+: loss = F.binary"):
        step(ndl.ones(1) * 3)
    assert (w.grad.numpy() == before).all()


LOSSES = [
    (lambda x: F.cross_entropy(x, x.long()), TypeError, "expected probabilities as floats"),
    (lambda x: F.cross_entropy(x, x, ignore_index=1), ValueError, "no ignore_index beside prob"),
    (lambda x: F.cross_entropy(x, x[:, 0].long(), label_smoothing=nan), ValueError, "label_smooth"),
    (lambda x: F.huber_loss(x, x, delta=nan), ValueError, "expected delta > 0, got nan"),
    (lambda x: F.huber_loss(x, x, delta=0), ValueError, "expected delta > 0, got 0"),
    (lambda x: F.smooth_l1_loss(x, x, beta=-1), ValueError, "expected beta >= 0, got -1"),
    (lambda x: F.smooth_l1_loss(x, x, beta=nan), ValueError, "expected beta >= 0, got nan"),
    (lambda x: F.triplet_margin_loss(x, x, x, 0.0), ValueError, "expected margin > 0, got 0.0"),
    (lambda x: nn.TripletMarginLoss(-1.0)(x, x, x), ValueError, "expected margin > 0, got -1.0"),
    (lambda x: F.nll_loss(x, ndl.tensor([0, 3])), IndexError, "class ids from 0 to 2, got 3"),
    (lambda x: F.nll_loss(x, ndl.tensor([-1, 2])), IndexError, "class ids from 0 to 2, got -1"),
    (lambda x: F.mse_loss(x, x[:, 0]), ValueError, "input and target of one shape"),
]


@pytest.mark.parametrize(("call", "error", "words"), LOSSES)
def test_losses(call, error, words):
    with pytest.raises(error, match=words):
        call(ndl.rand(2, 3))


NORMS = [
    (nn.BatchNorm1d, (1, 3)), (nn.BatchNorm1d, (1, 3, 1)), (nn.BatchNorm2d, (1, 3, 1, 1)),
    (nn.BatchNorm3d, (1, 3, 1, 1, 1)), (nn.BatchNorm1d, (0, 3)),
    (nn.InstanceNorm1d, (2, 3, 1)), (nn.InstanceNorm2d, (2, 3, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "shape"), NORMS)
@pytest.mark.parametrize("track", [True, False])
def test_statistics_of_one_value(kind, shape, track):
    """Its deviation is 0, and the result the bias, whatever came."""
    layer = kind(3, track_running_stats=track)
    before = {name: t.numpy() for name, t in layer.state_dict().items()}
    words = "expected more than (1|one) value per channel"
    with pytest.raises(ValueError, match=words):
        layer(ndl.ones(*shape))
    assert all((t.numpy() == before[name]).all() for name, t in layer.state_dict().items())
    if track:
        assert layer.eval()(ndl.ones(*shape)).shape == shape
    else:
        with pytest.raises(ValueError, match=words):
            layer.eval()(ndl.ones(*shape))
    two = (2, *shape[1:-1], 2) if len(shape) > 2 else (2, 3)
    assert layer.train()(ndl.rand(*two)).shape == two


def test_groups_of_one_value():
    with pytest.raises(ValueError, match=r"\[group_norm\] expected more than one value per group"):
        nn.GroupNorm(3, 3)(ndl.ones(1, 3))
    assert nn.GroupNorm(3, 3)(ndl.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.InstanceNorm1d])
@pytest.mark.parametrize("eps", [0.0, -1e-5, nan])
@pytest.mark.parametrize("training", [True, False])
def test_eps(kind, eps, training):
    layer = kind(3, eps=eps, track_running_stats=True).train(training)
    with pytest.raises(ValueError, match=r"norm\] expected eps > 0, got"):
        layer(ndl.rand(2, 3, 4))


@pytest.mark.parametrize("factor", [nan, inf, -inf, 0, -1, 1e-9, (2, nan), (2,), "2", ("a", "b")])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_factors_of_interpolation(factor, mode):
    for call in (
        lambda x: F.interpolate(x, scale_factor=factor, mode=mode),
        lambda x: nn.Upsample(scale_factor=factor, mode=mode)(x),
    ):
        with pytest.raises(ValueError, match=r"\[interpolate\] scale_factor must be a number or 2"):
            call(ndl.ones(1, 1, 4, 4))


CELLS = [nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell]


@pytest.mark.parametrize("kind", CELLS)
def test_sizes_of_recurrent_layers(kind):
    for sizes, name in (((0, 3), "input_size"), ((3, 0), "hidden_size"), ((-1, 3), "input_size")):
        with pytest.raises(ValueError, match=f"expected {name} >= 1, got"):
            kind(*sizes)
    with pytest.raises(TypeError, match=r"hidden_size must be a whole number, got 2.0"):
        kind(3, 2.0)


@pytest.mark.parametrize("kind", CELLS[:3])
@pytest.mark.parametrize("option", ["bias", "batch_first", "bidirectional"])
@pytest.mark.parametrize("value", ["False", 0, 1, None])
def test_choices_of_recurrent_layers(kind, option, value):
    with pytest.raises(TypeError, match="expected True or False as bias, batch_first and"):
        kind(2, 3, **{option: value})


OTHERS = [
    (lambda x: x.uniform_(2.0, 1.0), r"\[uniform_\] expected low <= high, got 2.0 and 1.0"),
    (lambda x: x.uniform_(nan, 1.0), r"\[uniform_\] expected low <= high"),
    (lambda x: x.normal_(0.0, -1.0), r"\[normal_\] expected std >= 0, got -1.0"),
    (lambda x: x.normal_(0.0, nan), r"\[normal_\] expected std >= 0, got nan"),
    (lambda x: x.exponential_(0.0), r"\[exponential_\] expected lambd > 0, got 0.0"),
    (lambda x: x.exponential_(-1.0), r"\[exponential_\] expected lambd > 0, got -1.0"),
    (lambda x: x.bernoulli_(1.5), r"\[bernoulli_\] expected a probability from 0 to 1, got 1.5"),
    (lambda x: x.bernoulli_(nan), r"\[bernoulli_\] expected a probability from 0 to 1, got nan"),
    (lambda x: nn.init.normal_(x, std=-1.0), r"\[normal_\] expected std >= 0, got -1.0"),
    (lambda x: nn.init.uniform_(x, 1.0, 0.0), r"\[uniform_\] expected a <= b, got 1.0 and 0.0"),
    (lambda x: F.hardtanh(x, 1.0, -1.0), r"\[hardtanh\] expected min_val <= max_val, got 1.0"),
    (lambda x: F.dropout(x, nan), r"\[dropout\] expected a probability between 0 and 1"),
    (lambda x: ndl.isclose(x, x, rtol=-1.0), r"\[isclose\] expected tolerances >= 0"),
    (lambda x: ndl.allclose(x, x, atol=nan), r"\[isclose\] expected tolerances >= 0"),
    (lambda x: F.embedding(x, ndl.tensor([1, 2])), r"\[embedding\] expected ids and a weight"),
    (lambda x: F.embedding(ndl.ones(2, 3, 4), x[0]), r"\[embedding\] .*are they in another order"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), OTHERS)
def test_other_ranges(call, words):
    x = ndl.rand(2, 3)
    before = x.numpy()
    with pytest.raises(ValueError, match=words):
        call(x)
    assert (x.numpy() == before).all()
