"""Steady state: after its first calls a compiled step replaces no array from outside, makes only
what it returns, and is not traced again."""

import weakref

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.nn import functional as F

from .jit_steps import RNG

WARM = 3


def batches(*shape, classes=5):
    numbers = RNG.standard_normal((4, *shape)).astype(np.float32)
    labels = RNG.integers(0, classes, (4, shape[0]))
    return [(ndl.tensor(x), ndl.tensor(y)) for x, y in zip(numbers, labels, strict=True)]


def perceptron(*layers):
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), *layers, nn.Linear(8, 5))


class Step:
    """A training step, and the tensors that it changes."""

    def __init__(self, model, optimizer, before_update=lambda: None, after=lambda: None, more=()):
        self.model, self.optimizer = model, optimizer
        self.before_update, self.after, self.more = before_update, after, more

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward(create_graph=False)
        self.before_update()
        self.optimizer.step()
        self.after()
        return loss

    def changed(self):
        moments = [m for state in self.optimizer.state.values() for m in state.values()]
        gradients = [p.grad for p in self.optimizer.params if p.grad is not None]
        return [*self.model.parameters(), *self.model.buffers(), *moments, *gradients, *self.more]


def plain(name, **options):
    model = perceptron()
    return Step(model, getattr(optim, name)(model.parameters(), **options)), batches(7, 6)


def averaged_and_clipped():
    model = perceptron(nn.Dropout(0.2))
    params = model.parameters()
    average = optim.ExponentialMovingAverage(model, 0.9)
    more = [*average.averages, average.updates]
    optimizer = optim.AdamW(params, lr=0.01, weight_decay=0.1)
    clip = lambda: optim.clip_grad_norm_(params, 1.0)  # noqa: E731
    return Step(model, optimizer, clip, average.update, more), batches(7, 6)


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
    )
    return Step(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9)), batches(4, 3, 6, 6)


class Words(nn.Module):
    """(B, T) ids -> (B, V) scores, with an embedding that is also the last layer."""

    def __init__(self):
        self.embedding, self.cells = nn.Embedding(5, 6), nn.LSTM(6, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)

    def forward(self, ids):
        states, _ = self.cells(self.embedding(ids))
        return self.norm(states[:, -1]) @ self.embedding.weight.T


def language():
    model = Words()
    ids = [ndl.tensor(RNG.integers(0, 5, (4, 3))) for _ in range(4)]
    labels = [y for _, y in batches(4, 1)]
    return Step(model, optim.Adam(model.parameters(), lr=0.01)), [*zip(ids, labels, strict=True)]


STEPS = {
    "SGD": lambda: plain("SGD", lr=0.1),
    "Adagrad": lambda: plain("Adagrad", lr=0.1),
    "Adadelta": lambda: plain("Adadelta", lr=0.5),
    "RMSprop": lambda: plain("RMSprop", lr=0.1, momentum=0.9, centered=True),
    "Lion": lambda: plain("Lion", lr=0.01),
    "Muon": lambda: plain("Muon", lr=0.01),
    "Adafactor": lambda: plain("Adafactor", lr=0.01),
    "averaged and clipped": averaged_and_clipped,
    "convolutional": convolutional,
    "language": language,
}


def arrays(tensors):
    return [id(t.cached_data) for t in tensors]


@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_replaces_nothing_and_is_traced_once(name):
    step, data = STEPS[name]()
    compiled = ndl.jit(step)
    for i in range(WARM):
        compiled(*data[i])
    before, elements = arrays(step.changed()), [t.tolist() for t in step.changed()]
    traces, program = compiled.cache_info().misses, compiled.program
    known = program.binding.known.changes
    for x, y in data:
        compiled(x, y)
        assert arrays(step.changed()) == before
    assert compiled.cache_info().misses == traces and compiled.program is program
    assert program.binding.known.changes == known
    after = [t.tolist() for t in step.changed()]
    assert sum(a != b for a, b in zip(after, elements, strict=True)) > 3


def test_programs_that_use_the_same_tensors_do_not_disturb_each_other():
    """Such as training and evaluation, or batches of two sizes."""
    step, data = plain("Adam", lr=0.01)
    train = ndl.jit(step, dynamic=0)
    scores = ndl.jit(lambda x: step.model(x).detach())

    def all_programs():
        for x, y in data:
            train(x, y)
            train(x[:4], y[:4])
            scores(x)

    all_programs()
    before, made = arrays(step.changed()), train.cache_info().misses + train.cache_info().resized
    all_programs()
    assert arrays(step.changed()) == before
    assert train.cache_info().misses + train.cache_info().resized == made


def test_a_program_does_not_keep_the_memory_of_tensors_that_have_changed():
    w = ndl.zeros(1000)
    scaled = ndl.jit(lambda x: x * w)
    scaled(ndl.ones(1000))
    handle = weakref.ref(w.cached_data._handle)
    w.data = ndl.ones(1000)
    assert handle() is None
    assert scaled(ndl.ones(1000)).numpy().sum() == 1000


def test_eager_updates_after_compiled_gradients_stay_in_place():
    step, data = plain("Adam", lr=0.01)
    params, optimizer = step.optimizer.params, step.optimizer

    @ndl.jit
    def gradients(x, y):
        optimizer.reset_grad()
        loss = F.cross_entropy(step.model(x), y)
        loss.backward(create_graph=False)
        return loss

    def call(x, y):
        gradients(x, y)
        optimizer.step()

    call(*data[0])
    call(*data[1])
    before = arrays(params), arrays(p.grad for p in params)
    call(*data[2])
    assert (arrays(params), arrays(p.grad for p in params)) == before


def test_a_gradient_that_somebody_has_is_not_overwritten():
    w = ndl.ones(3, requires_grad=True)

    @ndl.jit
    def slope(x):
        w.grad = None
        (w * x).sum().backward(create_graph=False)

    slope(ndl.full((3,), 2.0))
    first, shared = w.grad, w.grad.detach()
    slope(ndl.full((3,), 3.0))
    w.grad = w.grad.detach()
    slope(ndl.full((3,), 4.0))
    assert first.tolist() == shared.tolist() == [2.0] * 3
    assert w.grad.tolist() == [4.0] * 3


def adding_up():
    w = ndl.ones(3, requires_grad=True)
    optim.SGD([w], lr=0.1).zero_grad()  # from now on, gradients add up
    w.grad = ndl.zeros(3)

    @ndl.jit
    def add(x):
        (w * x).sum().backward(create_graph=False)

    return w, add


def test_gradients_that_add_up_over_calls_stay_in_place():
    w, add = adding_up()
    place = id(w.grad.cached_data)
    for x in (1.0, 2.0, 3.0):
        add(ndl.full((3,), x))
        assert id(w.grad.cached_data) == place
    assert w.grad.tolist() == [6.0] * 3
    assert add.cache_info().misses == 1 and add.program.binding.known.changes == 0


def test_a_sum_of_gradients_that_somebody_has_is_not_overwritten():
    w, add = adding_up()
    add(ndl.ones(3))
    held = w.grad
    add(ndl.ones(3))
    other = w.grad.detach()
    add(ndl.ones(3))
    assert (held.tolist(), other.tolist(), w.grad.tolist()) == ([1.0] * 3, [2.0] * 3, [3.0] * 3)
