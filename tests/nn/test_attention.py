"""Attention: tiles against the whole matrix and against PyTorch, masks, groups, memory.

Tiles are 64 queries by 128 keys: 70 and 140 take more than one.
"""

import math

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn
from needle.nn.functional.attention import attend as attend_both
from needle.ops.network import attention as A
from needle.testing import assert_close, check_grads

from .convert import compare, draw, in_floats, on_devices, torch

TF = torch.nn.functional
attend, their_attend = F.scaled_dot_product_attention, TF.scaled_dot_product_attention


def qkv(batch=(2, 3), queries=70, keys=7, size=5, out=None):
    shapes = [(queries, size), (keys, size), (keys, size if out is None else out)]
    return [draw(*batch, *shape, seed=i) for i, shape in enumerate(shapes)]


MASKS = {
    "bool": lambda t, s: draw(t, s) < 0.3,
    "bool per batch": lambda t, s: draw(2, 1, t, s) < 0.3,
    "numbers": lambda t, s: draw(t, s),
    "numbers per head": lambda t, s: draw(2, 3, t, s),
    "one row": lambda t, s: draw(1, s),
    "one column": lambda t, s: draw(2, 1, t, 1),
    "infinite": lambda t, s: np.where(draw(t, s) < 0.5, 0.0, -np.inf),
}


def mask_of(name, queries, keys):
    mask = MASKS[name](queries, keys)
    if mask.dtype == bool or name == "infinite":
        mask[..., 0] = True if mask.dtype == bool else 0.0  # each query sees something
    return mask


@in_floats
@on_devices
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"is_causal": True}], ids=str)
def test_against_torch(dtype, device, options):
    for keys in (7, 70, 140):
        compare(
            lambda *args: attend(*args, **options),
            lambda *args: their_attend(*args, **options),
            qkv(keys=keys),
            dtype,
            device,
        )


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    """Values and gradients, also of a mask of numbers."""
    compare(attend, their_attend, [*qkv(), mask_of(name, 70, 7)])


@pytest.mark.parametrize("name", MASKS)
def test_mask_and_causal(name):
    """Both at once, as MultiheadAttention may have it; refused by the function, as in PyTorch."""
    mask = mask_of(name, 70, 70)
    seen = torch.ones(70, 70, dtype=torch.bool).tril()

    def theirs(q, k, v, m):
        joint = m & seen if m.dtype is torch.bool else m + torch.where(seen, 0.0, -torch.inf)
        return their_attend(q, k, v, joint)

    compare(lambda q, k, v, m: attend_both(q, k, v, m, 0.0, True), theirs, [*qkv(keys=70), mask])
    q, k, v = map(ndl.tensor, qkv(keys=70))
    with pytest.raises(ValueError, match="expected attn_mask or is_causal, got both"):
        attend(q, k, v, ndl.tensor(mask), is_causal=True)


@pytest.mark.parametrize("batch", [(), (4,), (2, 2, 3)])
def test_axes_in_front(batch):
    compare(attend, their_attend, qkv(batch, out=4))


@pytest.mark.parametrize(("heads", "shared"), [(6, 2), (6, 1), (4, 4)])
@pytest.mark.parametrize("masked", [None, (70, 7), (2, 1, 70, 7), "each head"])
def test_grouped_queries(heads, shared, masked):
    q = draw(2, heads, 70, 5)
    k, v = draw(2, shared, 7, 5, seed=1), draw(2, shared, 7, 5, seed=2)
    masked = (2, heads, 70, 7) if masked == "each head" else masked
    arrays = [q, k, v] if masked is None else [q, k, v, draw(*masked, seed=3)]
    compare(
        lambda *args: attend(*args, enable_gqa=True),
        lambda *args: their_attend(*args, enable_gqa=True),
        arrays,
    )


def test_queries_that_see_nothing_get_zeros():
    q, k, v = (ndl.tensor(a, requires_grad=True) for a in qkv((1,), 4, 5))
    seen = np.ones((4, 5), bool)
    seen[1] = False
    out = attend(q, k, v, ndl.tensor(seen))
    assert (out.numpy()[0, 1] == 0).all() and (out.numpy()[0, 0] != 0).all()
    out.sum().backward()
    for x in (q, k, v):
        assert np.isfinite(x.grad.numpy()).all()
    assert (q.grad.numpy()[0, 1] == 0).all()


@pytest.mark.parametrize("dropout", [0.0, 1e-9])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_masks_do_not_hide_what_is_wrong(dropout, wrong):
    """A score of NaN or inf is no query that sees nothing."""
    q, k, v = (ndl.tensor(draw(2, 3, 4, seed=i)) for i in range(3))
    mask = np.zeros((3, 3))
    mask[1, 2] = wrong
    y = F.scaled_dot_product_attention(q, k, v, ndl.tensor(mask), dropout).numpy()
    assert np.isnan(y[:, 1]).all() and np.isfinite(y[:, [0, 2]]).all()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_no_keys_and_a_mask(dropout):
    q, k, mask = ndl.ones(3, 4), ndl.ones(0, 4), ndl.ones(3, 0)
    assert not F.scaled_dot_product_attention(q, k, k, mask, dropout).numpy().any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [None, "bool", "numbers"])
def test_equals_its_composite(causal, masked):
    q, k, v = (ndl.tensor(a, requires_grad=True) for a in qkv(keys=70))
    mask = None if masked is None else ndl.tensor(mask_of(masked, 70, 70))
    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    adjoints = [ndl.tensor(draw(2, 3, 70, n, seed=n)) for n in (5, 1)]
    fused = A.Attention(0.4, causal)(*inputs).tuple()
    whole = A.attention_by_definition(q, k, v, mask, scale=0.4, causal=causal)[:2]
    gradients = []
    for results in (fused, whole):
        sum((y * g).sum() for y, g in zip(results, adjoints, strict=True)).backward()
        gradients.append([x.grad for x in (q, k, v)])
    for a, b in zip(fused, whole, strict=True):
        assert_close(a, b)
    for a, b in zip(*gradients, strict=True):
        assert_close(a, b)


def test_differentiable_twice():
    q, k, v = (ndl.tensor(a) for a in qkv((2,), 3, 4, 3))
    check_grads(attend, q, k, v)
    check_grads(lambda *x: attend(*x, is_causal=True), q, k, v)
    check_grads(lambda x: attend(x, x, x), q)
    check_grads(attend, q, k, v, ndl.tensor(draw(3, 4)))
    seen = ndl.tensor(mask_of("bool", 3, 4))
    check_grads(lambda *x: attend(*x, seen), q, k, v)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    inputs = [ndl.tensor(a, dtype) for a in qkv(keys=70)]
    exact = their_attend(*(torch.tensor(x.numpy().astype("float64")) for x in inputs))
    out = attend(*inputs)
    assert out.dtype == dtype
    error = np.abs(out.numpy().astype("float64") - exact.numpy()).max()
    assert error < {"float16": 2e-3, "bfloat16": 2e-2}[dtype]


def test_heads_stay_where_they_are():
    """q, k and v are views of one product; the result lies as q does: joining heads is a view."""
    x = ndl.tensor(draw(2, 70, 3 * 4 * 8))
    q, k, v = (z.reshape((2, 70, 4, 8)).transpose((1, 2)) for z in x.chunk(3, -1))
    assert q.cached_data._handle is k.cached_data._handle is x.cached_data._handle
    out = attend(q, k, v, is_causal=True)
    joined = out.transpose((1, 2)).reshape((2, 70, 32))
    assert joined.cached_data._handle is out.cached_data._handle
    dense = attend(*(ndl.tensor(a.numpy()) for a in (q, k, v)), is_causal=True)
    assert_close(out, dense)


def test_large_scores():
    q, k, v = qkv()
    compare(attend, their_attend, [q * 300, k * 300, v], "float64")


def test_memory_does_not_grow_with_the_matrix_of_scores():
    """T = S = 3000: the scores of 2 heads would be 72 MB, forward and backward."""
    q, k, v = (
        ndl.tensor(draw(2, 3000, 4, seed=i).astype("float32"), requires_grad=True) for i in range(3)
    )
    ndl.reset_peak_memory()
    before = ndl.memory_stats()["live"]
    out = attend(q, k, v, is_causal=True)
    out.sum().backward(create_graph=False)
    peak = ndl.memory_stats()["peak"] - before
    assert peak < 40e6
    assert q.grad is not None


def test_dropout_draws_in_the_courses_order():
    """One number for each score, kept where it is at most 1 - p."""
    q, k, v = (ndl.tensor(a) for a in qkv((2,), 4, 6))
    np.random.seed(3)
    out = attend(q, k, v, dropout_p=0.25)
    np.random.seed(3)
    kept = np.random.rand(2, 4, 6) <= 0.75
    _, _, probs = A.attention_by_definition(q, k, v, scale=1 / math.sqrt(5))
    assert_close(out, (probs.numpy() * kept / 0.75) @ v.numpy())


def test_rotary_is_a_rotation():
    rotary = nn.RotaryEmbedding(6)
    x = ndl.tensor(draw(2, 3, 9, 6))
    turned = rotary(x)
    assert turned.shape == x.shape and turned.dtype == x.dtype
    assert_close((turned * turned).sum(-1), (x * x).sum(-1))
    assert_close(turned[..., 0, :], x[..., 0, :])  # position 0 stays
    assert_close(rotary(x[..., 4:, :], offset=4), turned[..., 4:, :])
    assert_close(rotary(x, positions=ndl.arange(9)), turned)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_formula(interleaved):
    """As complex numbers: pair i at position t times e^(i t / base^(2i / D))."""
    x = draw(5, 8)
    pairs = x.reshape(5, 4, 2) if interleaved else x.reshape(5, 2, 4).transpose(0, 2, 1)
    angles = np.arange(5)[:, None] / 100.0 ** (np.arange(0, 8, 2) / 8)
    product = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
    expected = np.stack([product.real, product.imag], -1)
    expected = expected if interleaved else expected.transpose(0, 2, 1)
    rotary = nn.RotaryEmbedding(8, base=100.0, interleaved=interleaved)
    assert_close(rotary(ndl.tensor(x)), expected.reshape(5, 8))
    check_grads(rotary, ndl.tensor(x))


def test_rotary_scores_depend_on_distance_only():
    rotary = nn.RotaryEmbedding(8)
    q, k = (ndl.tensor(np.tile(draw(1, 8, seed=i), (6, 1))) for i in range(2))
    scores = (rotary(q) @ rotary(k).T).numpy()
    for distance in range(6):
        line = np.diagonal(scores, distance)
        np.testing.assert_allclose(line, line[0])


@pytest.mark.parametrize(
    ("shapes", "options", "match"),
    [
        ([(4, 5), (6, 4), (6, 4)], {}, r"expected query \(\.\.\., T, D\).*\(4, 5\), \(6, 4\)"),
        ([(4, 5), (6, 5), (7, 5)], {}, r"got \(4, 5\), \(6, 5\) and \(7, 5\)"),
        ([(5,), (6, 5), (6, 5)], {}, r"got \(5,\)"),
        ([(3, 4, 5), (2, 6, 5), (2, 6, 5)], {"enable_gqa": True}, r"number of query heads"),
    ],
)
def test_errors(shapes, options, match):
    with pytest.raises(ValueError, match=r"\[scaled_dot_product_attention\] .*" + match):
        attend(*(ndl.tensor(draw(*s)) for s in shapes), **options)


def test_mask_errors():
    q, k = ndl.tensor(draw(2, 3, 5)), ndl.tensor(draw(2, 4, 5))
    with pytest.raises(ValueError, match=r"expected a mask \(\.\.\., 3, 4\) .* got \(3, 3\)"):
        attend(q, k, k, ndl.zeros(3, 3))
    with pytest.raises(ValueError, match=r"a mask of truth values or floats, got int64; .*bool"):
        attend(q, k, k, ndl.ones(3, 4, dtype="int64"))


def test_rotary_errors():
    with pytest.raises(ValueError, match=r"\[RotaryEmbedding\] expected an even number .* got 5"):
        nn.RotaryEmbedding(5)
    with pytest.raises(ValueError, match=r"\[apply_rotary\] expected 6 features .*\(2, 4\)"):
        nn.RotaryEmbedding(6)(ndl.tensor(draw(2, 4)))
