"""Losses against PyTorch: shapes, weights, ignored ids, smoothing, reductions, extremes."""

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn
from needle.ops.network.loss import cross_entropy_by_definition, cross_entropy_of_ids
from needle.testing import assert_close, check_grads

from .convert import compare, compare_modules, draw, in_floats, on_devices, tensors, torch

TF = torch.nn.functional
REDUCTIONS = ("mean", "sum", "none")
reductions = pytest.mark.parametrize("reduction", REDUCTIONS)


def ids(*shape, classes=5, ignored=None):
    """Class ids, some of them ignored."""
    rng = np.random.default_rng(len(shape))
    drawn = rng.integers(0, classes, shape)
    return drawn if ignored is None else np.where(rng.random(shape) < 0.3, ignored, drawn)


def compare_losses(name, arrays, dtype="float64", device=None, **options):
    """The function of one name in both libraries; arrays among the options are constants."""
    constants = {
        k: tensors(v, dtype, device, False) if isinstance(v, np.ndarray) else (v, v)
        for k, v in options.items()
    }
    compare(
        lambda *args: getattr(F, name)(*args, **{k: v[0] for k, v in constants.items()}),
        lambda *args: getattr(TF, name)(*args, **{k: v[1] for k, v in constants.items()}),
        arrays,
        dtype,
        device,
    )


# Classes ----------------------------------------------------------------------------------------

SHAPES = [(5,), (3, 5), (1, 5), (4, 5, 6), (2, 5, 3, 4)]


def without_classes(shape):
    return shape[:0] if len(shape) == 1 else (shape[0], *shape[2:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@reductions
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_ids(shape, reduction, smoothing, weighted):
    weight = draw(5, low=0.1) if weighted else None
    target = ids(*without_classes(shape))
    options = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
    compare_losses("cross_entropy", [draw(*shape), target], **options)
    if target.ndim:
        ignored = ids(*without_classes(shape), ignored=2)
        ignored.flat[0] = 1  # not all of them
        compare_losses("cross_entropy", [draw(*shape), ignored], ignore_index=2, **options)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@reductions
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities(shape, reduction, smoothing):
    target = draw(*shape, seed=1, low=0.0)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    compare_losses("cross_entropy", [draw(*shape), target], **options)
    compare_losses("cross_entropy", [draw(*shape), target], weight=draw(5, low=0.1), **options)


@in_floats
@on_devices
def test_cross_entropy_by_dtype_and_device(dtype, device):
    compare_losses("cross_entropy", [draw(7, 5), ids(7)], dtype, device)
    compare_losses("cross_entropy", [draw(7, 5), ids(7)], dtype, device, label_smoothing=0.1)
    compare_losses("nll_loss", [draw(7, 5), ids(7)], dtype, device)


def test_default_ignore_index():
    compare_losses("cross_entropy", [draw(7, 5), ids(7, ignored=-100)])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_ids_of_any_dtype(dtype):
    target = ids(6)
    loss = F.cross_entropy(ndl.tensor(draw(6, 5)), ndl.tensor(target.astype(dtype)))
    assert_close(loss, F.cross_entropy(ndl.tensor(draw(6, 5)), ndl.tensor(target)))


def test_all_ignored_has_no_mean():
    loss = F.cross_entropy(ndl.tensor(draw(2, 5)), ndl.tensor([-100, -100]))
    assert np.isnan(loss.numpy())


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_large_scores_lose_no_digits(offset):
    """The largest score is taken out before anything else is computed."""
    logits = (draw(6, 5) * 4).astype("float32")
    shifted = logits + np.float32(offset)
    exact = TF.cross_entropy(torch.tensor(shifted.astype("float64")), torch.tensor(ids(6)))
    loss = F.cross_entropy(ndl.tensor(shifted), ndl.tensor(ids(6)))
    assert abs(loss.item() - exact.item()) < 1e-6 * abs(exact.item())


def test_infinite_scores():
    logits = np.array([[0.0, -np.inf, 1.0], [2.0, 1.0, -np.inf]])
    compare_losses("cross_entropy", [logits, np.array([2, 0])])


@pytest.mark.parametrize(("shape", "axis"), [((4, 5), 1), ((5,), 0), ((2, 5, 3), 1), ((3, 5), -1)])
def test_cross_entropy_equals_its_composite(shape, axis):
    x = ndl.tensor(draw(*shape), requires_grad=True)
    target = ndl.tensor(ids(*np.delete(shape, axis)))
    fused, composite = (
        f(x, target, axis) for f in (cross_entropy_of_ids, cross_entropy_by_definition)
    )
    assert_close(fused, composite)
    gradients = []
    for loss in (fused, composite):
        loss.sum().backward()
        gradients.append(x.grad)
    assert_close(*gradients)
    check_grads(lambda x: cross_entropy_of_ids(x, target, axis), x)


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("wrong", [5, -1, -100000])
def test_ids_out_of_range(name, wrong):
    with pytest.raises(IndexError, match=rf"\[{name}\] expected class ids from 0 to 4, got .*"):
        getattr(F, name)(ndl.tensor(draw(2, 5)), ndl.tensor([1, wrong]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@reductions
def test_nll_loss(shape, reduction):
    target = ids(*without_classes(shape))
    compare_losses("nll_loss", [draw(*shape), target], reduction=reduction)
    weight = draw(5, low=0.1)
    compare_losses("nll_loss", [draw(*shape), target], weight=weight, reduction=reduction)


@pytest.mark.parametrize("shape", [(20_000, 5), (3, 20_000)], ids=str)
@pytest.mark.parametrize("options", [{"label_smoothing": 0.2}, {"weight": 1.0}], ids=str)
def test_mean_of_halves_whose_sum_is_too_large(shape, options):
    """Sums of many losses, or of many classes, are no float16; their mean is."""
    scores, target = 4 * draw(*shape), ndl.tensor(ids(shape[0]))
    if "weight" in options:
        options = {"weight": ndl.ones(shape[1], dtype="float16")}
    x = ndl.tensor(scores, dtype="float16", requires_grad=True)
    loss = F.cross_entropy(x, target, **options)
    exact = TF.cross_entropy(
        torch.tensor(x.numpy().astype("float64")),
        torch.tensor(target.numpy()),
        label_smoothing=options.get("label_smoothing", 0.0),
    )
    assert loss.dtype == "float16"
    assert_close(loss, exact.numpy(), rtol=2e-3)
    loss.backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_softmax_loss_keeps_float32_and_takes_float_ids():
    logits, y = ndl.Tensor(draw(6, 5)), ndl.Tensor(ids(6))
    loss = nn.SoftmaxLoss()(logits, y)
    assert loss.dtype == "float32" and y.dtype == "float32"
    assert_close(loss, F.cross_entropy(logits, y))


@pytest.mark.parametrize("wrong", [5, -1, -100])
def test_softmax_loss_ignores_no_id(wrong):
    with pytest.raises(IndexError, match="expected class ids from 0 to 4"):
        nn.SoftmaxLoss()(ndl.tensor(draw(2, 5)), ndl.tensor([1, wrong]))


# Probabilities ----------------------------------------------------------------------------------


@reductions
def test_binary_cross_entropy(reduction):
    p, t = draw(4, 3, low=0.0), draw(4, 3, seed=2, low=0.0)
    compare_losses("binary_cross_entropy", [p, t], reduction=reduction)
    weight = draw(4, 3, seed=3, low=0.1)
    compare_losses("binary_cross_entropy", [p, t], weight=weight, reduction=reduction)


def test_binary_cross_entropy_at_0_and_1():
    p, t = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    for reduction in REDUCTIONS:
        target = ndl.tensor(t)
        x, y = tensors(p)
        ours = F.binary_cross_entropy(x, target, reduction=reduction)
        theirs = TF.binary_cross_entropy(y, torch.tensor(t), reduction=reduction)
        assert_close(ours, theirs.detach().numpy())
        ours.sum().backward()
        theirs.sum().backward()
        assert_close(x.grad, y.grad.numpy())


def test_binary_cross_entropy_of_halves_at_0_and_1():
    p = ndl.tensor([0.0, 1.0, 0.5], dtype="float16", requires_grad=True)
    F.binary_cross_entropy(p, ndl.tensor([0.0, 1.0, 1.0], dtype="float16")).backward()
    assert p.grad.dtype == "float16"
    assert_close(p.grad, np.array([0, 0, -2 / 3]), rtol=1e-3)


def test_binary_cross_entropy_twice():
    p, t = ndl.tensor(draw(3, 2, low=0.1, high=0.9)), ndl.tensor(draw(3, 2, seed=1, low=0.1))
    check_grads(lambda p, t: F.binary_cross_entropy(p, t), p, t)


@reductions
def test_binary_cross_entropy_with_logits(reduction):
    x, t = 3 * draw(4, 3), draw(4, 3, seed=2, low=0.0)
    name = "binary_cross_entropy_with_logits"
    compare_losses(name, [x, t], reduction=reduction)
    compare_losses(name, [x, t], weight=draw(4, 3, low=0.1), reduction=reduction)
    compare_losses(name, [x, t], pos_weight=draw(3, low=0.5, high=2.0), reduction=reduction)


def test_logits_do_not_overflow():
    x, t = np.array([1e4, -1e4, 1e4, -1e4]), np.array([1.0, 1.0, 0.0, 0.0])
    compare_losses("binary_cross_entropy_with_logits", [x, t], "float32")


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.filterwarnings("ignore:reduction")  # PyTorch advises batchmean
def test_kl_div(reduction):
    x, t = np.log(draw(4, 3, low=0.1)), draw(4, 3, seed=2, low=0.1)
    compare_losses("kl_div", [x, t], reduction=reduction)
    compare_losses("kl_div", [x, np.log(t)], reduction=reduction, log_target=True)


def test_kl_div_of_zero_probability():
    x, t = tensors(np.log(draw(3, low=0.1)))
    target = np.array([0.0, 0.4, 0.6])
    loss = F.kl_div(x, ndl.tensor(target), reduction="sum")
    theirs = TF.kl_div(t, torch.tensor(target), reduction="sum")
    loss.backward()
    theirs.backward()
    assert_close(loss, theirs.item())
    assert_close(x.grad, t.grad.numpy())


# Distances --------------------------------------------------------------------------------------

DISTANCES = [
    ("mse_loss", {}), ("l1_loss", {}), ("smooth_l1_loss", {}), ("smooth_l1_loss", {"beta": 0.3}),
    ("smooth_l1_loss", {"beta": 0.0}), ("huber_loss", {}), ("huber_loss", {"delta": 0.4}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), DISTANCES)
@reductions
@in_floats
def test_distances(name, options, reduction, dtype):
    arrays = [draw(3, 4), draw(3, 4, seed=5)]
    compare_losses(name, arrays, dtype, reduction=reduction, **options)


@pytest.mark.parametrize(("name", "options"), DISTANCES[:3])
def test_distances_on_the_reference_device(name, options):
    compare_losses(name, [draw(3, 4), draw(3, 4, seed=5)], device=ndl.cpu_numpy(), **options)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cosine_similarity(dim):
    compare_losses("cosine_similarity", [draw(3, 4), draw(3, 4, seed=5)], dim=dim)


@pytest.mark.parametrize("shape", [(1,), (4,), (3, 1), (2, 1, 4)], ids=str)
def test_cosine_similarity_broadcasts(shape):
    compare_losses("cosine_similarity", [draw(2, 3, 4), draw(*shape, seed=5)], dim=-1)
    compare_losses("cosine_similarity", [draw(*shape, seed=5), draw(2, 3, 4)], dim=1)


def test_cosine_similarity_of_zero_is_finite():
    x, y = ndl.tensor(np.zeros((1, 3)), requires_grad=True), ndl.tensor(draw(1, 3))
    similarity = F.cosine_similarity(x, y)
    similarity.sum().backward()
    assert similarity.numpy() == 0 and np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cosines_of_halves(dtype):
    """Squares of 200 are no float16; nor are the constants that keep lengths above 0."""
    a = ndl.tensor([[0, 0], [200, 200]], dtype=dtype, requires_grad=True)
    b = ndl.tensor([[1, 2], [200, 300]], dtype=dtype)
    similarity = F.cosine_similarity(a, b)
    loss = F.cosine_embedding_loss(a, b, ndl.tensor([1, 1]), reduction="none")
    assert similarity.dtype == loss.dtype == dtype
    expected = [0, 5 / 26**0.5]
    assert_close(similarity.float(), np.array(expected), rtol=1e-2)
    assert_close(1 - loss.float(), np.array(expected), rtol=1e-2)
    (similarity.sum() + loss.sum()).backward()
    assert np.isfinite(a.grad.numpy()[1]).all()


@reductions
@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_cosine_embedding_loss(reduction, margin):
    target = np.array([1, -1, -1, 1, -1])
    arrays = [draw(5, 4), draw(5, 4, seed=5), target]
    compare_losses("cosine_embedding_loss", arrays, margin=margin, reduction=reduction)


# Modules ----------------------------------------------------------------------------------------

MODULES = [
    (lambda n: n.CrossEntropyLoss(), [draw(6, 5), ids(6)]),
    (lambda n: n.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"), [draw(6, 5), ids(6)]),
    (lambda n: n.CrossEntropyLoss(ignore_index=2), [draw(6, 5), ids(6)]),
    (lambda n: n.NLLLoss(reduction="none"), [draw(6, 5), ids(6)]),
    (lambda n: n.BCELoss(), [draw(4, low=0.1), draw(4, seed=1, low=0.0)]),
    (lambda n: n.BCEWithLogitsLoss(), [draw(4), draw(4, seed=1, low=0.0)]),
    (lambda n: n.MSELoss(), [draw(4), draw(4, seed=1)]),
    (lambda n: n.L1Loss(reduction="sum"), [draw(4), draw(4, seed=1)]),
    (lambda n: n.SmoothL1Loss(beta=0.5), [draw(4), draw(4, seed=1)]),
    (lambda n: n.HuberLoss("sum", 0.5), [draw(4), draw(4, seed=1)]),
    (lambda n: n.KLDivLoss(reduction="batchmean"), [draw(2, 4), draw(2, 4, seed=1, low=0.1)]),
    (lambda n: n.CosineEmbeddingLoss(0.2), [draw(2, 4), draw(2, 4, seed=1), np.array([1, -1])]),
    (lambda n: n.CosineSimilarity(0), [draw(2, 4), draw(2, 4, seed=1)]),
]


@pytest.mark.parametrize(
    ("make", "arrays"), MODULES, ids=[type(m(nn)).__name__ for m, _ in MODULES]
)
def test_module(make, arrays):
    compare_modules(make, arrays)


def test_weights_are_buffers():
    loss = nn.CrossEntropyLoss(ndl.ones(5))
    assert [n for n, _ in loss.named_buffers()] == ["weight"] and not loss.parameters()
    pos = nn.BCEWithLogitsLoss(pos_weight=ndl.full((3,), 2.0))
    x, t = ndl.tensor(draw(4, 3)), ndl.tensor(draw(4, 3, low=0.0))
    expected = F.binary_cross_entropy_with_logits(x, t, pos_weight=pos.pos_weight)
    assert_close(pos(x, t), expected)


# Mistakes ---------------------------------------------------------------------------------------

X, Y = draw(3, 4), draw(3)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda x, y: F.mse_loss(x, y), r"\[mse_loss\] .* one shape, got \(3, 4\) and \(3,\)"),
        (lambda x, y: F.l1_loss(x, y), r"\[l1_loss\] .* one shape"),
        (lambda x, y: F.kl_div(x, y), r"\[kl_div\] .* one shape"),
        (lambda x, y: F.mse_loss(x, x, reduction="avg"), r"\[mse_loss\] reduction .*'avg'"),
        (lambda x, y: F.cross_entropy(x, x[0]), r"\[cross_entropy\] .*\(3, 4\) and \(4,\)"),
        (
            lambda x, y: F.cross_entropy(x, y, label_smoothing=2),
            r"label_smoothing in 0 to 1, got 2",
        ),
        (lambda x, y: F.cross_entropy(x, y * 0, weight=y), r"one weight for each of 4 classes"),
        (lambda x, y: F.cross_entropy(x, x, weight=y), r"one weight for each of 4 classes"),
        (lambda x, y: F.huber_loss(x, x, delta=0), r"\[huber_loss\] expected delta > 0, got 0"),
        (lambda x, y: F.smooth_l1_loss(x, x, beta=-1), r"\[smooth_l1_loss\] expected beta >= 0"),
        (lambda x, y: F.cosine_embedding_loss(x, x, x), r"\[cosine_embedding_loss\] expected"),
        (lambda x, y: nn.SoftmaxLoss()(x, x), r"\[SoftmaxLoss\] .*\(3, 4\) and \(3, 4\)"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call(ndl.tensor(X), ndl.tensor(Y))
