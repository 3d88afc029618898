"""Names of PyTorch that are not here: each is absent, and its error says what to write instead."""

from __future__ import annotations

import importlib

import pytest

import needle as ndl
from needle import nn, optim
from needle.compat.absent import INSTEAD

NAMES = [(module, name) for module, names in INSTEAD.items() for name in names]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_the_error_says_what_to_write_instead(module, name):
    owner = importlib.import_module(module)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    text = f"module {module!r} has no attribute {name!r}; {INSTEAD[module][name]}."
    assert str(caught.value) == text


def test_other_names_are_told_as_python_does():
    for owner in (ndl, nn, nn.functional, optim, optim.lr_scheduler, ndl.autograd):
        with pytest.raises(AttributeError, match=rf"^module '{owner.__name__}' has no .* 'nope'$"):
            owner.nope  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nope'"):
        from needle.nn import nope  # noqa: F401


def test_positions_are_not_in_what_max_gives():
    best = ndl.zeros(2, 3).max(1)
    with pytest.raises(AttributeError, match=r"has no indices: max, .* argmax\(axis\)"):
        best.indices  # noqa: B018
    with pytest.raises(AttributeError, match="has no values: max, min, sort"):
        best.values  # noqa: B018


def test_there_is_no_gpu():
    for thing in (ndl.zeros(2), nn.Linear(2, 2)):
        with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
            thing.cuda()


def test_retain_grad_is_not_needed():
    x = ndl.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4, 4]
