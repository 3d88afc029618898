"""Files that PyTorch wrote are read, and it reads ours; code in them never runs."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest

import needle.torch as face

real = pytest.importorskip("torch")


def content(t: Any) -> dict[str, Any]:
    base = t.arange(12.0).reshape(3, 4)
    return OrderedDict(
        base=base, turned=base.t(), part=base[1:, 2], long=t.arange(5), flag=t.tensor(True),
        half=t.ones(3).half(), brain=t.linspace(-3, 3, 7).bfloat16(), empty=t.zeros(0, 3),
        number=3, text="x", nested=[1, (2.5, None), {"a": t.zeros(())}], size=t.Size([2, 3]),
        dtype=t.float64, device=t.device("cpu"),
    )  # fmt: skip


def same(a: Any, b: Any) -> None:
    if hasattr(a, "stride"):
        assert a.double().tolist() == b.double().tolist()
        assert str(a.dtype) == str(b.dtype) and tuple(a.stride()) == tuple(b.stride())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert str(a) == str(b)


@pytest.mark.parametrize("is_zip", [True, False])
def test_both_ways(is_zip: bool) -> None:
    file = io.BytesIO()
    real.save(content(real), file, _use_new_zipfile_serialization=is_zip)
    file.seek(0)
    found = face.load(file)
    same(content(real), found)
    found["base"][1, 2] = 100
    assert found["part"][0] == 100 == found["turned"][2, 1]  # one memory
    back = io.BytesIO()
    face.save(content(face), back, _use_new_zipfile_serialization=is_zip)
    back.seek(0)
    same(content(face), real.load(back, weights_only=True))


def test_parameters() -> None:
    file = io.BytesIO()
    real.save(real.nn.Linear(2, 3).state_dict(), file)
    file.seek(0)
    assert face.load(file)["weight"].shape == (3, 2)
    file = io.BytesIO()
    face.save(face.nn.Parameter(face.ones(2)), file)
    file.seek(0)
    assert type(real.load(file, weights_only=True)) is real.nn.Parameter


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("code ran",)


def test_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for is_zip in (True, False):
        file = io.BytesIO()
        real.save({"x": Harmful()}, file, _use_new_zipfile_serialization=is_zip)
        file.seek(0)
        with pytest.raises(Exception, match="would run code"):
            face.load(file)
    assert capsys.readouterr().out == ""
    with pytest.raises(Exception, match="weights_only=True"):
        face.load(io.BytesIO(), weights_only=False)
