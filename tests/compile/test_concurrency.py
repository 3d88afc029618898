"""Small calls that run side by side: which ones, and that nothing depends on it."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.compiler.run.concurrency import _bytes, concurrent_sections, meet


def training_step(depth=3, batch=20):
    """A step of a small network, its model and a batch."""
    ndl.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 4))
    optimizer = ndl.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.reset_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    x = ndl.tensor(rng.standard_normal((batch, 16)).astype(np.float32))
    return step, model, (x, ndl.tensor(rng.integers(0, 4, batch)))


def plan_of(step, batch):
    compiled = ndl.jit(step)
    compiled(*batch)
    return compiled.program.plan


def test_the_gradients_of_a_product_are_two_sections():
    step, _, batch = training_step()
    plan = plan_of(step, batch)
    found = concurrent_sections(plan)
    assert len(found) >= 3
    for sections in found:
        firsts = [plan.nodes[section[0]].kernel for section in sections]
        assert firsts[:2] == ["matmul", "matmul"]


def test_sections_hold_neighbouring_calls_in_order():
    step, _, batch = training_step()
    for sections in concurrent_sections(plan_of(step, batch)):
        numbers = sorted(n for section in sections for n in section)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert all(section == sorted(section) for section in sections)


def test_no_section_writes_what_another_one_uses():
    step, _, batch = training_step(depth=5)
    plan = plan_of(step, batch)
    for sections in concurrent_sections(plan):
        for section in sections:
            written = [b for n in section for b in _bytes(plan, plan.nodes[n].outs)]
            others = [plan.nodes[n] for other in sections if other is not section for n in other]
            used = [b for node in others for b in _bytes(plan, (*node.ins, *node.outs))]
            assert not meet(written, used)


def test_the_memory_of_a_result_that_replaces_state_is_the_states_too():
    w = ndl.ones(8, 8, requires_grad=True)

    def step(x):
        w.data = w.detach() + x
        return x @ x

    plan = plan_of(step, (ndl.ones(8, 8),))
    (update,) = [n for n in plan.nodes if n.kernel == "binary"]
    (state,) = [x for x in update.ins if x.value in plan.donations.values()]
    place = plan.places[state.value]
    assert (place.slot, place.offset, place.offset + 256) in _bytes(plan, update.outs)


def test_large_products_have_no_sections():
    w = ndl.randn(200, 200)
    w.requires_grad = True

    def step(x):
        (x @ w).sum().backward(create_graph=False)
        grad, w.grad = w.grad, None
        return grad

    assert concurrent_sections(plan_of(step, (ndl.randn(200, 200),))) == []


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_those_of_calls_one_by_one(threads, monkeypatch):
    before = ndl.get_num_threads()
    results = []
    try:
        ndl.set_num_threads(threads)
        for has_sections in (True, False):
            if not has_sections:
                name = "needle.compiler.run.program.concurrent_sections"
                monkeypatch.setattr(name, lambda plan: [])
            step, model, batch = training_step()
            compiled = ndl.jit(step)
            losses = [compiled(*batch).item() for _ in range(20)]
            results.append([losses, *(p.numpy().tolist() for p in model.parameters())])
    finally:
        ndl.set_num_threads(before)
    assert results[0] == results[1]


def test_an_error_in_a_lane_reaches_the_caller():
    w = ndl.randn(6, 6)

    def step(x, ids):
        a, b = x @ w, w @ x
        return a[ids], b * 2

    compiled = ndl.jit(step)
    x = ndl.randn(6, 6)
    compiled(x, ndl.tensor([0, 5]))
    with pytest.raises(IndexError):
        compiled(x, ndl.tensor([0, 6]))
    compiled(x, ndl.tensor([1, 2]))
