"""What lives how long: the counter of values, training loops, and the end of the program."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd, nn
from needle.autograd import gc as cycles

from .helpers import leaf, plain


@contextmanager
def same_count() -> Iterator[None]:
    """As many values live after the block as before."""
    gc.collect()
    before = autograd.TENSOR_COUNTER
    yield
    gc.collect()
    after = autograd.TENSOR_COUNTER
    assert after == before


def test_values_are_counted_while_they_live() -> None:
    with same_count():
        before = autograd.TENSOR_COUNTER
        x = leaf([1.0])
        y = x * 2
        z = (y + 1).detach()
        assert autograd.TENSOR_COUNTER - before == 3
        del x, y, z


def test_constructor_that_fails() -> None:
    with same_count(), pytest.raises(TypeError):
        ndl.Tensor("text")


def test_operator_that_fails() -> None:
    with same_count(), pytest.raises(ValueError, match="add"):
        _ = leaf([1.0, 2.0]) + leaf([1.0, 2.0, 3.0])


def test_subclass_that_fails_before_the_constructor() -> None:
    class Early(ndl.Tensor):
        def __init__(self) -> None:
            raise RuntimeError

    with same_count(), pytest.raises(RuntimeError):
        Early()


def test_copies_and_pickles_are_counted() -> None:
    with same_count():
        x = leaf([1.0])
        before = autograd.TENSOR_COUNTER
        copies = [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
        assert autograd.TENSOR_COUNTER - before == 3
        del x, copies


def test_transforms_and_checkpoints_leave_nothing() -> None:
    with same_count():
        x = plain([1.0, 2.0])
        ndl.hessian(lambda x: (x**3).sum())(x)
        ndl.jvp(ndl.grad(lambda x: ndl.checkpoint(lambda x: (x**3).sum(), x)), (x,), (x,))
        del x


class Model:
    """Two layers on fixed data, trained by hand."""

    def __init__(self) -> None:
        self.w1 = ndl.Tensor(np.random.randn(4, 8) * 0.5)
        self.w2 = ndl.Tensor(np.random.randn(8, 1) * 0.5)
        self.x = np.random.randn(16, 4).astype(np.float32)

    def loss(self, **options: Any) -> ndl.Tensor:
        x = ndl.Tensor(self.x, **options)
        y = (x @ self.w1).tanh() @ self.w2
        return ((y - 1) ** 2).sum()

    def update(self) -> None:
        for w in (self.w1, self.w2):
            w.data = w.data - 0.001 * w.grad.data
            w.grad = w.grad.detach()


def live_bytes() -> int:
    return int(ndl.memory_stats()["live"])


def test_ten_thousand_steps_hold_memory_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the defaults: inputs require gradients, gradients are recorded."""
    gc.collect()  # what other tests left, and the limit that their graphs may have raised
    monkeypatch.setattr(cycles, "_most_values", cycles.FEW_VALUES)
    model = Model()
    counts, after_collection, losses = [], [], []
    for step in range(1, 10_001):
        loss = model.loss()
        loss.backward()
        model.update()
        counts.append(autograd.TENSOR_COUNTER)
        if step in (100, 1000, 10_000):
            gc.collect()
            after_collection.append((autograd.TENSOR_COUNTER, live_bytes()))
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert max(counts) < 1387  # what the course's memory checks allow
    assert len(set(after_collection)) == 1


def test_steps_on_plain_inputs_make_no_cycles() -> None:
    model = Model()
    gc.collect()
    gc.disable()
    try:
        counts = []
        for _ in range(50):
            loss = model.loss(requires_grad=False)
            loss.backward()
            model.update()
            del loss
            counts.append(autograd.TENSOR_COUNTER)
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1


def test_steps_without_graph_make_no_cycles() -> None:
    model = Model()
    gc.collect()
    gc.disable()
    try:
        counts = []
        for _ in range(50):
            loss = model.loss()
            loss.backward(create_graph=False)
            model.update()
            del loss
            counts.append(autograd.TENSOR_COUNTER)
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1


def test_backward_without_graph_frees_adjoints_on_the_way() -> None:
    x = ndl.Tensor(np.ones(1000))
    y = x
    for _ in range(50):
        y = y.tanh()
    del x
    ndl.reset_peak_memory()
    before = live_bytes()
    y.backward(create_graph=False)
    peak = int(ndl.memory_stats()["peak"])
    assert peak - before < 10 * 4000


def test_backward_without_graph_frees_data_on_the_way() -> None:
    x = leaf(np.ones(1000, np.float32))
    y = x
    for _ in range(50):
        y = y.tanh()
    y = y.sum()
    before = live_bytes()
    live: list[int] = []
    x.register_hook(lambda _: live.append(live_bytes()))
    y.backward(create_graph=False)
    assert live[0] < before - 40 * 4000
    assert x.grad.shape == (1000,)


def test_a_layer_keeps_three_activations_for_its_gradient() -> None:
    """Of convolution, batch norm and ReLU: a result each, and nothing of what lies between."""
    layer = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    x = ndl.randn(4, 8, 16, 16)
    layer(x)  # running statistics have their memory now
    gc.collect()
    before = live_bytes()
    y = layer(x)
    activation = 4 * 8 * 16 * 16 * 4
    assert y.shape == x.shape
    assert 3 * activation <= live_bytes() - before < 3.2 * activation


def test_one_large_graph_does_not_let_cycles_pile_up() -> None:
    x = leaf([1.0])
    for _ in range(20_000):
        x = x + 1
    x.backward()
    del x
    counts = []
    for _ in range(1000):
        x = leaf([1.0])
        (x * x).tanh().backward()
        counts.append(autograd.TENSOR_COUNTER)
    assert max(counts[200:]) < 1100


def test_end_of_the_program_is_silent() -> None:
    code = (
        "import needle as ndl\n"
        "x = ndl.Tensor([1.0, 2.0])\n"
        "y = (x * x).tanh()\n"
        "y.backward()\n"
        "x.keep = [y, x.grad]\n"
        "z = x\n"
        "for _ in range(100_000): z = z + 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
