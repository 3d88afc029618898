"""Normalisation against PyTorch, and the one operator that all of it is made of."""

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn
from needle.ops.normalization.layer_norm import layer_norm, layer_norm_by_definition
from needle.testing import assert_close, check_grads

from .convert import (
    assert_near,
    compare,
    compare_modules,
    draw,
    in_floats,
    on_devices,
    tensors,
    torch,
)

TF = torch.nn.functional


@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 4), (1,)), ((3, 4), (0,)), ((2, 3, 4), (0, 2)), ((5,), (0,))]
)
@pytest.mark.parametrize("centred", [True, False])
def test_standardize_equals_its_composite(shape, axes, centred):
    x = ndl.tensor(draw(*shape), requires_grad=True)
    adjoints = None
    gradients = []
    for function in (layer_norm, layer_norm_by_definition):
        results = function(x, axes, 1e-3, centred)
        if adjoints is None:
            adjoints = [ndl.tensor(draw(*y.shape, seed=i)) for i, y in enumerate(results)]
            expected = results
        for a, b in zip(results, expected, strict=True):
            assert_close(a, b)
        sum((y * g).sum() for y, g in zip(results, adjoints, strict=True)).backward()
        gradients.append(x.grad)
    assert_close(*gradients)
    check_grads(lambda x: layer_norm(x, axes, 1e-3, centred), x)


@pytest.mark.parametrize(("shape", "axes"), [((3, 0), (1,)), ((0, 3), (0,)), ((0, 3), (1,))])
def test_standardize_nothing(shape, axes):
    x = ndl.zeros(*shape, requires_grad=True)
    y, mean, _ = layer_norm(x, axes, 1e-5)
    (y.sum() + mean.sum()).backward()
    assert y.shape == x.grad.shape == shape and mean.shape[axes[0]] == 1


def test_half_precision_averages_in_float32():
    x = ndl.tensor(200 + draw(2, 512), "float16")
    y, mean, var = layer_norm(x, (1,), 1e-5)
    assert y.dtype == "float16" and mean.dtype == var.dtype == "float32"
    exact = x.numpy().astype("float64")
    assert_close(mean, exact.mean(1, keepdims=True), rtol=1e-6)
    assert_close(var, exact.var(1, keepdims=True), rtol=1e-4)


@on_devices
@pytest.mark.parametrize(("dtype", "n"), [("bfloat16", 373), ("float16", 70_001)])
def test_halves_do_not_round_the_number_of_elements(dtype, n, device):
    """373 is no bfloat16, and 70,001 is too large for float16."""
    x = ndl.tensor(np.full((2, n), 1.5), device=device, dtype=dtype, requires_grad=True)
    y, mean, var = layer_norm(x, (1,), 1e-5)
    np.testing.assert_allclose(mean.numpy(), 1.5, rtol=1e-6)
    assert abs(y.numpy()).max() < 0.01 and abs(var.numpy()).max() < 1e-6
    assert abs(F.layer_norm(x, n).numpy()).max() < 0.01
    np.testing.assert_allclose(F.rms_norm(x, n).float().numpy(), 1, rtol=1e-2)
    mean.sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), 1 / n, rtol=5e-3)


def test_a_large_mean_does_not_hide_the_variance():
    """Two passes: E[x²] - E[x]² would have no digit left here."""
    x = (1e4 + draw(4, 256)).astype("float32")
    exact = TF.layer_norm(torch.tensor(x.astype("float64")), (256,))
    found = F.layer_norm(ndl.tensor(x), 256)
    assert np.abs(found.numpy() - exact.numpy()).max() < 2e-3


# Layer and RMS norm -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "normalized"), [((4, 6), (6,)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((5,), (5,))]
)
@in_floats
@on_devices
def test_layer_norm(shape, normalized, dtype, device):
    arrays = [draw(*shape), draw(*normalized, seed=1), draw(*normalized, seed=2)]

    def call(f):
        return lambda x, w, b: f(x, normalized, w, b)

    compare(call(F.layer_norm), call(TF.layer_norm), arrays, dtype, device)
    plain = [arrays[0]]
    compare(
        lambda x: F.layer_norm(x, normalized, eps=0.1),
        lambda x: TF.layer_norm(x, normalized, eps=0.1),
        plain,
        dtype,
        device,
    )


def test_layer_norm_of_halves_with_float32_parameters():
    x = ndl.tensor(draw(4, 6), "float16")
    w, b = (ndl.tensor(draw(6, seed=i), "float32") for i in range(2))
    found = F.layer_norm(x, 6, w, b)
    assert found.dtype == "float32"
    assert_close(found, layer_norm(x, (1,), 1e-5)[0] * w + b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves_are_halves(dtype):
    x = ndl.tensor(draw(4, 6), dtype=dtype, requires_grad=True)
    w, b = (ndl.tensor(draw(6, seed=i), dtype=dtype, requires_grad=True) for i in (1, 2))
    (F.layer_norm(x, 6, w, b) + F.rms_norm(x, 6, w)).sum().backward()
    assert x.grad.dtype == w.grad.dtype == b.grad.dtype == dtype


@in_floats
def test_rms_norm(dtype):
    arrays = [draw(2, 3, 4), draw(3, 4, seed=1)]
    compare(
        lambda x, w: F.rms_norm(x, (3, 4), w, 1e-4),
        lambda x, w: TF.rms_norm(x, (3, 4), w, 1e-4),
        arrays,
        dtype,
    )
    tiny = [arrays[0] * 1e-6]  # here the default eps matters
    compare(lambda x: F.rms_norm(x, 4), lambda x: TF.rms_norm(x, (4,)), tiny, dtype)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda n: n.LayerNorm(6), (4, 6)),
        (lambda n: n.LayerNorm((3, 6), eps=1e-3), (2, 3, 6)),
        (lambda n: n.LayerNorm([3, 6], elementwise_affine=False), (2, 3, 6)),
        (lambda n: n.LayerNorm(6, bias=False), (4, 6)),
        (lambda n: n.RMSNorm(6), (2, 4, 6)),
        (lambda n: n.RMSNorm((4, 6), 1e-2), (2, 4, 6)),
        (lambda n: n.RMSNorm(6, elementwise_affine=False), (4, 6)),
        (lambda n: n.GroupNorm(2, 6), (3, 6)),
        (lambda n: n.GroupNorm(3, 6), (2, 6, 5)),
        (lambda n: n.GroupNorm(6, 6, eps=1e-2), (2, 6, 3, 4)),
        (lambda n: n.GroupNorm(1, 6, affine=False), (2, 6, 3, 4)),
        (lambda n: n.InstanceNorm1d(3), (2, 3, 5)),
        (lambda n: n.InstanceNorm1d(3, affine=True), (2, 3, 5)),
        (lambda n: n.InstanceNorm2d(3, eps=1e-2), (2, 3, 4, 5)),
        (lambda n: n.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 5)),
        (lambda n: n.InstanceNorm3d(3), (2, 3, 2, 3, 2)),
    ],
)
@pytest.mark.parametrize("training", [True, False])
@in_floats
def test_module(make, shape, training, dtype):
    ours, theirs = compare_modules(make, [draw(*shape)], dtype, training=training)
    own = dict(ours.named_buffers())
    for name, buffer in theirs.named_buffers():
        if name in own:
            assert_near(own[name], buffer, name)


@on_devices
def test_layer_norm_module_on_devices(device):
    compare_modules(lambda n: n.LayerNorm(6), [draw(4, 6)], "float32", device)


def test_course_layer_norm():
    layer = nn.LayerNorm1d(6)
    x = ndl.Tensor(draw(4, 6))
    assert_close(layer(x), F.layer_norm(x, 6))


# Batch norm -------------------------------------------------------------------------------------

BATCH_SHAPES = [(8, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)]


@pytest.mark.parametrize("shape", BATCH_SHAPES, ids=str)
@pytest.mark.parametrize("training", [True, False])
@in_floats
def test_batch_norm(shape, training, dtype):
    arrays = [draw(*shape), draw(3, seed=1), draw(3, seed=2)]
    mean, their_mean = tensors(draw(3, seed=3), dtype, None, False)
    var, their_var = tensors(draw(3, seed=4, low=0.5), dtype, None, False)
    compare(
        lambda x, w, b: F.batch_norm(x, mean, var, w, b, training, 0.3, 1e-4),
        lambda x, w, b: TF.batch_norm(x, their_mean, their_var, w, b, training, 0.3, 1e-4),
        arrays,
        dtype,
    )
    assert_near(mean, their_mean, "running mean")
    assert_near(var, their_var, "running variance")


def kind_for(shape):
    return {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d", 5: "BatchNorm3d"}[len(shape)]


@pytest.mark.parametrize("shape", BATCH_SHAPES, ids=str)
@pytest.mark.parametrize("training", [True, False])
@on_devices
def test_batch_norm_module(shape, training, device):
    kind = kind_for(shape)
    ours, theirs = compare_modules(
        lambda n: getattr(n, kind)(3), [draw(*shape)], "float64", device, training=training
    )
    assert_near(ours.running_mean, theirs.running_mean)
    if not training:
        assert_near(ours.running_var, theirs.running_var)
        return
    x = draw(*shape)
    batch = x.var(axis=(0, *range(2, x.ndim)))  # biased: the course's rule
    assert_close(ours.running_var, 0.9 + 0.1 * batch)


def test_batch_norm_without_parts():
    make = lambda n: n.BatchNorm2d(3, affine=False, track_running_stats=False)  # noqa: E731
    for training in (True, False):
        ours, _ = compare_modules(make, [draw(2, 3, 4, 5)], training=training)
    assert not ours.parameters() and not ours.buffers()


def test_running_statistics_are_outside_the_graph():
    layer = nn.BatchNorm1d(3)
    layer(ndl.Tensor(draw(8, 3)))
    assert layer.running_mean.is_leaf() and not layer.running_mean.requires_grad
    before = layer.running_mean.numpy()
    layer.eval()(ndl.Tensor(draw(8, 3)))
    np.testing.assert_array_equal(layer.running_mean.numpy(), before)


def test_batch_norm_twice():
    def function(x, w):
        return F.batch_norm(x, None, None, w, training=True)

    check_grads(function, ndl.tensor(draw(4, 3)), ndl.tensor(draw(3)))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_normalize(p, dim):
    compare(lambda x: F.normalize(x, p, dim), lambda x: TF.normalize(x, p, dim), [draw(3, 4, 2)])


def test_normalize_zero():
    compare(F.normalize, TF.normalize, [np.zeros((2, 3))])
    half = F.normalize(ndl.zeros(2, 3, dtype="float16"))
    assert half.dtype == "float16" and not half.numpy().any()


# Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda x: F.layer_norm(x, 5),
            r"\[layer_norm\] .*last dimensions are \(5,\), got \(2, 3, 4\)",
        ),
        (lambda x: F.rms_norm(x, (2, 4)), r"\[rms_norm\] .*last dimensions are \(2, 4\)"),
        (lambda x: F.group_norm(x, 2), r"\[group_norm\] .*divide into 2 groups, got 3"),
        (lambda x: nn.GroupNorm(2, 3), r"\[GroupNorm\] .*got 3 channels and 2 groups"),
        (lambda x: F.batch_norm(x), r"\[batch_norm\] expected running_mean and running_var"),
        (lambda x: F.batch_norm(x[:1, :, 0], training=True), r"\[batch_norm\] .*more than 1 value"),
        (
            lambda x: F.batch_norm(x, weight=ndl.ones(4), training=True),
            r"\[batch_norm\] expected 4",
        ),
        (lambda x: F.instance_norm(x[:, :, :1]), r"\[instance_norm\] expected more than one value"),
        (
            lambda x: nn.BatchNorm1d(4)(x),
            r"\[BatchNorm1d\] expected \(batch, 4\[, L\]\), got \(2, 3, 4\)",
        ),
        (
            lambda x: nn.BatchNorm2d(3)(x),
            r"\[BatchNorm2d\] expected \(batch, 3, H, W\), got \(2, 3, 4\)",
        ),
        (lambda x: nn.LayerNorm1d(3)(x), r"\[LayerNorm1d\] expected the last dimension to be 3"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call(ndl.tensor(draw(2, 3, 4)))


@on_devices
@pytest.mark.parametrize(
    ("name", "shape"), [("BatchNorm1d", (6, 3)), ("BatchNorm2d", (2, 3, 4, 4))]
)
def test_momentum_none_averages_all_batches(name, shape, device):
    ours = getattr(nn, name)(3, momentum=None).to(device, "float64")
    theirs = getattr(torch.nn, name)(3, momentum=None).double()
    batches = [draw(*shape, seed=i) for i in range(3)]
    for batch in batches:
        ours(ndl.tensor(batch, device=device))
        theirs(torch.tensor(batch))
    np.testing.assert_allclose(ours.running_mean.numpy(), theirs.running_mean, rtol=1e-12)
    axes = (0, *range(2, len(shape)))  # the course's variance is the biased one
    expected = np.mean([batch.var(axes) for batch in batches], 0)
    np.testing.assert_allclose(ours.running_var.numpy(), expected, rtol=1e-12)
    assert ours.num_batches_tracked.item() == theirs.num_batches_tracked.item() == 3
    ours.eval()(ndl.tensor(batches[0], device=device))
    assert ours.num_batches_tracked.item() == 3


def test_instance_norm_without_momentum_keeps_its_statistics():
    ours = nn.InstanceNorm1d(3, momentum=None, track_running_stats=True)
    ours(ndl.tensor(draw(2, 3, 5), "float32"))
    assert ours.running_mean.numpy().tolist() == [0, 0, 0]  # as PyTorch does


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d])
def test_the_channels_go_by_both_names(norm):
    assert repr(norm(num_features=4)) == repr(norm(dim=4)) == repr(norm(4))
    for wrong in ({}, {"dim": 4, "num_features": 4}):
        with pytest.raises(TypeError, match=rf"\[{norm.__name__}\] expected the number of ch"):
            norm(**wrong)
