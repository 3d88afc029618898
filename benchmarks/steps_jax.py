"""Whole steps in JAX, as one jitted function each, with memory handed on from step to step.

The same networks and batches as in `workloads.py`, written as JAX's users do (channels last, `scan`
over time); weights are drawn anew, so losses are not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import workloads as W
from jax import lax
from workloads import Step, Workload

Params = Any
Statistics = list[Any]  # running means and variances, in the order of the norms
Loss = Callable[[Params, Statistics, Any, Any, Any], tuple[Any, Statistics]]


class Draw:
    """New weights."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int, scale: float | None = None) -> Any:
        scale = np.prod(shape[:-1]) ** -0.5 if scale is None else scale
        return jnp.array(scale * self.rng.standard_normal(shape, dtype=np.float32))

    def linear(self, i: int, o: int) -> dict[str, Any]:
        return {"w": self(i, o), "b": jnp.zeros(o)}

    def norm(self, wide: int) -> dict[str, Any]:
        return {"w": jnp.ones(wide), "b": jnp.zeros(wide)}


def linear(p: dict[str, Any], x: Any) -> Any:
    return x @ p["w"] + p["b"]


def batch_norm(p: dict[str, Any], running: Statistics, new: Statistics, x: Any) -> Any:
    """Over all axes but the last; running statistics come and go in order."""
    axes = tuple(range(x.ndim - 1))
    mean, var = x.mean(axes), x.var(axes)
    old_mean, old_var = running[len(new)]
    new.append((0.9 * old_mean + 0.1 * mean, 0.9 * old_var + 0.1 * var))
    return (x - mean) * lax.rsqrt(var + 1e-5) * p["w"] + p["b"]


def layer_norm(p: dict[str, Any], x: Any) -> Any:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    y = (x - mean) * lax.rsqrt(var + 1e-5) * p["w"]
    return y + p["b"] if "b" in p else y


def cross_entropy(logits: Any, y: Any) -> Any:
    chosen = jnp.take_along_axis(logits, y[:, None], 1)[:, 0]
    return (jax.nn.logsumexp(logits, 1) - chosen).mean()


def start(*widths: int) -> Statistics:
    return [(jnp.zeros(n), jnp.ones(n)) for n in widths]


# Networks: weights, running statistics, and the loss of a batch -----------------------------------

Network = tuple[Params, Statistics, Loss]


def mlp() -> Network:
    draw = Draw()
    blocks = [
        {"in": draw.linear(100, 50), "norm1": draw.norm(50),
         "out": draw.linear(50, 100), "norm2": draw.norm(100)}
        for _ in range(3)
    ]  # fmt: skip
    params = {"first": draw.linear(784, 100), "last": draw.linear(100, 10), "blocks": blocks}

    def loss(p: Params, running: Statistics, key: Any, x: Any, y: Any) -> Any:
        new: Statistics = []
        h = jax.nn.relu(linear(p["first"], x))
        for i, block in enumerate(p["blocks"]):
            z = jax.nn.relu(batch_norm(block["norm1"], running, new, linear(block["in"], h)))
            keep = jax.random.bernoulli(jax.random.fold_in(key, i), 0.9, z.shape)
            z = linear(block["out"], jnp.where(keep, z / 0.9, 0))
            h = jax.nn.relu(batch_norm(block["norm2"], running, new, z) + h)
        return cross_entropy(linear(p["last"], h), y), new

    return params, start(*[50, 100] * 3), loss


def conv(p: dict[str, Any], x: Any, stride: int) -> Any:
    pad = (p["w"].shape[0] - 1) // 2
    order = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(
        x, p["w"], (stride, stride), [(pad, pad)] * 2, dimension_numbers=order
    )
    return y + p["b"] if "b" in p else y


RESNET9 = [(3, 16, 7, 4), (16, 32, 3, 2), (32, 32, 3, 1), (32, 32, 3, 1), (32, 64, 3, 2),
           (64, 128, 3, 2), (128, 128, 3, 1), (128, 128, 3, 1)]  # fmt: skip


def resnet9_weights() -> tuple[Params, Statistics]:
    draw = Draw()
    convs = [
        {"conv": {"w": draw(k, k, i, o), "b": jnp.zeros(o)}, "norm": draw.norm(o)}
        for i, o, k, _ in RESNET9
    ]
    params = {"convs": convs, "head": [draw.linear(128, 128), draw.linear(128, 10)]}
    return params, start(*(o for _, o, _, _ in RESNET9))


def resnet9_logits(p: Params, norm: Callable[[int, Any], Any], x: Any) -> Any:
    """norm(i, x) normalises what convolution i gives; called in order."""

    def layer(i: int, x: Any) -> Any:
        return jax.nn.relu(norm(i, conv(p["convs"][i]["conv"], x, RESNET9[i][3])))

    x = layer(1, layer(0, x))
    x = x + layer(3, layer(2, x))
    x = layer(5, layer(4, x))
    x = (x + layer(7, layer(6, x))).reshape(x.shape[0], -1)
    return linear(p["head"][1], jax.nn.relu(linear(p["head"][0], x)))


def resnet9() -> Network:
    params, running = resnet9_weights()

    def loss(p: Params, running: Statistics, key: Any, x: Any, y: Any) -> Any:
        new: Statistics = []

        def norm(i: int, x: Any) -> Any:
            return batch_norm(p["convs"][i]["norm"], running, new, x)

        return cross_entropy(resnet9_logits(p, norm, x), y), new

    return params, running, loss


def resnet9_inference() -> tuple[Params, Callable[[Params, Any], Any]]:
    """Weights, and the logits of a batch by running statistics."""
    params, running = resnet9_weights()

    def infer(p: Params, x: Any) -> Any:
        def norm(i: int, x: Any) -> Any:
            (mean, var), weights = p[1][i], p[0]["convs"][i]["norm"]
            return (x - mean) * lax.rsqrt(var + 1e-5) * weights["w"] + weights["b"]

        return resnet9_logits(p[0], norm, x)

    return (params, running), infer


def resnet18() -> Network:
    draw = Draw()
    blocks, strides, widths = [], [], [64]
    channels = 64
    for wide, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            block = {"conv1": {"w": draw(3, 3, channels, wide)}, "norm1": draw.norm(wide),
                     "conv2": {"w": draw(3, 3, wide, wide)}, "norm2": draw.norm(wide)}  # fmt: skip
            if stride != 1 or channels != wide:
                block |= {"conv3": {"w": draw(1, 1, channels, wide)}, "norm3": draw.norm(wide)}
            widths += [wide] * (len(block) // 2)
            blocks.append(block)
            strides.append(stride)
            channels = wide
    stem = {"conv": {"w": draw(3, 3, 3, 64)}, "norm": draw.norm(64)}
    params = {"stem": stem, "blocks": blocks, "head": draw.linear(512, 10)}

    def loss(p: Params, running: Statistics, key: Any, x: Any, y: Any) -> Any:
        new: Statistics = []

        def layer(c: Any, n: Any, x: Any, stride: int) -> Any:
            return batch_norm(n, running, new, conv(c, x, stride))

        x = jax.nn.relu(layer(p["stem"]["conv"], p["stem"]["norm"], x, 1))
        for b, stride in zip(p["blocks"], strides, strict=True):
            h = jax.nn.relu(layer(b["conv1"], b["norm1"], x, stride))
            h = layer(b["conv2"], b["norm2"], h, 1)
            x = jax.nn.relu(h + (layer(b["conv3"], b["norm3"], x, stride) if "conv3" in b else x))
        return cross_entropy(linear(p["head"], x.mean((1, 2))), y), new

    return params, start(*widths), loss


def lstm() -> Network:
    draw, wide = Draw(), W.WIDTH
    layers = [
        {"x": draw(wide, 4 * wide), "h": draw(wide, 4 * wide), "b": jnp.zeros(4 * wide)}
        for _ in range(2)
    ]
    params = {"embed": draw(W.VOCABULARY, wide, scale=1.0), "layers": layers,
              "head": draw.linear(wide, W.VOCABULARY)}  # fmt: skip

    def loss(p: Params, running: Statistics, key: Any, x: Any, y: Any) -> Any:
        h = p["embed"][x]
        zeros = jnp.zeros((x.shape[1], wide))
        for layer in p["layers"]:

            def step(state: Any, gates: Any, by_h: Any = layer["h"]) -> Any:
                hidden, cell = state
                i, f, g, o = jnp.split(gates + hidden @ by_h, 4, -1)
                cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
                hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
                return (hidden, cell), hidden

            _, h = lax.scan(step, (zeros, zeros), h @ layer["x"] + layer["b"])
        return cross_entropy(linear(p["head"], h.reshape(-1, wide)), y), running

    return params, [], loss


def attention(q: Any, k: Any, v: Any, start: int) -> Any:
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    seen = jnp.arange(k.shape[-2])[None, :] <= start + jnp.arange(q.shape[-2])[:, None]
    return jax.nn.softmax(jnp.where(seen, scores, -1e9), -1) @ v


def heads(x: Any, n: int) -> Any:
    return x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2)


def gpt() -> Network:
    draw, wide = Draw(), W.MODEL
    small = {"scale": 0.02}
    blocks = [
        {"norm1": {"w": jnp.ones(wide)}, "qkv": draw(wide, 3 * wide, **small),
         "out": draw(wide, wide, **small), "norm2": {"w": jnp.ones(wide)},
         "up": draw(wide, 4 * wide, **small), "down": draw(4 * wide, wide, **small)}
        for _ in range(W.LAYERS)
    ]  # fmt: skip
    params = {"tokens": draw(W.CHARACTERS, wide, **small), "blocks": blocks,
              "places": draw(W.CONTEXT, wide, **small), "norm": {"w": jnp.ones(wide)}}  # fmt: skip

    def loss(p: Params, running: Statistics, key: Any, x: Any, y: Any) -> Any:
        h = p["tokens"][x] + p["places"]
        for b in p["blocks"]:
            parts = jnp.split(layer_norm(b["norm1"], h) @ b["qkv"], 3, -1)
            a = attention(*(heads(z, W.HEADS) for z in parts), 0)
            h = h + a.swapaxes(1, 2).reshape(h.shape) @ b["out"]
            up = layer_norm(b["norm2"], h) @ b["up"]
            h = h + jax.nn.gelu(up, approximate=False) @ b["down"]
        logits = layer_norm(p["norm"], h) @ p["tokens"].T
        return cross_entropy(logits.reshape(-1, W.CHARACTERS), y), running

    return params, [], loss


NETWORKS = {
    "mlp": mlp, "resnet9": resnet9, "resnet18": resnet18, "lstm lm": lstm, "gpt": gpt,
}  # fmt: skip


# Steps ------------------------------------------------------------------------------------------


def jax_step(work: Workload) -> Step:
    """A step that gives its loss, or the largest logit."""
    return _training(work) if work.targets is not None else _inference(work)


def _training(work: Workload) -> Step:
    params, running, loss = NETWORKS[work.name]()
    x = work.inputs if work.inputs.ndim < 4 else work.inputs.transpose(0, 2, 3, 1)
    batch = jnp.array(x), jnp.array(np.asarray(work.targets).reshape(-1))
    lr, decay = work.options["lr"], work.options.get("weight_decay", 0.0)

    def update(p: Any, g: Any, m: Any, v: Any, t: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        change = (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return p * (1 - lr * decay) - lr * change, m, v

    def train(params: Any, running: Any, ms: Any, vs: Any, t: Any, key: Any, *batch: Any) -> Any:
        key, use = jax.random.split(key)
        graded = jax.value_and_grad(loss, has_aux=True)
        (value, running), gradients = graded(params, running, use, *batch)
        leaves, tree = jax.tree.flatten(params)
        rest = (jax.tree.leaves(part) for part in (gradients, ms, vs))
        moved = [update(*each, t) for each in zip(leaves, *rest, strict=True)]
        params, ms, vs = (jax.tree.unflatten(tree, part) for part in zip(*moved, strict=True))
        return params, running, ms, vs, t + 1, key, value

    step = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    means, squares = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
    state: list[Any] = [params, running, means, squares, jnp.ones(()), jax.random.PRNGKey(0)]

    def run() -> float:
        *state[:], value = step(*state, *batch)
        jax.block_until_ready(state)
        return float(value)

    return run


def _inference(work: Workload) -> Step:
    draw, wide = Draw(), W.GPT2_MODEL
    blocks = [
        {"norm1": draw.norm(wide), "qkv": draw.linear(wide, 3 * wide),
         "out": draw.linear(wide, wide), "norm2": draw.norm(wide),
         "up": draw.linear(wide, 4 * wide), "down": draw.linear(4 * wide, wide)}
        for _ in range(W.GPT2_LAYERS)
    ]  # fmt: skip
    params = {
        "tokens": draw(W.GPT2_TOKENS, wide, scale=0.02),
        "places": draw(W.GPT2_CONTEXT, wide, scale=0.02),
        "blocks": blocks,
        "norm": draw.norm(wide),
    }
    shape = (1, W.GPT2_HEADS, W.CACHE, wide // W.GPT2_HEADS)
    cache = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in blocks]
    start, end = work.start, work.start + work.inputs.shape[1]

    def infer(p: Any, cache: Any, x: Any) -> Any:
        h = p["tokens"][x] + p["places"][start:end]
        new = []
        for b, (keys, values) in zip(p["blocks"], cache, strict=True):
            parts = jnp.split(linear(b["qkv"], layer_norm(b["norm1"], h)), 3, -1)
            q, k, v = (heads(z, W.GPT2_HEADS) for z in parts)
            keys, values = keys.at[:, :, start:end].set(k), values.at[:, :, start:end].set(v)
            new.append((keys, values))
            a = attention(q, keys[:, :, :end], values[:, :, :end], start)
            h = h + linear(b["out"], a.swapaxes(1, 2).reshape(h.shape))
            up = linear(b["up"], layer_norm(b["norm2"], h))
            h = h + linear(b["down"], jax.nn.gelu(up))
        return (layer_norm(p["norm"], h[:, -1]) @ p["tokens"].T).max(), new

    step = jax.jit(infer, donate_argnums=(1,))
    x, state = jnp.array(work.inputs), [cache]

    def run() -> float:
        value, state[0] = step(params, state[0], x)
        return float(value)

    return run
