"""Tensors: dtypes, Python's questions, printing, and exchange."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import needle.torch as face

real = pytest.importorskip("torch")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64")  # fmt: skip


def operands(t: Any, name: str) -> list[Any]:
    kind = getattr(t, name)
    return [t.ones(2, dtype=kind), t.ones((), dtype=kind)]


@pytest.mark.parametrize("pair", [*itertools.product(DTYPES, DTYPES)], ids="-".join)
def test_promotion(pair: tuple[str, str]) -> None:
    results = []
    for t in (real, face):
        lists = [operands(t, name) for name in pair]
        found = [a * b for a in lists[0] for b in lists[1]] + [
            a == b for a, b in zip(*lists, strict=True)
        ]
        found += [a / b for a in lists[0] for b in lists[1]]
        results.append(
            [str(x.dtype) for x in found] + [str(t.promote_types(*(getattr(t, n) for n in pair)))]
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("name", DTYPES)
def test_numbers_are_weak(name: str) -> None:
    results = []
    for t in (real, face):
        found = [x * n for x in operands(t, name) for n in (True, 2, 2.5)]
        found += [x.sum() for x in operands(t, name)] + [t.full((2,), n) for n in (True, 2, 2.5)]
        results.append([str(x.dtype) for x in found])
    assert results[0] == results[1]


PRINTED = [
    lambda t: t.tensor([1.0, 2.0]), lambda t: t.tensor([1.5, 1e-7, 3e5]), lambda t: t.zeros(2, 3),
    lambda t: t.arange(5), lambda t: t.tensor([True, False]), lambda t: t.tensor(3.0),
    lambda t: t.zeros(0), lambda t: t.zeros(0, 3, dtype=t.int64), lambda t: t.ones(2, dtype=t.float64),  # noqa: E501
    lambda t: t.arange(4, dtype=t.int32).reshape(2, 2), lambda t: t.arange(2000.0),
    lambda t: t.arange(3000.0).reshape(10, 300), lambda t: t.tensor([float("nan"), float("inf"), 1.0]),  # noqa: E501
    lambda t: t.arange(24.0).reshape(2, 3, 4), lambda t: t.ones(3, requires_grad=True),
    lambda t: t.linspace(-1, 1, 30), lambda t: t.ones(2, requires_grad=True) * 2,
    lambda t: t.tensor([1e10, 1.0]), lambda t: t.tensor(2.5).half(), lambda t: t.ones(2).size(),
    lambda t: t.float32, lambda t: t.device("cpu"), lambda t: t.device("cuda", 1),
    lambda t: t.arange(6.0).reshape(2, 3).max(1), lambda t: t.finfo(t.float32), lambda t: t.iinfo(t.int8),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("make", PRINTED)
def test_printing(make: Any) -> None:
    assert repr(make(face)) == repr(make(real))


def test_pythons_questions() -> None:
    x = face.arange(4)
    assert 3 in x and 7 not in x and len(x) == 4 and [int(v) for v in x] == [0, 1, 2, 3]
    assert [10, 20, 30][face.tensor(1)] == 20
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    assert bool(face.tensor(2)) and not face.tensor(0.0)
    assert (x == None) is False  # noqa: E711 - what programs write
    assert f"{face.tensor(1.25):.1f}" == "1.2"
    assert {x: 1}[x] == 1


def test_exchange() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = face.from_numpy(array)
    x[0, 0] = 9
    assert array[0, 0] == 9 and np.asarray(x) is not None
    assert isinstance(np.float32(2) * face.ones(2), face.Tensor)
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(again) is face.Tensor and again.tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="requires grad"):
        face.ones(2, requires_grad=True).numpy()


def test_old_constructors() -> None:
    assert face.Tensor(2, 3).shape == (2, 3)
    assert face.Tensor([1, 2]).dtype is face.float32
    assert face.LongTensor([1, 2]).dtype is face.int64
    assert isinstance(face.ones(2), face.FloatTensor)
    assert face.ones(2).type() == "torch.FloatTensor"
    assert face.ones(2).type(torch_class()).dtype is face.float64


def torch_class() -> Any:
    return face.DoubleTensor


def test_gpus_are_errors() -> None:
    assert not face.cuda.is_available()
    for move in (lambda: face.ones(2).cuda(), lambda: face.ones(2).to("cuda"),
                 lambda: face.zeros(2, device="cuda")):  # fmt: skip
        with pytest.raises(AssertionError, match="CUDA"):
            move()


def test_missing_names_are_told() -> None:
    with pytest.raises(AttributeError, match=r"complex64.*needle\.torch"):
        _ = face.complex64
