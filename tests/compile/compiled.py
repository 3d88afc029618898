"""What tests of passes share: random tensors, and the kernels of a compiled function."""

import numpy as np

import needle as ndl

RNG = np.random.default_rng(0)


def tensor(*shape):
    return ndl.tensor(RNG.standard_normal(shape).astype(np.float32))


def kernels(function, *args):
    """The kernels of the compiled function, whose results equal those of the calls as traced."""
    compiled, plain = ndl.jit(function), ndl.jit(function, fuse=False)
    for ours, theirs in zip(_all(compiled(*args)), _all(plain(*args)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    return [k.name.split()[0] for k in compiled.kernels]


def _all(x):
    return x if isinstance(x, tuple) else (x,)
