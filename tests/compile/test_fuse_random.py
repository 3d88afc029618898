"""Random numbers inside of programs: the same ones as in eager mode, and no array of them."""

import numpy as np
import pytest

import needle as ndl
from needle import config, nn, optim
from needle.backend.c_build import compiler
from needle.compiler.c.tiers import rendered_calls
from needle.compiler.export.stored import GraphWriter, NotStored

F = nn.functional
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seed():
    ndl.manual_seed(1)


def tensor(*shape):
    return ndl.tensor(RNG.standard_normal(shape).astype(np.float32))


def same(function, *args, kernels=None, calls=2):
    """Call after call the bits of eager mode, from anywhere in the stream; gives the function."""
    f = ndl.jit(function)
    for first in (0, 3)[:calls]:
        found = []
        for run in (function, f):
            ndl.manual_seed(5).position = first
            results = run(*args)
            results = results if isinstance(results, tuple) else (results,)
            found.append([r.numpy() for r in results] + [ndl.get_rng_state()["position"]])
        for eager, compiled in zip(*found, strict=True):
            np.testing.assert_array_equal(eager, compiled)
    if kernels is not None:
        assert [k.name for k in f.kernels] == kernels
    return f


def test_text():
    f = ndl.jit(lambda x: F.dropout(x, 0.25))
    f(tensor(6, 10))
    assert (
        str(f.graph["fused"])
        == """\
%0: float32[60] input
%2: int64[2] counters
%5: float32[6, 10] = run fused(%2[1x1 by 0x0], %2[1x1 by 0x0+1], %0), rows of 0 axes
  %0 = load 0                scalar int64
  %1 = load 1                scalar int64
  %2 = load 2                full float32
  %3 = constant 0.75         scalar float32
  %4 = random %0, %1         full float32
  %5 = less %4, %3           full bool
  %6 = cast %5, float32      full float32
  %7 = multiply %2, %6       full float32
  %8 = divide %7, %3         full float32
  store 0, %8                full float32
return %5"""
    )


def test_the_backward_pass_reads_a_mask_of_bytes():
    x, w = tensor(40, 24), tensor(24, 16)

    def step(x):
        x.requires_grad_()
        y = F.dropout(x.tanh(), 0.3) @ w
        (d,) = (ndl.grad(lambda x: ((F.dropout(x.tanh(), 0.3) @ w) ** 2).sum())(x),)
        return y, d

    f = same(step, x)
    text = str(f.graph["fused"])
    assert "random_from" not in text and text.count("= random %") == 2
    assert "bool[40, 24]" in text


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x, 0.3),
        lambda x: F.dropout(F.dropout(x, 0.3) + 1.0, 0.5).tanh(),
        lambda x: x * (ndl.rand(*x.shape) < 0.4),
        lambda x: (ndl.rand(*x.shape) - 0.5) * x,
        lambda x: x + ndl.randb(*x.shape, dtype="float32"),
        lambda x: (y := ndl.rand(*x.shape), x * y),  # the numbers themselves too
        lambda x: F.dropout(x.reshape(-1), 0.3).reshape(*x.shape) * x,
        lambda x: (y := F.dropout(x, 0.3)) - y.mean(-1, keepdims=True),
    ],
)
@pytest.mark.parametrize("shape", [(7,), (6, 10), (3, 5, 33), (130, 515)], ids=str)
def test_one_program(function, shape):
    x = tensor(*shape)
    f = ndl.jit(function)
    f(x)
    assert [k.name for k in f.kernels] == ["run fused"]
    if "row_" not in f.kernels[0].text:
        same(function, x)
        return
    ndl.manual_seed(2)
    expected = function(x).numpy()
    ndl.manual_seed(2)
    np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (ndl.rand(8, 100).sum(1), x + 1.0),  # nothing shows how many there are
        lambda x: x * ndl.rand(12, 6).transpose(),  # not in C order
        lambda x: x.transpose() * F.dropout(x, 0.3).transpose(),
        lambda x: F.dropout(x.transpose(), 0.3) * x.transpose(),
        lambda x: x * ndl.rand(6, 1),  # one for each row
        lambda x: F.dropout(x, 0.3, mask_shape=(6, 1)),
        lambda x: F.dropout(x, 0.3, mask_shape=(12,)),
        lambda x: (x.max(1, keepdims=True) * ndl.rand(6, 1)) * x,
        lambda x: F.dropout(x[:, ::2], 0.3),
        lambda x: F.dropout(x, 0.3)[1:, 2:] * 2.0,
        lambda x: x * ndl.rand(()) + ndl.rand(1),  # single numbers
        lambda x: F.dropout(x.expand_dims(1).broadcast_to((6, 2, 12)), 0.3),
        lambda x: F.dropout(x.reshape(3, 24), 0.3).reshape(6, 12) + F.dropout(x, 0.4),
    ],
)
def test_elements_get_their_own_numbers(function):
    same(function, tensor(6, 12))


def test_channels_last():
    x = ndl.tensor(RNG.standard_normal((2, 4, 5, 8)).astype(np.float32)).permute((0, 3, 1, 2))
    same(lambda x: F.dropout(x * 2.0, 0.3) + x, x)
    same(lambda x: F.dropout(x * 2.0, 0.3, mask_shape=(2, 8, 1, 1)) + x, x)


def test_other_draws_stay_kernels():
    def f(x):
        wide = x.astype("float64") * ndl.rand(*x.shape, dtype="float64")
        half = x.astype("float16") * ndl.rand(*x.shape, dtype="float16")
        return wide, half, x + ndl.randn(*x.shape)

    names = [k.name for k in same(f, tensor(6, 12)).kernels]
    assert [n for n in names if n in ("uniform", "normal")] == ["uniform", "uniform", "normal"]


# Products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(10, 6, 8), (33, 70, 129), (300, 64, 515)], ids=str)
def test_after_a_product(shape):
    m, k, n = shape
    w, b, r = tensor(k, n), tensor(n), tensor(m, n)
    same(
        lambda x: F.dropout((x @ w + b).relu(), 0.3) + r,
        tensor(m, k),
        kernels=["matmul_then fused"],
    )


def test_after_a_product_of_many_axes():
    w = tensor(12, 16)
    same(lambda x: F.dropout(x @ w, 0.1), tensor(3, 5, 12), kernels=["matmul_then fused"])


def test_after_a_convolution():
    """Images lie channels-last, numbers do not: only a mask of bytes is between them."""
    layer = nn.Conv2d(3, 8, 3, padding=1)
    same(lambda x: F.dropout(layer(x).relu(), 0.3), tensor(2, 3, 9, 9))


# Training ----------------------------------------------------------------------------------------


def mlp():
    ndl.manual_seed(7)
    return nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 16), nn.Tanh(),
        nn.Dropout(0.5), nn.Linear(16, 4),
    )  # fmt: skip


@pytest.mark.parametrize("jit", ["tile", "native"])
def test_outputs_and_gradients_of_a_network(jit, monkeypatch):
    """No sums but those of products, whose order is the same: equal bits."""
    monkeypatch.setattr(config, "JIT", jit)
    model, x, g = mlp(), tensor(20, 12), tensor(20, 4)

    def step(x):
        y = model(x)
        y.backward(g, create_graph=False)
        weights = [p.grad for p in model.parameters() if p.ndim == 2 and p.shape[0] > 1]
        return (y, *weights)

    assert len(step(x)) == 4
    f = same(step, x)
    assert not any(k.name == "uniform" for k in f.kernels)


@pytest.mark.parametrize("fuse", [False, True])
def test_training_steps(fuse):
    x, y = tensor(20, 12), ndl.tensor(np.arange(20) % 4)
    outcomes = []
    for compiled in (False, True):
        model = mlp()
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.reset_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = ndl.jit(step, fuse=fuse) if compiled else step
        losses = [run(x, y).numpy() for _ in range(8)]
        outcomes.append([*losses, *(p.numpy() for p in model.parameters())])
    for eager, compiled in zip(*outcomes, strict=True):
        if fuse:
            np.testing.assert_allclose(eager, compiled, rtol=2e-3, atol=2e-5)
        else:
            np.testing.assert_array_equal(eager, compiled)


def test_any_batch_size():
    function = lambda x: F.dropout((x * 2.0).tanh(), 0.3)  # noqa: E731
    f = ndl.jit(function, dynamic=0)
    for n in (8, 8, 5, 11, 130):
        x = tensor(n, 6)
        ndl.manual_seed(n)
        expected = function(x).numpy()
        ndl.manual_seed(n)
        np.testing.assert_array_equal(f(x).numpy(), expected)


# The second tier ---------------------------------------------------------------------------------

FUNCTIONS = [
    lambda x: F.dropout(x, 0.3),
    lambda x: F.dropout(F.dropout(x, 0.3) + 1.0, 0.5).tanh(),
    lambda x: (y := ndl.rand(*x.shape), x * y),
    lambda x: F.dropout(x.transpose(), 0.3) * x.transpose(),
    lambda x: F.dropout(x[:, ::2] * 3.0, 0.3).exp(),
    lambda x: F.dropout(F.softmax(x, -1), 0.3),
    lambda x: F.softmax(F.dropout(x, 0.3), -1) + F.dropout(x, 0.1).sum(-1, keepdims=True),
    lambda x: ((y := F.dropout(x * 2.0, 0.3)), y.sum(0)),
    lambda x: F.layer_norm(x + F.dropout(x, 0.4), x.shape[-1:]),
    lambda x: F.dropout(x.reshape(-1), 0.3) * 2.0,
]


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("shape", [(6, 10), (33, 257), (3, 5000)], ids=str)
def test_the_second_tier_gives_the_same_bits(shape, monkeypatch):
    def function(x):
        results = [f(x) for f in FUNCTIONS]
        return tuple(t for r in results for t in (r if isinstance(r, tuple) else (r,)))

    x, found = tensor(*shape), []
    for jit in ("tile", "native"):
        monkeypatch.setattr(config, "JIT", jit)
        f = ndl.jit(function)
        for first in (0, 7):
            ndl.manual_seed(5).position = first
            found.append([t.numpy() for t in f(x)])
    sources = [k.text for k in f.kernels if "draw(row" in k.text]
    assert len(sources) >= len(FUNCTIONS)
    for tile, native in ((found[0], found[2]), (found[1], found[3])):
        for ours, theirs in zip(tile, native, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_source():
    f = ndl.jit(lambda x: F.dropout(x, 0.25))
    f(tensor(6, 10))
    (node,) = f.graph["fused"].nodes
    (call,) = rendered_calls(node, "k")
    assert call.rendered.keeps_bits
    assert (
        call.rendered.source
        == """\
// fused(x0, x1, x2): elements
void k_0(void *const *at, i64 begin, i64 end, f64 *totals) {
  (void)totals;
  f32 *const out0 = at[0];
  const i64 *const in0 = at[1];
  const i64 *const in1 = at[2];
  const f32 *const in2 = at[3];
  draw_fn *const draw = (draw_fn *)at[4];
  f32 row4[512];
  const i64 v0 = *in0;
  const i64 v1 = *in1;
  for (i64 first = begin; first < end; first += 512) {
    const i64 last = end - first < 512 ? end : first + 512;
    draw(row4, last - first, (uint64_t)v0, (uint64_t)v1 + (uint64_t)(first), 1);
    EACH
    for (i64 j = first; j < last; ++j) {
      const f32 v4 = row4[j - first];
      const b8 v5 = less_f32(v4, 0.75f);
      const f32 v6 = (v5 ? (f32)1 : (f32)0);
      const f32 v2 = in2[j];
      const f32 v7 = multiply_f32(v2, v6);
      const f32 v8 = divide_f32(v7, 0.75f);
      out0[j] = v8;
    }
  }
}
"""
    )


# What has no random numbers ----------------------------------------------------------------------


def test_they_are_not_stored():
    f = ndl.jit(lambda x: F.dropout(x, 0.3))
    f(tensor(6, 10))
    with pytest.raises(NotStored, match=r"run cannot be stored.*no random numbers"):
        GraphWriter(f.graph["fused"])
    w = tensor(10, 8)
    f = ndl.jit(lambda x: F.dropout(x @ w, 0.3))
    f(tensor(6, 10))
    with pytest.raises(NotStored, match=r"matmul_then cannot be stored"):
        GraphWriter(f.graph["epilogues"])
