"""Several hundred operators and sizes against PyTorch, to find what is slow: benchmarks/breadth.py

    python benchmarks/breadth.py [--only NAME] [--seconds 0.1] [--below 0.85] [--json]

Each runs without gradients ("f"), and with those of its inputs ("fb"). Printed are those whose
speed, PyTorch's time divided by needle's, is below a bound; then their number, and the median.
Figures of single works are rough: what is found here deserves a look with a longer time.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from peer import torch
from timing import RESULTS, compare, store

import needle as ndl
from needle.nn import functional as F

TF = torch.nn.functional
RNG = np.random.default_rng(0)


class Work(NamedTuple):
    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arrays: tuple[Any, ...]  # of floats, which get gradients, or integers
    is_smooth: bool = True


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape, dtype=np.float32)


def ids(most: int, *shape: int) -> Any:
    return RNG.integers(0, most, shape)


def alike(about: str, call: Callable[..., Any], *arrays: Any, is_smooth: bool = True) -> Work:
    """A call that is the same in both libraries: of methods, or of a library that it gets first."""
    return Work(about, partial(call, ndl, F), partial(call, torch, TF), arrays, is_smooth)


def works() -> Iterator[Work]:
    yield from products()
    yield from convolutions()
    yield from spatial()
    yield from rows()
    yield from elementwise()
    yield from reductions()
    yield from movements()
    yield from lookups()
    yield from attention()


def products() -> Iterator[Work]:
    for m, k, n in (
        (1, 784, 128), (8, 512, 512), (32, 1024, 1024), (128, 256, 1000), (1024, 768, 3072),
        (4096, 64, 64), (16, 4096, 4096),
    ):  # fmt: skip
        call = lambda lib, f, x, w, b: x @ w + b  # noqa: E731
        yield alike(f"linear {m}x{k}x{n}", call, floats(m, k), floats(k, n), floats(n))
    for b, m, k, n in (
        (32, 64, 64, 64), (8, 128, 128, 128), (256, 16, 16, 16), (1000, 4, 4, 4),
        (64, 1, 128, 512), (12, 512, 64, 512),
    ):  # fmt: skip
        yield alike(
            f"bmm {b}x{m}x{k}x{n}", lambda lib, f, x, y: x @ y, floats(b, m, k), floats(b, k, n)
        )
    for n in (256, 512, 1024, 2048):
        x, y = floats(n, n), floats(n, n)
        ours = [ndl.tensor(a, "bfloat16") for a in (x, y)]
        theirs = [torch.tensor(a).bfloat16() for a in (x, y)]
        yield Work(
            f"bfloat16 product {n}",
            lambda a=ours: a[0] @ a[1],
            lambda a=theirs: a[0] @ a[1],
            (),
            is_smooth=False,
        )
    yield alike(
        "einsum bij,bjk->bik",
        lambda lib, f, x, y: lib.einsum("bij,bjk->bik", x, y),
        floats(16, 64, 64),
        floats(16, 64, 64),
    )


def convolutions() -> Iterator[Work]:
    for n, c, size, o, k, stride, groups in (
        (1, 3, 224, 64, 7, 2, 1), (1, 64, 56, 64, 3, 1, 1), (1, 256, 14, 256, 3, 1, 1),
        (16, 3, 32, 16, 3, 1, 1), (16, 16, 32, 32, 3, 2, 1), (64, 1, 28, 8, 5, 1, 1),
        (8, 64, 56, 128, 1, 1, 1), (8, 128, 28, 128, 3, 1, 32), (4, 32, 64, 32, 5, 1, 1),
        (2, 512, 7, 512, 3, 1, 1), (8, 96, 28, 96, 7, 1, 96), (32, 8, 16, 8, 3, 1, 1),
    ):  # fmt: skip
        options = {"stride": stride, "padding": k // 2, "groups": groups}
        call = lambda lib, f, x, w, options=options: f.conv2d(x, w, **options)  # noqa: E731
        name = f"conv2d {n}x{c}x{size} -> {o}, {k}x{k}, stride {stride}, groups {groups}"
        yield alike(name, call, floats(n, c, size, size), floats(o, c // groups, k, k))
    for n, c, size, o, k in ((16, 64, 256, 64, 3), (1, 1, 16_000, 32, 80), (8, 128, 1000, 128, 5)):
        call = lambda lib, f, x, w, k=k: f.conv1d(x, w, padding=k // 2)  # noqa: E731
        yield alike(f"conv1d {n}x{c}x{size} -> {o}, {k}", call, floats(n, c, size), floats(o, c, k))
    yield alike(
        "conv3d 2x16x16x32x32 -> 32, 3x3x3",
        lambda lib, f, x, w: f.conv3d(x, w, padding=1),
        floats(2, 16, 16, 32, 32),
        floats(32, 16, 3, 3, 3),
    )


def spatial() -> Iterator[Work]:
    calls = {
        "max_pool2d 2": lambda lib, f, x: f.max_pool2d(x, 2),
        "max_pool2d 3, stride 2": lambda lib, f, x: f.max_pool2d(x, 3, 2, 1),
        "avg_pool2d 2": lambda lib, f, x: f.avg_pool2d(x, 2),
        "adaptive_avg_pool2d 1": lambda lib, f, x: f.adaptive_avg_pool2d(x, 1),
        "interpolate nearest": lambda lib, f, x: f.interpolate(x, scale_factor=2),
        "interpolate bilinear": lambda lib, f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
        "pad 1": lambda lib, f, x: f.pad(x, (1, 1, 1, 1)),
    }
    for shape in ((16, 64, 32, 32), (1, 64, 112, 112)):
        for name, call in calls.items():
            yield alike(f"{name} {shape}", call, floats(*shape))
        group = lambda lib, f, x, w, b: f.group_norm(x, 8, w, b)  # noqa: E731
        batch = lambda lib, f, x, w, b: f.batch_norm(x, None, None, w, b, training=True)  # noqa: E731
        for name, call in (("group_norm", group), ("batch_norm", batch)):
            yield alike(f"{name} {shape}", call, floats(*shape), floats(64), floats(64))


def rows() -> Iterator[Work]:
    for shape, axis in (
        ((128, 10), -1), ((64, 1000), -1), ((8, 12, 128, 128), -1), ((64, 50_000), -1),
        ((32, 21, 64, 64), 1), ((1024, 1024), 0),
    ):  # fmt: skip
        for name in ("softmax", "log_softmax"):
            call = lambda lib, f, x, n=name, a=axis: getattr(f, n)(x, a)  # noqa: E731
            yield alike(f"{name} {shape} axis {axis}", call, floats(*shape))
    for shape in ((100, 10), (1024, 768), (64, 3000), (32, 512, 64)):
        call = lambda lib, f, x, w, b: f.layer_norm(x, tuple(x.shape[-1:]), w, b)  # noqa: E731
        yield alike(
            f"layer_norm {shape}", call, floats(*shape), floats(shape[-1]), floats(shape[-1])
        )
    for shape, classes in (((128,), 10), ((64,), 50_000), ((32, 64, 64), 21)):
        call = lambda lib, f, x, i: f.cross_entropy(x, i)  # noqa: E731
        x = floats(shape[0], classes, *shape[1:])
        yield alike(f"cross_entropy {x.shape}", call, x, ids(classes, *shape))
    for name in ("mse_loss", "binary_cross_entropy_with_logits"):
        call = lambda lib, f, x, y, n=name: getattr(f, n)(x, y.sigmoid())  # noqa: E731
        yield alike(f"{name} (1000, 100)", call, floats(1000, 100), floats(1000, 100))
    yield alike("normalize (1000, 256)", lambda lib, f, x: f.normalize(x), floats(1000, 256))


def elementwise() -> Iterator[Work]:
    for shape in ((100,), (1000, 1000), (64, 3, 224, 224)):
        for name in ("relu", "gelu", "silu", "sigmoid", "tanh", "softplus", "elu"):
            call = lambda lib, f, x, n=name: getattr(f, n)(x)  # noqa: E731
            yield alike(f"{name} {shape}", call, floats(*shape))
        for name in ("exp", "abs", "sqrt", "log", "sin", "rsqrt"):
            call = lambda lib, f, x, n=name: getattr(x, n)()  # noqa: E731
            yield alike(f"{name} {shape}", call, np.abs(floats(*shape)) + np.float32(0.1))
        pair = floats(*shape), floats(*shape)
        yield alike(f"a * b + a {shape}", lambda lib, f, a, b: a * b + a, *pair)
        yield alike(f"a / b {shape}", lambda lib, f, a, b: a / (b * b + 1), *pair)
        yield alike(f"where {shape}", lambda lib, f, a, b: lib.where(a > b, a, b), *pair)
        yield alike(f"maximum {shape}", lambda lib, f, a, b: lib.maximum(a, b), *pair)
        yield alike(f"clamp {shape}", lambda lib, f, a: a.clamp(-1, 1), pair[0])
        for name in ("sum", "mean", "std"):
            call = lambda lib, f, x, n=name: getattr(x, n)()  # noqa: E731
            yield alike(f"{name} {shape}", call, pair[0])
    yield alike("x.T + 1 (2000, 2000)", lambda lib, f, x: x.T + 1, floats(2000, 2000))
    outer = lambda lib, f, x, y: x[:, None] * y[None]  # noqa: E731
    yield alike("outer product (1000, 1000)", outer, floats(1000), floats(1000))


def reductions() -> Iterator[Work]:
    for shape, axis in (
        ((64, 128, 256), 0), ((64, 128, 256), 1), ((64, 128, 256), 2), ((64, 128, 256), (0, 2)),
        ((4, 1_000_000), 1), ((1_000_000, 4), 0), ((1_000_000, 4), 1),
        ((16, 64, 32, 32), (0, 2, 3)), ((16, 64, 32, 32), (2, 3)),
    ):  # fmt: skip
        for name in ("sum", "mean", "var", "amax"):
            call = lambda lib, f, x, n=name, a=axis: getattr(x, n)(a)  # noqa: E731
            yield alike(f"{name} {shape} axis {axis}", call, floats(*shape))
    for shape, axis in (((1000, 1000), 0), ((1000, 1000), 1), ((64, 50_000), 1)):
        about, x = f"{shape} axis {axis}", floats(*shape)
        along = {
            "argmax": lambda lib, f, x, a=axis: x.argmax(a),
            "sort": lambda lib, f, x, a=axis: x.sort(a)[0],
            "topk": lambda lib, f, x, a=axis: x.topk(5, a)[0],
        }
        for name, call in along.items():
            yield alike(f"{name} {about}", call, x, is_smooth=False)
        for name in ("cumsum", "logsumexp", "flip"):
            call = lambda lib, f, x, n=name, a=axis: getattr(x, n)(a)  # noqa: E731
            yield alike(f"{name} {about}", call, x)
        yield alike(f"norm {about}", lambda lib, f, x, a=axis: x.norm(dim=a), x)
        yield alike(f"roll {about}", lambda lib, f, x, a=axis: x.roll(3, a), x)


def movements() -> Iterator[Work]:
    for shape, axes in (
        ((64, 128, 256), (2, 0, 1)), ((64, 128, 256), (1, 0, 2)), ((16, 64, 32, 32), (0, 2, 3, 1)),
        ((16, 32, 32, 64), (0, 3, 1, 2)), ((2000, 2000), (1, 0)), ((8, 12, 128, 64), (0, 2, 1, 3)),
    ):  # fmt: skip
        call = lambda lib, f, x, a=axes: x.permute(*a).contiguous()  # noqa: E731
        yield alike(f"permute {shape} {axes}", call, floats(*shape))
    calls = {
        "x[::2]": lambda lib, f, x: x[::2] * 1.0,
        "x[..., 10:50]": lambda lib, f, x: x[..., 10:50] * 1.0,
        "cat 0": lambda lib, f, x: lib.cat([x, x], 0),
        "cat -1": lambda lib, f, x: lib.cat([x, x], -1),
        "stack": lambda lib, f, x: lib.stack([x, x], 0),
        "chunk": lambda lib, f, x: sum(c.sum() for c in x.chunk(4, -1)),
        "tril": lambda lib, f, x: x.tril(),
    }
    for shape in ((64, 128, 256), (1000, 1000)):
        for name, call in calls.items():
            yield alike(f"{name} {shape}", call, floats(*shape))


def lookups() -> Iterator[Work]:
    yield alike(
        "embedding (10000, 256)",
        lambda lib, f, w, i: f.embedding(i, w),
        floats(10_000, 256),
        ids(10_000, 32, 128),
    )
    gather = lambda lib, f, x, i: x.gather(1, i)  # noqa: E731
    yield alike("gather (1000, 1000)", gather, floats(1000, 1000), ids(1000, 1000, 50))
    yield alike("x[i] (1000, 256)", lambda lib, f, x, i: x[i], floats(1000, 256), ids(1000, 5000))
    yield alike(
        "x[:, i] (256, 1000)", lambda lib, f, x, i: x[:, i], floats(256, 1000), ids(1000, 5000)
    )


def attention() -> Iterator[Work]:
    for b, h, t, s, d, causal in (
        (1, 12, 1, 1024, 64, False), (8, 8, 64, 64, 64, False), (2, 8, 1024, 1024, 64, True),
        (32, 4, 32, 32, 32, True), (1, 32, 128, 4096, 128, False),
    ):  # fmt: skip
        call = lambda lib, f, q, k, v, c=causal: f.scaled_dot_product_attention(  # noqa: E731
            q, k, v, is_causal=c
        )
        name = f"attention {b}x{h}, {t} queries, {s} keys of {d}{', causal' if causal else ''}"
        yield alike(name, call, floats(b, h, t, d), floats(b, h, s, d), floats(b, h, s, d))


def measure(work: Work, mode: str, seconds: float) -> dict[str, Any]:
    wanted = [mode == "fb" and a.dtype == np.float32 for a in work.arrays]
    pairs = list(zip(work.arrays, wanted, strict=True))
    ours = [ndl.tensor(a, requires_grad=w) for a, w in pairs]
    theirs = [torch.tensor(a, requires_grad=w) for a, w in pairs]
    found = compare(
        _call(work.ours, ours, mode, ndl, {"create_graph": False}),
        _call(work.theirs, theirs, mode, torch, {}),
        seconds,
    )
    return {
        "work": work.name,
        "mode": mode,
        "speed": round(found.speed, 2),
        "needle_us": round(1e6 * found.ours, 1),
        "torch_us": round(1e6 * found.theirs, 1),
    }


def _call(
    f: Callable[..., Any], inputs: list[Any], mode: str, library: Any, options: dict[str, Any]
) -> Callable[[], None]:
    if mode == "f":

        def forward() -> None:
            with library.no_grad():
                f(*inputs)

        return forward
    adjoint = library.tensor(np.ones(tuple(f(*inputs).shape), np.float32))

    def both() -> None:
        for x in inputs:
            x.grad = None
        f(*inputs).backward(adjoint, **options)

    return both


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME", help="works with this in their name")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each figure")
    parser.add_argument("--below", type=float, default=0.85, help="print what is slower than this")
    parser.add_argument("--json", action="store_true", help="store all rows")
    options = parser.parse_args()
    ndl.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    found = []
    for work in works():
        for mode in ("f", "fb") if work.is_smooth else ("f",):
            if options.only in work.name:
                row = measure(work, mode, options.seconds)
                found.append(row)
                if row["speed"] < options.below:
                    times = f"{row['needle_us']:11.1f}{row['torch_us']:11.1f}"
                    print(f"{row['speed']:5.2f}  {work.name:58}{mode:3}{times}", flush=True)
    speeds = [row["speed"] for row in found]
    if not speeds:
        raise SystemExit(f"[breadth] no work has {options.only!r} in its name.")
    slow = sum(speed < options.below for speed in speeds)
    print(f"{len(speeds)} works, {slow} below {options.below}; median {statistics.median(speeds)}")
    if options.json:
        store(RESULTS / "breadth.json", found)


if __name__ == "__main__":
    main()
