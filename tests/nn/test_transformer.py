"""PyTorch's transformer modules with PyTorch's weights: results and gradients."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.testing import assert_close

from .convert import assert_near, build, compare_modules, draw, in_floats, on_devices, torch

T, S, B, E, H = 5, 7, 3, 8, 2


def sequences(*shapes):
    return [draw(*shape, seed=i) for i, shape in enumerate(shapes)]


def padding(batch, keys):
    """The last keys of some samples are padding."""
    mask = np.zeros((batch, keys), bool)
    mask[1, -2:] = True
    return mask


CAUSAL = np.triu(np.ones((T, T), bool), 1)


# MultiheadAttention -----------------------------------------------------------------------------

OPTIONS = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 6, "vdim": 4},
    {"kdim": 6, "bias": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(options, need_weights):
    k, v = options.get("kdim", E), options.get("vdim", E)
    shapes = [(T, B, E), (S, B, k), (S, B, v)]
    if options.get("batch_first"):
        shapes = [(b, t, e) for t, b, e in shapes]
    compare_modules(
        lambda n: n.MultiheadAttention(E, H, **options),
        sequences(*shapes),
        call=lambda m, *args: m(*args, need_weights=need_weights),
    )


@in_floats
@on_devices
def test_self_attention(dtype, device):
    compare_modules(
        lambda n: n.MultiheadAttention(E, H),
        sequences((T, B, E)),
        dtype,
        device,
        call=lambda m, x: m(x, x, x),
    )


MASKS = {
    "bool": {"attn_mask": CAUSAL},
    "numbers": {"attn_mask": draw(T, T)},
    "per head": {"attn_mask": draw(B * H, T, T)},
    "padding": {"key_padding_mask": padding(B, T)},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": padding(B, T)},
    "numbers and numbers": {"attn_mask": draw(T, T), "key_padding_mask": draw(B, T)},
}


def given(masks):
    """Keyword arguments for each library."""
    ours = {k: ndl.tensor(v) for k, v in masks.items()}
    theirs = {k: torch.tensor(v) for k, v in masks.items()}
    return lambda module: ours if isinstance(module, nn.Module) else theirs


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", [False, True])
def test_attention_masks(name, need_weights, extra):
    masks = given(MASKS[name])
    compare_modules(
        lambda n: n.MultiheadAttention(E, H, add_bias_kv=extra, add_zero_attn=extra),
        sequences((T, B, E)),
        call=lambda m, x: m(x, x, x, need_weights=need_weights, **masks(m)),
    )


def test_weights_of_each_head_and_without_a_batch():
    compare_modules(
        lambda n: n.MultiheadAttention(E, H),
        sequences((T, E), (S, E)),
        call=lambda m, q, k: m(q, k, k, average_attn_weights=False),
    )


def test_causal_without_a_mask():
    """The matrix is not needed; PyTorch wants it and ignores it."""
    ours, theirs = build(lambda n: n.MultiheadAttention(E, H))
    x = draw(T, B, E)
    expected, _ = theirs(*(torch.tensor(x),) * 3, attn_mask=torch.tensor(CAUSAL))
    for need_weights in (True, False):
        out, _ = ours(*(ndl.tensor(x),) * 3, need_weights=need_weights, is_causal=True)
        assert_near(out, expected)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", ["add_bias_kv", "add_zero_attn"])
def test_causal_queries_see_the_extra_keys(extra, need_weights):
    ours, theirs = build(lambda n: n.MultiheadAttention(E, H, **{extra: True}))
    x = draw(T, B, E)
    expected, _ = theirs(*(torch.tensor(x),) * 3, attn_mask=torch.tensor(CAUSAL))
    out, _ = ours(*(ndl.tensor(x),) * 3, need_weights=need_weights, is_causal=True)
    assert_near(out, expected)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_masks_of_both_kinds_keep_the_dtype(dtype, need_weights):
    layer = nn.MultiheadAttention(E, H).to(dtype=dtype)
    x = ndl.ones(T, B, E, dtype=dtype)
    masks = {
        "attn_mask": ndl.zeros(T, T, dtype=dtype),
        "key_padding_mask": ndl.tensor(padding(B, T)),
    }
    out, _ = layer(x, x, x, need_weights=need_weights, **masks)
    assert out.dtype == dtype


def test_attention_dropout_is_only_for_training():
    layer = nn.MultiheadAttention(E, H, dropout=0.5)
    x = ndl.Tensor(draw(T, B, E))
    a, b = layer(x, x, x)[0], layer(x, x, x)[0]
    assert np.abs(a.numpy() - b.numpy()).max() > 1e-3
    layer.eval()
    assert_close(layer(x, x, x)[0], layer(x, x, x, need_weights=False)[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: nn.MultiheadAttention(8, 3), r"embed_dim to divide into num_heads, got 8 and 3"),
        (lambda: nn.MultiheadAttention(E, H)(*(ndl.ones(T, B, 6),) * 3), r"\(8, 8, 8\) features"),
        (lambda: nn.MultiheadAttention(E, H)(*(ndl.ones(2, T, B, E),) * 3), r"with 3 axes"),
        (
            lambda: nn.MultiheadAttention(E, H)(
                *(ndl.ones(T, B, E),) * 3, key_padding_mask=ndl.ones(B, 9, dtype="bool")
            ),
            r"key_padding_mask of shape \(3, 5\), got \(3, 9\)",
        ),
        (  # neither (T, S) nor (B H, T, S): one matrix for each sample is no head's
            lambda: nn.MultiheadAttention(E, 2)(
                *(ndl.ones(T, 2, E),) * 3, attn_mask=ndl.zeros(2, T, T)
            ),
            r"attn_mask of shape \(5, 5\) or \(4, 5, 5\), got \(2, 5, 5\)",
        ),
        (
            lambda: nn.MultiheadAttention(E, H)(
                *(ndl.ones(T, B, E),) * 3, key_padding_mask=ndl.ones(B, T, dtype="int64")
            ),
            r"key_padding_mask of truth values or floats, got int64",
        ),
    ],
)
def test_attention_errors(make, match):
    with pytest.raises(ValueError, match=r"\[MultiheadAttention\] .*" + match):
        make()


# Layers and stacks ------------------------------------------------------------------------------

LAYERS = [
    {},
    {"norm_first": True},
    {"activation": "gelu", "batch_first": True},
    {"bias": False, "layer_norm_eps": 1e-3},
]


@pytest.mark.parametrize("options", LAYERS, ids=str)
@in_floats
def test_encoder_layer(options, dtype):
    compare_modules(
        lambda n: n.TransformerEncoderLayer(E, H, 16, dropout=0.0, **options),
        sequences((T, B, E)),
        dtype,
    )


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_decoder_layer(options):
    compare_modules(
        lambda n: n.TransformerDecoderLayer(E, H, 16, dropout=0.0, **options),
        sequences((T, B, E), (S, B, E) if not options.get("batch_first") else (T, S, E)),
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder(norm_first):
    masks = given({"mask": CAUSAL, "src_key_padding_mask": padding(B, T)})

    def make(n):
        layer = n.TransformerEncoderLayer(E, H, 16, 0.0, norm_first=norm_first)
        extra = {} if n is nn else {"enable_nested_tensor": False}
        return n.TransformerEncoder(layer, 2, n.LayerNorm(E), **extra)

    compare_modules(make, sequences((T, B, E)), call=lambda m, x: m(x, **masks(m)))


def test_decoder():
    masks = given({"tgt_mask": CAUSAL, "memory_key_padding_mask": padding(B, S)})
    compare_modules(
        lambda n: n.TransformerDecoder(n.TransformerDecoderLayer(E, H, 16, 0.0), 2),
        sequences((T, B, E), (S, B, E)),
        call=lambda m, x, memory: m(x, memory, **masks(m)),
    )


def test_encoder_causal_flag():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 16), 2).eval()
    x = ndl.Tensor(draw(T, B, E))
    assert_close(encoder(x, is_causal=True), encoder(x, ndl.tensor(CAUSAL)), rtol=1e-5, atol=1e-5)


def test_stacks_copy_their_layer():
    layer = nn.TransformerEncoderLayer(E, H, 16)
    encoder = nn.TransformerEncoder(layer, 2)
    assert len(encoder.parameters()) == 2 * len(layer.parameters())
    first, second = (module.linear1.weight for module in encoder.layers)
    assert first is not second is not layer.linear1.weight
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_activation_may_be_a_function():
    layer = nn.TransformerEncoderLayer(E, H, 16, activation=nn.functional.silu)
    assert layer(ndl.Tensor(draw(T, B, E))).shape == (T, B, E)
    with pytest.raises(ValueError, match=r"activation must be 'relu', 'gelu' or a function"):
        nn.TransformerEncoderLayer(E, H, activation="swish")


def test_dropout_in_training_only():
    layer = nn.TransformerEncoderLayer(E, H, 16, dropout=0.3)
    x = ndl.Tensor(draw(T, B, E))
    assert np.abs(layer(x).numpy() - layer(x).numpy()).max() > 1e-3
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())


def test_attention_wants_one_batch_size():
    attention = nn.MultiheadAttention(8, 2)
    q, k = ndl.zeros(3, 2, 8), ndl.zeros(4, 1, 8)
    with pytest.raises(ValueError, match=r"one batch size \(axis 1; batch_first decides\)"):
        attention(q, k, k)
    with pytest.raises(ValueError, match=r"as many keys as values"):
        attention(q, ndl.zeros(4, 2, 8), ndl.zeros(5, 2, 8))
