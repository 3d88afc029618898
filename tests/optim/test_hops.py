"""A step of an optimizer is few Python calls: what runs per parameter is one tile program."""

import gc
import sys

import pytest

import needle as ndl
from needle import nn


@pytest.mark.parametrize("make", [ndl.optim.Adam, ndl.optim.AdamW, ndl.optim.SGD])
def test_a_step_of_two_parameters_is_at_most_a_hundred_calls(make):
    model = nn.Linear(8, 4)
    optimizer = make(model.parameters(), lr=1e-3)
    x = ndl.ones(2, 8)
    for _ in range(2):  # the first step traces the rule
        model(x).sum().backward()
        optimizer.step()
    model(x).sum().backward()
    calls = []
    before = sys.getprofile()
    gc.disable()  # what a collection calls is not the step's
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code) if event == "call" else None)
    try:
        optimizer.step()
    finally:
        sys.setprofile(before)
        gc.enable()
    assert 10 < len(calls) <= 100
