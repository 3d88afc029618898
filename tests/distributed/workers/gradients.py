"""Gradients of first and second order, and forward mode, by finite differences over all ranks.

The function of all ranks' x is the sum of their losses; rank r computes its derivatives by x_r.
"""

import numpy as np

import needle as ndl
from needle import distributed as d

d.init()
R, N = d.rank(), d.world_size()
RNG = np.random.default_rng(0)
ALL_X = RNG.normal(size=(N, 12, 2))
ALL_V = RNG.normal(size=(N, 12, 2))  # directions
WEIGHTS = {rows: RNG.normal(size=(N, rows, 2)) for rows in {12, 12 * N, 12 // N}}
CALLS = {
    "sum": lambda x: d.all_reduce(x),
    "mean": lambda x: d.all_reduce(x, "mean"),
    "max": lambda x: d.all_reduce(x, "max"),
    "min": lambda x: d.all_reduce(x, "min"),
    "all_gather": lambda x: d.all_gather(x),
    "reduce_scatter": lambda x: d.reduce_scatter(x),
    "reduce_scatter mean": lambda x: d.reduce_scatter(x, "mean"),
    "broadcast": lambda x: d.broadcast(x, N - 1),
    "scatter": lambda x: d.scatter(x, N - 1),
    "gather": lambda x: d.gather(x, N - 1),
    "all_to_all": lambda x: d.all_to_all(x),
}


def loss(call, x):
    y = call(x)
    weight = ndl.tensor(WEIGHTS[y.shape[0]][R], dtype="float64")
    return (y * y * weight).sum()


def at(step: float) -> ndl.Tensor:
    return ndl.tensor(ALL_X[R] + step * ALL_V[R], dtype="float64", requires_grad=True)


def everywhere(value: float) -> float:
    """The sum over the ranks."""
    return d.all_reduce(ndl.tensor(value, dtype="float64")).item()


def close(found: float, expected: float, name: str) -> None:
    assert abs(found - expected) <= 1e-5 * max(1, abs(expected)), (name, found, expected)


v = ndl.tensor(ALL_V[R], dtype="float64")
for name, call in CALLS.items():
    eps = 1e-5

    def slope(step: float, call=call) -> float:
        """The derivative along v, by reverse mode."""
        x = at(step)
        loss(call, x).backward(create_graph=False)
        return everywhere((x.grad * v).sum().item())

    ends = [everywhere(loss(call, at(s)).item()) for s in (eps, -eps)]
    close(slope(0), (ends[0] - ends[1]) / (2 * eps), name)

    x = at(0)
    (first,) = ndl.autograd.grad(loss(call, x), x, create_graph=True)
    (second,) = ndl.autograd.grad((first * v).sum(), x)
    found = everywhere((second * v).sum().item())
    close(found, (slope(eps) - slope(-eps)) / (2 * eps), f"{name}, second")

    _, tangent = ndl.jvp(lambda x, call=call: loss(call, x), (at(0),), (v,))
    close(everywhere(tangent.item()), (ends[0] - ends[1]) / (2 * eps), f"{name}, jvp")

    def whole(x, call=call):
        value = loss(call, x)
        value.backward(create_graph=False)
        return value, x.grad

    eager = whole(at(0))
    compiled = ndl.jit(whole)
    for _ in range(2):
        for one, other in zip(eager, compiled(at(0)), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)

# Through a compiled function from outside.
x = at(0)
ndl.jit(lambda x: loss(CALLS["sum"], x))(x).backward()
other = at(0)
loss(CALLS["sum"], other).backward()
np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=1e-12)
d.barrier()
print("passed", flush=True)
