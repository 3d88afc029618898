"""Records of functions that make tensors. They have no gradient and no tensor inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import needle as ndl

from ..record import Call, Raises


@dataclass(frozen=True)
class CreationRecord:
    """A creation function: what it gives for some calls, and its errors."""

    name: str
    reference: Callable[..., Any] | None  # None: random, only shape and dtype are known
    calls: tuple[Call, ...]
    shapes: tuple[tuple[int, ...], ...] = ()  # for random ones, one per call
    dtype: str = "float32"
    errors: tuple[Raises, ...] = ()

    @property
    def operator(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(ndl.init, self.name)
        return found

    def __str__(self) -> str:
        return self.name


def sized(name):
    """What functions of sizes say to wrong ones."""
    return (
        Raises(lambda f: f(2, -1), ValueError,
               rf"\[{name}\] sizes must not be negative, got \(2, -1\)"),
        Raises(lambda f: f(2, 0.5), TypeError, rf"\[{name}\] a shape is made of integers, got"),
        Raises(lambda f: f(2, dtype="float8"), TypeError, r"\[dtype\] expected one of"),
        Raises(lambda f: f(2, device="tpu"), ValueError, r"\[device\] expected one of"),
    )  # fmt: skip


def shape_of(sizes):
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes


SIZES = (Call(2, 3), Call((2, 3)), Call(()), Call(0, 2))
LIKE = ndl.Tensor(np.arange(6.0).reshape(2, 3), dtype="float64")


def filled(name, value):
    return CreationRecord(name, lambda *s: np.full(shape_of(s), value, "float32"), SIZES,
                          errors=sized(name))  # fmt: skip


def like(name, value):
    return CreationRecord(name, lambda a: np.full(a.shape, value, "float64"), (Call(LIKE),),
                          dtype="float64")  # fmt: skip


CONSTANTS = (
    filled("zeros", 0),
    filled("ones", 1),
    filled("constant", 1),
    like("zeros_like", 0),
    like("ones_like", 1),
    CreationRecord("full", lambda s, v: np.full(s, v, "float32"), (Call((2, 3), 7), Call((), 0.5)),
                   errors=(
                       Raises(lambda f: f((2,), 300, dtype="int8"), ValueError,
                              r"\[full\] 300 does not fit into int8 \(-128 to 127\)"),
                       Raises(lambda f: f((2,), "a"), TypeError,
                              r"\[full\] expected an array or a number, got str"),
                       Raises(lambda f: f((-2,), 1), ValueError,
                              r"\[full\] sizes must not be negative"),
                   )),
    CreationRecord("full_like", lambda a, v: np.full(a.shape, v, "float64"), (Call(LIKE, 3),),
                   dtype="float64"),
    CreationRecord("empty", None, SIZES, ((2, 3), (2, 3), (), (0, 2)), errors=sized("empty")),
    CreationRecord("empty_like", None, (Call(LIKE),), ((2, 3),), dtype="float64"),
)  # fmt: skip

PATTERNS = (
    CreationRecord("arange", np.arange,
                   (Call(5), Call(2, 7), Call(1, 10, 3), Call(5, 0, -1), Call(0)),
                   dtype="int64",
                   errors=(Raises(lambda f: f(1, 5, 0), ValueError,
                                  r"\[arange\] expected a step other than 0"),)),
    CreationRecord("linspace", np.linspace,
                   (Call(0, 1, 5), Call(0.0, 1.0), Call(2, 3, 1), Call(0, 1, 0)),
                   errors=(Raises(lambda f: f(0, 1, -1), ValueError,
                                  r"\[linspace\] expected num >= 0, got -1"),)),
    CreationRecord("eye", np.eye, (Call(3), Call(2, 4), Call(3, 3, 1), Call(0)), errors=(
        Raises(lambda f: f(-1), ValueError, r"\[eye\] .*-1"),)),
    CreationRecord("one_hot", lambda n, i: np.eye(n)[np.asarray(i, np.int64)],
                   (Call(4, ndl.Tensor([0, 3, 1])),
                    Call(3, ndl.Tensor([[0, 1], [2, 2]], dtype="int8")),
                    Call(2, ndl.Tensor(1.0)), Call(3, np.array([0, 2]))),
                   errors=(Raises(lambda f: f(3, ndl.Tensor([5])), IndexError,
                                  r"\[(index|one_hot)\] index 5 is out of bounds .*3"),)),
)  # fmt: skip


def random(name, calls, shapes, *errors, dtype="float32"):
    return CreationRecord(name, None, calls, shapes, dtype, errors)


WEIGHTS = ndl.tensor([[0.1, 0.0, 3.0], [1.0, 1.0, 0.0]])

RANDOM = (
    random("rand", SIZES, ((2, 3), (2, 3), (), (0, 2)), *sized("rand"),
           Raises(lambda f: f(2, dtype="int32"), TypeError,
                  r"\[rand\] expected a floating dtype, got int32; cast the result")),
    random("randn", SIZES, ((2, 3), (2, 3), (), (0, 2)), *sized("randn"),
           Raises(lambda f: f(2, dtype="bool"), TypeError,
                  r"\[randn\] expected a floating dtype, got bool; cast the result")),
    random("randb", (Call(2, 3),), ((2, 3),), *sized("randb")[:2],
           Raises(lambda f: f(2, p=1.5), ValueError,
                  r"\[bernoulli\] expected a probability from 0 to 1, got 1\.5"), dtype="bool"),
    random("randint", (Call(0, 5, (2, 3)), Call(-3, 3, 4), Call(5, (2,))),
           ((2, 3), (4,), (2,)),
           Raises(lambda f: f(3, 3, (2,)), ValueError,
                  r"\[randint\] expected low < high, got 3 and 3"), dtype="int64"),
    random("multinomial", (Call(WEIGHTS, 2), Call(WEIGHTS[0], 1), Call(WEIGHTS, 5, True)),
           ((2, 2), (1,), (2, 5)),
           Raises(lambda f: f(ndl.ones(2, 2, 2), 1), ValueError,
                  r"\[multinomial\] expected floating weights \(C,\) or \(N, C\), got float32"),
           Raises(lambda f: f(WEIGHTS, 3), ValueError, r"of which at least 3 are not 0"),
           Raises(lambda f: f(-WEIGHTS, 1), ValueError, r"expected finite weights"), dtype="int64"),
    random("bernoulli", (Call(WEIGHTS[1]), Call(ndl.tensor(0.5)), Call(ndl.zeros(0, 2))),
           ((3,), (), (0, 2)),
           Raises(lambda f: f([0.5]), TypeError, r"\[bernoulli\] expected a Tensor, got list"),
           Raises(lambda f: f(ndl.tensor([1])), TypeError,
                  r"\[bernoulli\] expected floating probabilities, got int64; cast them"),
           Raises(lambda f: f(WEIGHTS), ValueError,
                  r"\[bernoulli\] expected probabilities from 0 to 1, got 0 to 3\."),
           Raises(lambda f: f(WEIGHTS * float("nan")), ValueError, r"\[bernoulli\] .* nan")),
    random("randperm", (Call(5), Call(0)), ((5,), (0,)), dtype="int64"),
    random("rand_like", (Call(LIKE),), ((2, 3),), dtype="float64"),
    random("randn_like", (Call(LIKE),), ((2, 3),), dtype="float64"),
    random("xavier_uniform", (Call(3, 4),), ((3, 4),)),
    random("xavier_normal", (Call(3, 4),), ((3, 4),)),
    random("kaiming_uniform", (Call(3, 4), Call(3, 4, shape=(2, 2))), ((3, 4), (2, 2)),
           Raises(lambda f: f(3, 4, nonlinearity="tanh"), AssertionError,
                  r"\[kaiming_uniform\] only the gain of 'relu' is known, got 'tanh'")),
    random("kaiming_normal", (Call(3, 4),), ((3, 4),),
           Raises(lambda f: f(3, 4, nonlinearity="tanh"), AssertionError,
                  r"\[kaiming_normal\] only the gain of 'relu' is known, got 'tanh'")),
)  # fmt: skip


def keep(a, *args, **kwargs):
    return np.asarray(a)


DATA = (
    CreationRecord("tensor", keep, (Call(np.arange(3)), Call(np.array(2)), Call([[1, 2], [3, 4]])),
                   dtype="int64", errors=(
                       Raises(lambda f: f(["a"]), TypeError, r"\[tensor\] expected real numbers"),
                   )),
    CreationRecord("asarray", keep, (Call(np.arange(3)),), dtype="int64"),
    CreationRecord("as_tensor", keep, (Call(np.arange(3)),), dtype="int64"),
    CreationRecord("from_numpy", keep, (Call(np.arange(3)), Call(np.arange(6).reshape(2, 3).T)),
                   dtype="int64",
                   errors=(Raises(lambda f: f([1]),
                                  TypeError,
                                  r"\[from_numpy\] expected a numpy\.ndarray, got list"),)),
    CreationRecord("from_dlpack", keep, (Call(np.arange(3)),), dtype="int64",
                   errors=(Raises(lambda f: f([1]), TypeError,
                                  r"\[from_dlpack\] expected an object with __dlpack__"),)),
)  # fmt: skip

RECORDS = (*CONSTANTS, *PATTERNS, *RANDOM, *DATA)
