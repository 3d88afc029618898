"""`axis` and `dim` mean the same: giving both is an error, never one of them ignored."""

import pytest

import needle as ndl

X = ndl.tensor([[3.0, 1.0], [2.0, 4.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda **k: ndl.sort(X, **k),
        lambda **k: ndl.argsort(X, **k),
        lambda **k: ndl.topk(X, 1, **k),
        lambda **k: ndl.stack([X, X], **k),
        lambda **k: ndl.concatenate([X, X], **k),
        lambda **k: ndl.array_split(X, 2, **k),
        lambda **k: ndl.chunk(X, 2, **k),
        lambda **k: ndl.repeat(X, 2, **k),
    ],
    ids="sort argsort topk stack concatenate array_split chunk repeat".split(),
)
def test_both_are_refused_and_either_works(call):
    with pytest.raises(TypeError, match=r"give one of axes, axis and dim, got \[1, 0\]"):
        call(axis=1, dim=0)
    assert str(call(axis=1)) == str(call(dim=1))
