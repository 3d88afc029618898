"""Random mixtures of special and ordinary numbers, shapes, layouts and dtypes, against the formulas
of tests/edges: values, gradients, and compiled as eager."""

import numpy as np

import needle as ndl

from ..edges.elementwise import UNARY
from ..edges.max_pool import Pool, check as check_pool
from ..edges.pairs import PAIRS, TRIPLES
from ..edges.rows import ROWS, alike_in_any_order
from ..edges.values import agree, compiled, describe, specials

EDGES = (*UNARY, *PAIRS, *TRIPLES, *ROWS, *ROWS)


def numbers(rng, shape, dtype):
    """Special ones, ordinary ones, ones of every size, and ones beside the special ones."""
    info = np.finfo(dtype)
    smallest, largest = np.log(float(info.smallest_subnormal)), np.log(float(info.max))
    special = specials(dtype)
    with np.errstate(all="ignore"):
        kinds = (
            rng.choice(special, shape),
            rng.standard_normal(shape),
            np.exp(rng.uniform(smallest, largest, shape)) * rng.choice([-1, 1], shape),
            np.nextafter(rng.choice(special, shape), rng.choice(special[-3:-1], shape)),
        )
        which = rng.choice(4, shape, p=rng.dirichlet((1, 1, 1, 1)))
        return np.asarray(np.choose(which, kinds), dtype)


def placed(rng, array):
    """A tensor of these elements that lies in another order, with gaps."""
    if not array.ndim:
        return ndl.tensor(array, dtype=str(array.dtype))
    order = rng.permutation(array.ndim)
    wide = np.repeat(array.transpose(order), 2, 0)
    x = ndl.tensor(wide, dtype=str(array.dtype))[::2]
    return x.permute(tuple(int(i) for i in np.argsort(order)))


def gradients(function, arrays, tensors):
    """As `value_and_gradients`, of tensors that lie somewhere."""
    for x in tensors:
        x.requires_grad = True
    y = function(*tensors)
    if y.requires_grad:
        y.backward()
    pairs = zip(tensors, arrays, strict=True)
    return [y.numpy(), *(np.zeros_like(a) if x.grad is None else x.grad.numpy() for x, a in pairs)]


def check(edge, arrays, found):
    expected = edge.expected(arrays if edge in ROWS else [a.reshape(-1) for a in arrays])
    for what, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        theirs = theirs.reshape(ours.shape)
        bad = ~agree(ours, theirs, edge.units, edge.error(what, ours.dtype))
        assert not bad.any(), f"{edge} {what}: {describe(bad, arrays, ours, theirs)}"


def some_operands(rng, edge, dtype):
    """Arrays of one shape; elements may tie."""
    if edge in ROWS:
        x = numbers(rng, (int(rng.integers(1, 30)), 3), dtype)
        return [x[alike_in_any_order(x)]]
    least = 0 if rng.random() < 0.05 else 1
    shape = tuple(int(n) for n in rng.integers(least, 7, rng.integers(4)))
    if edge.name == "prelu":  # a weight for each element of a row
        shape = (int(rng.integers(1, 40)),)
    arrays = [numbers(rng, shape, dtype) for _ in edge.slopes]
    for a in arrays[1:]:
        ties = rng.random(shape) < rng.choice([0, 0.3])
        a[ties] = arrays[0][ties]
    return arrays


def test_values_and_gradients(fuzz):
    for rng in fuzz:
        edge = EDGES[rng.integers(len(EDGES))]
        dtype = ("float32", "float64")[rng.integers(2)]
        arrays = some_operands(rng, edge, dtype)
        if rng.random() < 0.1:
            found = compiled(edge.function, arrays, dtype)
        else:
            found = gradients(edge.function, arrays, [placed(rng, a) for a in arrays])
        check(edge, arrays, found)


def some_pool(rng, rank):
    size, stride = (tuple(int(n) for n in rng.integers(1, 4, rank)) for _ in range(2))
    dilation = tuple(int(n) for n in rng.integers(1, 6, rank))
    widest = [(d * (k - 1) + 1) // 2 for d, k in zip(dilation, size, strict=True)]
    padding = tuple(int(rng.integers(n + 1)) for n in widest)
    return Pool(size, stride, padding, dilation, bool(rng.integers(2)))


def test_max_pool(fuzz):
    for rng in fuzz:
        rank = int(rng.integers(1, 4))
        pool = some_pool(rng, rank)
        least = [
            max(1, d * (k - 1) + 1 - 2 * p)
            for d, k, p in zip(pool.dilation, pool.size, pool.padding, strict=True)
        ]
        space = [int(n + rng.integers(4)) for n in least]
        x = rng.integers(-2, 3, (2, int(rng.integers(1, 4)), *space)).astype(float)
        x[rng.random(x.shape) < rng.choice([0, 0.3])] = rng.choice([-np.inf, np.inf, np.nan])
        check_pool(pool, x, rng, compiled=rng.random() < 0.2)
