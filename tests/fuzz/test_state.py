"""Random programs that write state through overlapping views: compiled as eager, in every tier."""

import numpy as np
import pytest

import needle as ndl
from needle import config
from needle.compiler.fusion import prologues

from .programs import Program

if ndl.BACKEND == "np":
    pytest.skip("nothing is compiled", allow_module_level=True)

TIERS = ("unfused", "unfused", "tile", "tile", "tile", "tile", "tile", "tile", "native")


@pytest.fixture
def tier(monkeypatch):
    """A function that chooses how functions that are compiled from now on run."""
    # Joins small products with what computes their factors too.
    monkeypatch.setattr(prologues, "MANY_ELEMENTS", 64)

    def choose(name):
        monkeypatch.setattr(config, "JIT", "native" if name == "native" else "tile")
        return lambda f: ndl.jit(f, fuse=name != "unfused")

    return choose


def history(program, transform, seed):
    """What some calls give, and all that is outside after each; or the error of one."""
    env, rng = program.fresh(), np.random.default_rng(seed)
    function = transform(env["f"])
    found = []
    for _ in range(3):
        given = [program.env[name] for name in ("x0", "x1")]
        arrays = [rng.integers(0 if x.dtype == "bool" else -5, 6, x.shape) for x in given]
        tensors = [ndl.tensor(a, dtype=x.dtype) for a, x in zip(arrays, given, strict=True)]
        index = ndl.tensor(rng.integers(0, 4, 4))
        try:
            made = function(*tensors, index)
        except (ValueError, IndexError, TypeError) as error:
            return [*found, error]
        outside = [env[name] for name in program.outside]
        found += [t.numpy().copy() for t in (*made, *tensors, *outside)]
        if rng.random() < 0.3:  # eager code in between
            env["s0"][...] = 1
    return found


def test_compiled_programs_equal_eager_ones(fuzz, tier):
    for rng in fuzz:
        program, seed, name = Program(rng), rng.integers(2**32), rng.choice(TIERS)
        eager = history(program, lambda f: f, seed)
        try:
            compiled = history(program, tier(name), seed)
        except Exception as error:
            raise AssertionError(f"{name}:\n{program.source}") from error
        for a, b in zip(eager, compiled, strict=True):
            assert _is_same(a, b), f"{name}: eager gives\n{a!r}\ncompiled\n{b!r}\n{program.source}"


def _is_same(a, b):
    if isinstance(a, Exception) or isinstance(b, Exception):
        return type(a) is type(b)
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
