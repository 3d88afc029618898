"""Every collective's value, for all dtypes, layouts and devices, eager, compiled and lazy."""

import numpy as np

import needle as ndl
from needle import autograd, distributed as d

d.init()
R, N = d.rank(), d.world_size()
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip


def operand(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What a rank gives: small whole numbers, which every dtype has."""
    numbers = np.random.default_rng(rank).integers(0, 2 if dtype == "bool" else 6, shape)
    return numbers.astype("float32" if dtype == "bfloat16" else dtype)


def check(found: ndl.Tensor, expected: np.ndarray) -> None:
    assert found.shape == expected.shape, (found.shape, expected.shape)
    np.testing.assert_array_equal(found.numpy().astype("float64"), expected.astype("float64"))


def expected_of(name: str, all_x: list[np.ndarray]) -> np.ndarray:
    """What rank R gets, by NumPy."""
    stack = np.stack(all_x)
    joined = np.concatenate(all_x)
    total = stack.sum(0, dtype=stack.dtype)
    mine = slice(R * (len(all_x[0]) // N), (R + 1) * (len(all_x[0]) // N))
    return {
        "sum": lambda: total,
        "mean": lambda: total / N,
        "max": lambda: stack.max(0),
        "min": lambda: stack.min(0),
        "all_gather": lambda: joined,
        "reduce_scatter": lambda: total[mine],
        "broadcast": lambda: all_x[-1],
        "scatter": lambda: all_x[-1][mine],
        "gather": lambda: joined if R == N - 1 else joined * 0,
        "all_to_all": lambda: np.concatenate([x[mine] for x in all_x]),
    }[name]()


CALLS = {
    "sum": lambda x: d.all_reduce(x),
    "mean": lambda x: d.all_reduce(x, "mean"),
    "max": lambda x: d.all_reduce(x, "max"),
    "min": lambda x: d.all_reduce(x, "min"),
    "all_gather": d.all_gather,
    "reduce_scatter": d.reduce_scatter,
    "broadcast": lambda x: d.broadcast(x, N - 1),
    "scatter": lambda x: d.scatter(x, N - 1),
    "gather": lambda x: d.gather(x, N - 1),
    "all_to_all": d.all_to_all,
}
for dtype in DTYPES:
    for name, call in CALLS.items():
        if dtype == "bool" and name in ("sum", "mean", "reduce_scatter"):
            continue
        if name == "mean" and "float" not in dtype:
            continue
        long = (12, 1500) if dtype in ("float32", "bfloat16") else (12, 5)
        for shape in ((12, 3), (0, 4), long):
            all_x = [operand(r, shape, dtype) for r in range(N)]
            x = ndl.tensor(all_x[R], dtype=dtype)
            if name == "mean":  # one rounding, from float32
                single = "float64" if dtype == "float64" else "float32"
                wanted = expected_of("sum", [a.astype(single) for a in all_x]) / N
                wanted = ndl.tensor(wanted, dtype=dtype).numpy()
            else:
                wanted = expected_of(name, all_x)
            check(call(x), wanted)
    x = ndl.tensor(operand(R, (4, 12), dtype), dtype=dtype)
    check(  # transposed, and every second row
        d.all_gather(x.transpose()[::2]),
        np.concatenate([operand(r, (4, 12), dtype).T[::2] for r in range(N)]),
    )

# Along another axis, on the other device, compiled, lazy.
all_x = [operand(r, (2, 12), "float32") for r in range(N)]
x = ndl.tensor(all_x[R])
check(d.all_gather(x, axis=1), np.concatenate(all_x, 1))
check(d.all_reduce(x.to(ndl.cpu_numpy())), sum(all_x))
total = sum(all_x)
check(
    ndl.jit(lambda x: d.all_reduce(x * 2) + d.all_reduce(x, "max"))(x), 2 * total + np.max(all_x, 0)
)
autograd.LAZY_MODE = True
lazy = d.all_gather(x * 1)
assert lazy.cached_data is None and lazy.shape == (2 * N, 12)
check(lazy, np.concatenate(all_x))
autograd.LAZY_MODE = False

# A group of some ranks, and the bits of a sum: the order of the ranks, whatever the size.
part = d.world().split(R % 2)
check(d.all_reduce(x, group=part), sum(all_x[r] for r in range(N) if r % 2 == R % 2))
noise = [np.random.default_rng(r).normal(size=9000).astype("float32") for r in range(N)]
in_order = noise[0]
for other in noise[1:]:
    in_order = in_order + other
mine = ndl.tensor(noise[R])
check(d.all_reduce(mine), in_order)
check(d.all_reduce(mine[:100]), in_order[:100])
padded = mine[: 9000 // N * N]
check(d.all_gather(d.reduce_scatter(padded)), in_order[: 9000 // N * N])
d.barrier()
print("passed", flush=True)
