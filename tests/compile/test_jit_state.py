"""State of compiled functions, by reference: parameters, moments, gradients, random numbers."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim

from .jit_steps import NUMPY_STATE, RNG, X, bits, network, training_step

pytestmark = pytest.mark.usefixtures("numpy_generator")


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "lion": lambda p: optim.Lion(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_training_is_the_same(name, seeded, fuse):
    """Losses, parameters, gradients, running statistics; random numbers of both generators."""
    outcomes = []
    y = ndl.tensor(RNG.integers(0, 3, 6))
    for compiled in (False, True):
        model = network()
        if seeded:
            ndl.manual_seed(3)
        optimizer = OPTIMIZERS[name](model.parameters())
        step = training_step(model, optimizer)
        step = ndl.jit(step, fuse=fuse) if compiled else step
        losses = []
        for i in range(6):
            if i == 3:
                optimizer.lr = 0.003
            losses.append(step(ndl.tensor(X + i), y).item())
        found = [np.array(losses), *map(bits, model.state_dict().values())]
        outcomes.append(found + [bits(p.grad) for p in model.parameters()])
        if compiled:
            assert step.cache_info().misses == 1
    for eager, compiled in zip(*outcomes, strict=True):
        if fuse:
            np.testing.assert_allclose(eager, compiled, rtol=2e-3, atol=2e-5)
        else:
            np.testing.assert_array_equal(eager, compiled)


def test_loading_a_state_dict_needs_no_new_trace():
    model = network().eval()
    f = ndl.jit(model)
    x = ndl.tensor(X)
    first = bits(f(x))
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict({k: v * 2 for k, v in saved.items()})
    assert not np.array_equal(bits(f(x)), first)
    assert (bits(f(x)) == bits(model(x))).all()
    model.load_state_dict(saved)
    assert np.array_equal(bits(f(x)), first) and f.cache_info().misses == 1


def test_training_and_eval_are_traced_apart():
    model = network()
    f = ndl.jit(model)
    x = ndl.tensor(X)
    ndl.manual_seed(0)
    f(x)
    model.eval()
    assert (bits(f(x)) == bits(model(x))).all()
    model.train()
    f(x)
    model.eval()
    f(x)
    assert f.cache_info().misses == 2


def test_setting_the_seed_needs_no_new_trace():
    ndl.manual_seed(0)
    f = ndl.jit(lambda: ndl.rand(4))
    first, state = bits(f()), ndl.get_rng_state()
    second = bits(f())
    ndl.manual_seed(0)
    np.testing.assert_array_equal(bits(f()), first)
    ndl.manual_seed(5)
    assert not np.array_equal(bits(f()), first)
    ndl.set_rng_state(state)
    np.testing.assert_array_equal(bits(f()), second)
    assert f.cache_info().misses == 1


def test_attributes_of_modules_that_changed_trace_again():
    """A layer's settings, a parameter that is another tensor, layers and hooks that were added."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(1.0))
    layers = nn.ModuleList([model])
    mixed = nn.ModuleDict({"last": nn.Identity()})

    def forward(x):
        for layer in layers:
            x = layer(x)
        return mixed["last"](x)

    changes = [
        lambda: setattr(model[2], "p", 0.0),
        lambda: setattr(model[0], "weight", nn.Parameter(ndl.ones(4, 4))),
        lambda: layers.append(nn.Tanh()),
        lambda: layers.__setitem__(1, nn.Sigmoid()),
        lambda: mixed.__setitem__("last", nn.Tanh()),
        lambda: model[0].register_forward_hook(lambda module, args, out: out * 2),
        lambda: model[0].register_forward_hook(lambda module, args, out: out + 1),
    ]
    f = ndl.jit(forward, fuse=False)
    x = ndl.tensor(X)
    for misses, change in enumerate([lambda: None, *changes], 1):
        change()
        statistics = model[1].running_mean.clone()
        results = []
        for call in (f, f, forward):
            model[1].running_mean.data = statistics
            results.append((bits(call(x)), bits(model[1].running_mean)))
        for ours, eager in zip(results[0], results[2], strict=True):
            np.testing.assert_array_equal(ours, eager)
        assert f.cache_info().misses == misses


def test_a_method_of_an_object_of_its_own_traces_again():
    model = nn.Sequential(nn.Identity(), nn.Identity())
    f = ndl.jit(lambda x: model(x))
    assert f(ndl.ones(2)).tolist() == [1, 1]
    model[1].forward = lambda x: x * 3
    assert f(ndl.ones(2)).tolist() == [3, 3]
    del model[1].forward
    assert f(ndl.ones(2)).tolist() == [1, 1] and f.cache_info().misses == 2


def test_containers_of_modules_that_changed_trace_again():
    class Model(nn.Module):
        def __init__(self):
            self.scales = [2.0, (3.0, [1.0])]
            self.by_name = {"last": nn.Identity()}
            self.names = {"once"}

        def forward(self, x):
            x = self.by_name["last"](x) * self.scales[0] * self.scales[1][1][0]
            return x + 1 if "more" in self.names else x

    model = Model()
    changes = [
        lambda: model.scales.__setitem__(0, 4.0),
        lambda: model.scales[1][1].__setitem__(0, 5.0),
        lambda: model.by_name.__setitem__("last", nn.Tanh()),
        lambda: model.names.add("more"),
    ]
    f, x = ndl.jit(lambda x: model(x), fuse=False), ndl.tensor(X)
    for misses, change in enumerate([lambda: None, *changes], 1):
        change()
        for _ in range(3):
            np.testing.assert_array_equal(bits(f(x)), bits(model(x)))
        assert f.cache_info().misses == misses


def test_tensors_that_start_to_require_a_gradient_trace_again():
    w, v = ndl.tensor([1.0, 2.0], requires_grad=True), ndl.tensor([3.0, 4.0], requires_grad=True)

    @ndl.jit
    def step(x):
        (w * v * x).sum().backward(create_graph=False)

    x = ndl.tensor([1.0, 1.0])
    for frozen in (False, True, False):
        v.requires_grad_(not frozen)
        v.grad = None
        step(x)
        assert w.grad.tolist() == [3.0, 4.0]
        assert v.grad is None if frozen else v.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("change", ["freeze", "load"])
def test_step_counts_that_part_trace_again(change):
    """A parameter that is skipped once has a count, and a bias correction, of its own."""

    def trained(compiled):
        w, v = ndl.ones(2, requires_grad=True), ndl.ones(2, requires_grad=True)
        optimizer = optim.Adam([w, v], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (w * v * x).square().sum().backward(create_graph=False)
            optimizer.step()

        step = ndl.jit(step, fuse=False) if compiled else step
        for i in range(6):
            w.requires_grad_(change != "freeze" or i not in (1, 4))
            step(ndl.tensor([1.0, 2.0]) * (i + 1.0))
            if change == "load" and i == 2:
                saved = optimizer.state_dict()
                saved["state"][0]["step"] = ndl.tensor(40.0, dtype="float64")
                optimizer.load_state_dict(saved)
        return bits(w), bits(v)

    for ours, eager in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(ours, eager)


def test_a_group_of_parameters_that_was_added_is_updated():
    w, v = ndl.ones(2, requires_grad=True), ndl.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)
    step = ndl.jit(optimizer.step)
    w.grad, v.grad = ndl.ones(2), ndl.ones(2)
    step()
    optimizer.add_param_group({"params": [v]})
    step()
    assert (w.tolist(), v.tolist()) == ([0.0, 0.0], [0.5, 0.5])


def test_shared_views_keep_their_old_values():
    """Replacing state does not change memory that others can see."""
    w = ndl.tensor([1.0, 2.0])

    @ndl.jit
    def f():
        w.data = w * 2

    f()
    alias, view = w.detach(), w[:1]
    f()
    assert w.tolist() == [4.0, 8.0] and alias.tolist() == [2.0, 4.0] and view.tolist() == [2.0]
    before = w.realize_cached_data()
    handle = before._handle
    del before
    del handle
    f()
    assert w.tolist() == [8.0, 16.0]


def test_memory_is_reused_when_nobody_else_sees_it():
    w = ndl.tensor(np.ones(1000, np.float32))

    @ndl.jit
    def f():
        w.data = w + 1

    place = w.realize_cached_data()._handle.ptr()
    f()
    f()
    assert w.realize_cached_data()._handle.ptr() == place and w.numpy()[0] == 3


def test_gradients_reuse_their_memory():
    w = ndl.tensor(np.ones(1000, np.float32), requires_grad=True)

    @ndl.jit
    def f(x):
        (w * x).sum().backward()

    f(ndl.tensor([1.0]))
    grad, place = id(w.grad), w.grad.realize_cached_data()._handle.ptr()
    f(ndl.tensor([2.0]))
    assert (id(w.grad), w.grad.realize_cached_data()._handle.ptr()) == (grad, place)
    assert w.grad.numpy()[0] == 2.0


def test_writing_in_place_is_seen_by_all_views():
    w = ndl.tensor([1.0, 2.0, 3.0])
    view = w.detach()

    @ndl.jit
    def f(x):
        w[1:] = x
        view[:1] = 7.0
        return w * 1

    assert f(ndl.tensor([5.0, 6.0])).tolist() == [7.0, 5.0, 6.0]
    assert f(ndl.tensor([8.0, 9.0])).tolist() == [7.0, 8.0, 9.0]
    assert w.tolist() == view.tolist() == [7.0, 8.0, 9.0]


def test_tensors_that_come_to_share_written_memory_trace_again():
    a, b = ndl.zeros(3), ndl.ones(3)

    def f(x):
        before = b * 2
        a[0] = x
        return before + 1, b + 1

    compiled = ndl.jit(f)
    compiled(ndl.tensor(1.0))
    b.data = a.data
    for x in (5.0, 7.0):
        former, found = a.tolist(), compiled(ndl.tensor(x))
        assert found[0].tolist() == [2 * v + 1 for v in former]
        assert found[1].tolist() == [x + 1, 1.0, 1.0] and a.tolist() == [x, 0.0, 0.0]
    assert compiled.cache_info().misses == 2


def test_a_program_for_shared_memory_is_not_used_when_it_is_apart():
    layer = nn.Dropout(0.0)
    a = ndl.ones(2)
    b = a.detach()
    f = ndl.jit(lambda x: a * x + b if layer.training else a * x - b)
    x = ndl.ones(2)
    assert f(x).tolist() == [2.0, 2.0]
    b.data = ndl.ones(2) * 10
    layer.eval()
    assert f(x).tolist() == [-9.0, -9.0]
    layer.train()
    assert f(x).tolist() == [11.0, 11.0]


@pytest.mark.parametrize("is_writable", [True, False])
def test_memory_of_others_is_not_written(is_writable):
    theirs = np.ones(2, np.float32)
    theirs.flags.writeable = is_writable
    w = ndl.from_dlpack(theirs)

    @ndl.jit
    def double():
        w.data = w * 2

    double()
    memory = w.realize_cached_data()._handle.ptr()
    double()
    assert w.tolist() == [4.0, 4.0] and theirs.tolist() == [1.0, 1.0]
    assert w.realize_cached_data()._handle.ptr() == memory  # its own by now


def test_state_can_be_swapped():
    a, b = ndl.tensor([1.0]), ndl.tensor([2.0])

    @ndl.jit
    def swap():
        a.data, b.data = b.data, a.data

    swap()
    assert (a.item(), b.item()) == (2.0, 1.0)
    swap()
    assert (a.item(), b.item()) == (1.0, 2.0)


def test_gradients_accumulate():
    w = ndl.tensor([1.0, 2.0], requires_grad=True)

    @ndl.jit
    def f(x):
        (w * x).sum().backward(accumulate=True)

    for i in range(1, 4):
        f(ndl.tensor([1.0, 10.0]))
        assert w.grad.tolist() == [i, 10.0 * i]
    assert f.cache_info().misses == 2  # without and with a gradient
    w.grad = None
    f(ndl.tensor([1.0, 10.0]))
    assert w.grad.tolist() == [1.0, 10.0] and f.cache_info().misses == 2


def test_gradients_that_others_hold_stay():
    w = ndl.tensor([1.0], requires_grad=True)

    @ndl.jit
    def f(x):
        (w * x).sum().backward()

    f(ndl.tensor([1.0]))
    held = w.grad
    f(ndl.tensor([2.0]))
    assert (held.item(), w.grad.item()) == (1.0, 2.0)


def test_other_layouts_of_state_trace_again():
    w = ndl.tensor(X)
    f = ndl.jit(lambda: w.sum(0))
    f()
    w.data = ndl.tensor(X.T)
    assert (bits(f()) == bits(w.sum(0))).all() and f.cache_info().misses == 2


def test_state_made_inside_is_found_by_the_next_call():
    """A tensor that outlives the trace gets its data, and the next call reads it as state."""
    kept = {}

    @ndl.jit
    def count(x):
        if "total" not in kept:
            kept["total"] = ndl.zeros(2)
        kept["total"].data = kept["total"] + x
        return kept["total"] * 1

    x = ndl.tensor([1.0, 2.0])
    assert [count(x).tolist() for _ in range(4)] == [[i, 2.0 * i] for i in range(1, 5)]
    assert kept["total"].tolist() == [4.0, 8.0] and count.cache_info().misses == 2


def test_old_graphs_notice_that_parameters_changed():
    w = ndl.tensor([1.0, 2.0], requires_grad=True)
    y = (w * w).sum()

    @ndl.jit
    def f():
        w.data = w.detach() * 2

    f()
    with pytest.raises(ValueError, match="replaced"):
        y.backward()


def test_a_gradient_that_is_returned_is_the_one_that_the_tensor_has():
    """As in eager mode, and without a copy; who keeps one keeps its numbers."""
    w = ndl.tensor(X[:3].T, requires_grad=True)

    @ndl.jit
    def step(x):
        loss = ((x @ w) ** 2).sum()
        loss.backward(create_graph=False)
        return x.grad, {"w": w.grad, "loss": loss, "again": w.grad}

    x = ndl.tensor(X, requires_grad=True)
    dx, found = step(x)
    assert dx is x.grad and found["w"] is w.grad and found["again"] is w.grad
    assert not [k for k in step.kernels if k.name == "copy"]
    first = bits(found["w"])
    other = ndl.tensor(X + 1, requires_grad=True)
    assert step(other)[0] is other.grad
    np.testing.assert_array_equal(bits(found["w"]), first)
    assert not np.array_equal(bits(w.grad), first)
    expected = bits(w.grad)
    for _ in range(3):  # the memory of a gradient that nobody keeps is used again
        found = step(other)[1]
        np.testing.assert_array_equal(bits(found["w"]), expected)
        del found


def test_a_gradient_that_is_also_used_by_itself_may_be_replaced():
    w = ndl.ones(3, requires_grad=True)
    ndl.optim.SGD([w], lr=0.1).zero_grad()  # from now on, gradients add up
    former = w.grad = ndl.zeros(3)

    @ndl.jit
    def add(x):
        loss = (w * x + former).sum()
        loss.backward(create_graph=False)
        return loss

    assert [add(ndl.ones(3)).item() for _ in range(3)] == [3.0] * 3
    assert former.tolist() == [0.0] * 3 and w.grad.tolist() == [3.0] * 3


def test_gradients_that_were_one_tensor_add_up_apart():
    a, b = ndl.ones(2, requires_grad=True), ndl.ones(2, requires_grad=True)
    ndl.optim.SGD([a, b], lr=0.1).zero_grad()  # from now on, gradients add up
    a.grad = b.grad = ndl.zeros(2)

    @ndl.jit
    def add():
        (a + 2.0 * b).sum().backward(create_graph=False)

    for _ in range(3):
        add()
    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0] * 2, [6.0] * 2)


def test_hooks_that_come_and_go_trace_again():
    w = ndl.nn.Parameter(ndl.ones(3))

    @ndl.jit
    def gradient(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad, *ndl.autograd.grad((w * x).sum(), [w])

    def found():
        return [g.tolist() for g in gradient(ndl.ones(3))]

    assert found() == [[1, 1, 1]] * 2
    handle = w.register_hook(lambda g: g * 2)
    assert found() == [[2, 2, 2]] * 2
    other = w.register_hook(lambda g: g + 1)
    assert found() == [[3, 3, 3]] * 2
    handle.remove()
    other.remove()
    assert found() == [[1, 1, 1]] * 2
    found()
    assert gradient.cache_info().misses == 3


def test_a_hook_on_an_argument_does_not_trace_again():
    @ndl.jit
    def gradient(x):
        x.register_hook(lambda g: g * 2)
        x.sum().backward()
        return x.grad * 1

    for _ in range(3):
        assert gradient(ndl.ones(2, requires_grad=True)).tolist() == [2, 2]
    assert gradient.cache_info().misses == 1


SEEDING = {
    "manual_seed": lambda: ndl.manual_seed(5),
    "a generator of its own": lambda: ndl.Generator(5),
    "a state": lambda: ndl.set_rng_state({"generator": "philox", "seed": 1, "position": 0}),
    "NumPy's state": lambda: ndl.set_rng_state(NUMPY_STATE),
}


@pytest.mark.parametrize("how", SEEDING)
def test_a_function_that_seeds_is_refused(how):
    # The program would go on drawing where eager mode starts anew in every call.
    ndl.manual_seed(3)
    before = ndl.get_rng_state()
    with pytest.raises(ndl.TraceError, match=r"seeds no generator(.|\n)*test_jit_state.py:\d+"):
        ndl.jit(lambda x: (SEEDING[how](), x + ndl.rand(2))[1])(ndl.ones(2))
    assert ndl.get_rng_state() == before
