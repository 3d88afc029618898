"""jit: the same numbers as eager, state by reference, retracing, errors that name the line."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.tree import leaves

from ..native.helpers import run_script

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4)).astype(np.float32)


def bits(x):
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)


# Arguments and results ---------------------------------------------------------------------------


def test_arguments_and_results_may_be_nested():
    @ndl.jit
    def f(pair, scale, options):
        a, b = pair
        return {"sum": a + b, "rest": [a * scale, options["bias"] - b], "name": options["name"]}

    options = {"bias": ndl.tensor([10.0]), "name": "x"}
    for scale in (2.0, 3.0, 2.0):
        out = f((ndl.tensor([1.0]), np.array([2.0], np.float32)), scale, options)
        assert out["sum"].tolist() == [3.0] and out["name"] == "x"
        assert [x.tolist() for x in out["rest"]] == [[scale], [8.0]]
    assert f.cache_info() == (1, 2, 2, 0)


def test_results_are_not_overwritten_by_the_next_call():
    f = ndl.jit(lambda x: x * 2)
    first = f(ndl.tensor([1.0]))
    second = f(ndl.tensor([2.0]))
    assert (first.item(), second.item()) == (2.0, 4.0)


def test_results_that_are_arguments_or_state_are_copies():
    w = ndl.tensor([1.0, 2.0])
    f = ndl.jit(lambda x: (x, w, x.T, w[1:]))
    x = ndl.tensor([[1.0, 2.0], [3.0, 4.0]])
    same, state, turned, part = f(x)
    w += 1
    assert same.tolist() == x.tolist() and turned.tolist() == [[1, 3], [2, 4]]
    assert state.tolist() == [1.0, 2.0] and part.tolist() == [2.0]


def test_strided_arguments_are_accepted():
    f = ndl.jit(lambda x: x.exp())
    x = ndl.tensor(X)
    for view in (x.T, x[::2, 1:], ndl.flip(x, 0)):
        assert (bits(f(view)) == bits(view.exp())).all()


def test_arguments_that_are_written_change():
    @ndl.jit
    def f(x, y):
        x += 1
        y.data = y * 2
        return x * y

    x, y = ndl.tensor([1.0]), ndl.tensor([3.0])
    assert f(x, y).item() == 12.0 and (x.item(), y.item()) == (2.0, 6.0)
    assert f(x, y).item() == 36.0 and (x.item(), y.item()) == (3.0, 12.0)


def test_writing_into_an_argument_is_seen_by_its_views():
    @ndl.jit
    def f(x):
        x[1:3] = 5.0
        return x.sum()

    whole = ndl.zeros(4)
    view = whole[1:].detach()
    assert f(whole).item() == 10.0 and view.tolist() == [5.0, 5.0, 0.0]
    assert f(view).item() == 15.0 and whole.tolist() == [0.0, 5.0, 5.0, 5.0]
    y = (whole.requires_grad_() * whole).sum()
    f(whole.detach())
    with pytest.raises(ValueError, match="changed in place"):
        y.backward()
    with pytest.raises(ValueError, match="broadcast view"):
        f(ndl.broadcast_to(ndl.zeros(1), (4,)))


def test_an_object_that_is_given_twice_is_one_object():
    @ndl.jit
    def f(x, y):
        x += 1
        return x * y

    x = ndl.tensor([1.0])
    assert f(x, x).item() == 4.0
    assert f(x, ndl.tensor([3.0])).item() == 9.0
    with pytest.raises(ndl.TraceError, match="also known to the function as another argument"):
        f(x, x.detach())


@pytest.mark.parametrize("change", ["data", "place", "gradient"])
def test_an_argument_that_is_changed_from_outside_is_refused(change):
    w = ndl.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)

    @ndl.jit
    def f(x):
        if change == "data":
            w.data = w + 1
        elif change == "place":
            with ndl.no_grad():
                w[0] = 7.0
        else:
            (x * x).sum().backward()
            optimizer.step()
        return x * 2

    assert f(ndl.tensor([1.0], requires_grad=True)).item() == 2.0
    with pytest.raises(ndl.TraceError, match="or from outside"):
        f(w)
    if change == "place":
        with pytest.raises(ndl.TraceError, match="or from outside"):
            f(w.detach().requires_grad_())


def test_the_gradient_of_an_argument_is_not_added_to():
    @ndl.jit
    def f(x):
        (x * x).sum().backward(accumulate=True)

    x = ndl.tensor([3.0], requires_grad=True)
    f(x)
    assert x.grad.tolist() == [6.0]
    with pytest.raises(ndl.TraceError, match="reads the gradient of an argument"):
        f(x)
    assert x.grad.tolist() == [6.0]


def test_gradients_of_arguments_are_cleared():
    x = ndl.tensor([1.0, 2.0], requires_grad=True)

    @ndl.jit
    def clear(x, again):
        x.grad = None
        if again:
            (x * 3).sum().backward(create_graph=False, accumulate=True)

    for again, expected in ((False, None), (True, [3.0, 3.0]), (True, [3.0, 3.0])):
        x.grad = ndl.ones(2)
        clear(x, again)
        assert (None if x.grad is None else x.grad.tolist()) == expected
    clear(np.ones(2), False)  # which has none


def test_arrays_of_numpy_have_no_gradient_and_stay():
    @ndl.jit
    def f(x):
        x.requires_grad_()
        (x * x).sum().backward(create_graph=False)
        x.data = x.detach() * 0
        return x.grad

    x = np.array([1.0, 2.0])
    for _ in range(2):
        assert f(x).tolist() == [2.0, 4.0] and x.tolist() == [1.0, 2.0]


def test_gradients_of_arguments_are_set():
    @ndl.jit
    def f(x):
        loss = (x * x * x).sum()
        loss.backward()
        return loss

    for value in (2.0, 3.0):
        x = ndl.tensor([value], requires_grad=True)
        f(x)
        assert x.grad.tolist() == [3 * value**2]
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("kind", [float, np.float32, np.float64, np.float16, complex])
def test_numbers_are_told_apart_by_sign_and_type(kind):
    seen = []

    @ndl.jit
    def f(x, number):
        seen.append(number)
        return x / number.real

    for value in (0.0, -0.0, float("nan"), -float("nan") * 0, 0.0, -0.0, float("nan")):
        found = f(ndl.ones(1), kind(value)).numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            np.testing.assert_array_equal(found, np.ones(1) / kind(value).real)
    assert len(seen) in (3, 4)  # NaN may have a sign


def test_a_tuple_of_tensors_is_an_argument():
    parts = ndl.split(ndl.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    f = ndl.jit(lambda parts: parts[0] * 2 + parts[1])
    assert f(parts).tolist() == [5.0, 8.0]
    assert ndl.jit(lambda x: x * parts[0] + parts[1])(ndl.ones(2)).tolist() == [4.0, 6.0]


def test_unhashable_arguments_are_refused():
    with pytest.raises(TypeError, match="hashable values as arguments, got set"):
        ndl.jit(lambda x: x)({1})


def test_the_reference_device_runs_too():
    f = ndl.jit(lambda x: (x @ x.T).exp().sum(1))
    x = ndl.tensor(X, device=ndl.cpu_numpy())
    np.testing.assert_array_equal(bits(f(x)), bits((x @ x.T).exp().sum(1)))
    assert f(x).device == ndl.cpu_numpy()


# State -------------------------------------------------------------------------------------------


NUMPY_STATE = ndl.get_rng_state()


def network():
    ndl.set_rng_state(NUMPY_STATE)
    np.random.seed(0)
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
    )


def training_step(model, optimizer):
    loss_of = nn.SoftmaxLoss()

    def step(x, y):
        optimizer.reset_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


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


@pytest.fixture(autouse=True)
def numpy_generator():
    before = ndl.get_rng_state()
    yield
    ndl.set_rng_state(before)


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


# Tracing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: 1 if x.sum() > 0 else 2,
        lambda x: float(x.sum()),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: str(x),
        lambda x: x[x > 0],
        lambda x: np.from_dlpack(x),
    ],
)
def test_python_that_needs_elements_is_refused(ask):
    with pytest.raises((ndl.TraceError, BufferError, TypeError)):
        ndl.jit(ask)(ndl.tensor([1.0]))


@pytest.mark.parametrize("decorate", [ndl.jit, ndl.jit(fuse=False)])
def test_what_is_no_function_is_refused(decorate):
    with pytest.raises(TypeError, match=r"\[jit\] expected a function, got int"):
        decorate(3)


def test_an_operator_does_not_rename_the_error():
    with pytest.raises(ndl.TraceError, match=r"^\[jit\] "):
        ndl.jit(lambda x: ndl.masked_select(x, x > 0))(ndl.ones(3))


def test_a_schedule_steps_outside():
    weight = nn.Parameter(ndl.ones(3))
    optimizer = ndl.optim.SGD([weight], lr=0.5)
    schedule = ndl.optim.StepLR(optimizer, step_size=1, gamma=0.5)

    @ndl.jit
    def wrong(x):
        schedule.step()
        return x * weight

    with pytest.raises(ndl.TraceError, match="call the scheduler's step between calls"):
        wrong(ndl.ones(3))


def test_integers_to_the_power_of_integers():
    """Eagerly a negative exponent is an error; compiled, nobody looks: the fraction is cut off."""
    a, b = ndl.tensor([2, 3, -1, 5]), ndl.tensor([3, 0, 3, 1])
    power = ndl.jit(lambda a, b: a**b)
    np.testing.assert_array_equal(power(a, b).numpy(), (a**b).numpy())
    np.testing.assert_array_equal(power(a, -b).numpy(), [0, 1, -1, 0])


def test_the_error_names_the_line_and_the_remedy():
    def f(x):
        y = x * 2
        return 1 if y.sum() > 0 else 2  # the line

    with pytest.raises(ndl.TraceError) as error:
        ndl.jit(f)(ndl.tensor([1.0]))
    assert "test_jit.py" in str(error.value) and "# the line" in str(error.value)
    assert "ndl.where" in str(error.value)


def test_an_exception_while_tracing_changes_nothing():
    model = network()
    optimizer = optim.Adam(model.parameters())
    step = training_step(model, optimizer)
    ndl.manual_seed(1)
    x, y = ndl.tensor(X), ndl.tensor(RNG.integers(0, 3, 6))
    step(x, y)
    before = [bits(v) for v in model.state_dict().values()]
    grads = [p.grad for p in model.parameters()]
    position = ndl.get_rng_state()["position"]

    @ndl.jit
    def failing(x, y):
        step(x, y)
        raise KeyError("stop")

    with pytest.raises(KeyError):
        failing(x, y)
    after = model.state_dict().values()
    assert all((a == bits(b)).all() for a, b in zip(before, after, strict=True))
    assert all(p.grad is g for p, g in zip(model.parameters(), grads, strict=True))
    assert ndl.get_rng_state()["position"] == position
    step(x, y)  # eager goes on


def test_tensors_from_outside_keep_their_history():
    w = ndl.tensor([3.0], requires_grad=True)
    y = w * w
    f = ndl.jit(lambda x: (x * y).sum().backward())
    for x in (1.0, 2.0):
        f(ndl.tensor([x]))
        assert w.grad.item() == 6.0 * x


def test_retracing_often_warns_with_the_reason():
    f = ndl.jit(lambda x: x + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 12):
            f(ndl.zeros(n))
    assert len(caught) == 1
    assert "float32(9,) instead of float32(8,)" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_nested_functions_become_one_program():
    inner = ndl.jit(lambda x: x * 2)
    outer = ndl.jit(lambda x: inner(x) + 1)
    assert outer(ndl.tensor([3.0])).item() == 7.0
    assert inner.cache_info().misses == 0 and inner(ndl.tensor([3.0])).item() == 6.0


def test_methods_have_programs_of_their_own():
    class Model:
        def __init__(self, w):
            self.w = ndl.tensor([w])

        @ndl.jit
        def apply(self, x):
            return self.w * x

    two, three = Model(2.0), Model(3.0)
    x = ndl.tensor([1.0])
    assert (two.apply(x).item(), three.apply(x).item(), two.apply(x).item()) == (2.0, 3.0, 2.0)
    assert two.apply.cache_info() == (1, 1, 1, 0)


class WithMethod(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(4, 4)

    @ndl.jit
    def forward(self, x):
        return self.layer(x)


@ndl.jit
def doubled(x):
    return x * 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_programs_of_their_own(copied):
    model, x = WithMethod(), ndl.tensor(X)
    before = bits(model(x))
    other = copied(model)
    np.testing.assert_array_equal(bits(other(x)), before)
    other.layer.weight.data = other.layer.weight * 2
    assert not np.array_equal(bits(other(x)), before)
    np.testing.assert_array_equal(bits(model(x)), before)
    f = ndl.jit(model.layer)
    f(x)
    np.testing.assert_array_equal(bits(copied(f)(x)), before)
    doubled(x)
    assert copied(doubled) is doubled


def test_transforms_compile():
    x = ndl.tensor(X, dtype="float64")

    def f(x):
        return (x.tanh() * x).sum()

    for transform in (ndl.grad(f), ndl.value_and_grad(f), ndl.hessian(f)):
        found, expected = leaves(ndl.jit(transform, fuse=False)(x)), leaves(transform(x))
        assert all((bits(a) == bits(b)).all() for a, b in zip(found, expected, strict=True))
    tangent = ndl.tensor(np.ones_like(X), dtype="float64")
    found = ndl.jit(lambda x, t: ndl.jvp(f, (x,), (t,)), fuse=False)(x, tangent)
    assert [y.item() for y in found] == [y.item() for y in ndl.jvp(f, (x,), (tangent,))]


def test_checkpoint_compiles():
    w = ndl.tensor(X, requires_grad=True)

    def f(x):
        y = ndl.checkpoint(lambda a: (a @ w).tanh(), x)
        y.sum().backward(create_graph=False)
        return y

    x = ndl.tensor(X.T.copy())
    expected = bits(f(x)), bits(w.grad)
    w.grad = None
    found = bits(ndl.jit(f)(x)), bits(w.grad)
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


def test_gradients_are_computed_inside():
    w = ndl.tensor([2.0], requires_grad=True)
    f = ndl.jit(lambda x: (w * x).sum())
    x = ndl.tensor([3.0])
    loss = f(x)
    assert loss.item() == 6.0 and loss.requires_grad
    with pytest.raises(ndl.TraceError, match="inside of the function"):
        (loss * 2).backward()
    with ndl.no_grad():
        assert not f(x).requires_grad


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f, x: ndl.grad(f)(x),
        lambda f, x: ndl.vjp(f, x)[1](ndl.tensor(1.0)),
        lambda f, x: ndl.jvp(f, (x,), (x,)),
        lambda f, x: ndl.hessian(f)(x),
        lambda f, x: ndl.grad(lambda x: ndl.jit(lambda: f(x))())(x),
        lambda f, x: ndl.checkpoint(f, x).backward(),
    ],
)
@pytest.mark.parametrize("f", [lambda x, w: (w * x).sum(), lambda x, w: x])
def test_transforms_of_compiled_functions_are_refused(f, differentiate):
    w, x = ndl.tensor(2.0, requires_grad=True), ndl.tensor(3.0, requires_grad=True)
    with pytest.raises(ndl.TraceError, match="inside of the function"):
        differentiate(ndl.jit(lambda x: f(x, w)), x)


def test_results_do_not_keep_those_of_earlier_calls():
    w = ndl.tensor([2.0], requires_grad=True)
    f = ndl.jit(lambda x: w * x)
    first = last = f(ndl.ones(1))
    for _ in range(5):
        last = f(last)
    assert first.inputs == last.inputs == (w,)

    @ndl.jit
    def step(x):
        loss = (w * x).sum()
        loss.backward(create_graph=False)
        return loss

    assert not step(ndl.ones(1)).inputs


def test_functions_run_as_they_are_when_compiling_is_off():
    code = """
import needle as ndl
seen = []
@ndl.jit
def f(x):
    seen.append(float(x))
    return x * 2
assert f(ndl.tensor(1.0)).item() == 2.0 and f(ndl.tensor(3.0)).item() == 6.0
print(seen, f.cache_info().misses)
"""
    assert run_script(code, NEEDLE_JIT="off").strip() == "[1.0, 3.0] 0"


# Threads and processes ---------------------------------------------------------------------------


def test_threads_call_one_function_at_once():
    f = ndl.jit(lambda x: (x @ x.T).exp().sum(), fuse=False)
    inputs = [ndl.tensor(RNG.standard_normal((20, 20)).astype(np.float32)) for _ in range(4)]
    expected = [(x @ x.T).exp().sum().item() for x in inputs]
    found = [[] for _ in inputs]

    def work(i):
        for _ in range(30):
            found[i].append(f(inputs[i]).item())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(x) for x in found] == [{e} for e in expected]


def test_other_threads_compute_while_one_traces():
    inside, done = threading.Event(), threading.Event()
    found = []

    def other():
        inside.wait()
        x = ndl.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        found.append(x.grad.tolist())
        done.set()

    def f(x):
        inside.set()
        assert done.wait(10)
        return x + 1

    thread = threading.Thread(target=other)
    thread.start()
    assert ndl.jit(f)(ndl.tensor([1.0])).item() == 2.0
    thread.join()
    assert found == [[2.0, 4.0]]


def test_a_forked_process_goes_on():
    # A process of its own: other tests import JAX, which warns when its process forks.
    code = """
import os
import needle as ndl
f = ndl.jit(lambda x: (x @ x).sum())
x = ndl.ones(300, 300)
expected = f(x).item()
child = os.fork()
if child == 0:
    os._exit(0 if f(x).item() == expected else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run_script(code).strip() == "0"


def test_an_exception_in_the_middle_of_a_run_leaves_state_alone():
    w = ndl.tensor([1.0, 2.0, 3.0])

    @ndl.jit
    def step(x, index):
        found = w[index]
        w.data = w * 2 + x
        return found

    good, bad = ndl.tensor([0, 1]), ndl.tensor([0, 7])
    step(ndl.ones(3), good)
    before = w.numpy()
    with pytest.raises(IndexError):
        step(ndl.ones(3), bad)
    np.testing.assert_array_equal(w.numpy(), before)
    np.testing.assert_array_equal(step(ndl.ones(3), good).numpy(), before[:2])
    np.testing.assert_array_equal(w.numpy(), before * 2 + 1)


def test_generators_and_coroutines_are_refused():
    def steps(x):
        yield x

    async def later(x):
        return x

    for function in (steps, later):
        with pytest.raises(TypeError, match="yields or awaits"):
            ndl.jit(function)
