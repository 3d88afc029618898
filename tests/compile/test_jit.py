"""jit: tracing and retracing, errors that name the line, transforms, threads and processes."""

import copy
import gc
import pickle
import threading
import warnings

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.tree import leaves

from ..native.helpers import run_script
from .jit_steps import RNG, X, bits, network, training_step

pytestmark = pytest.mark.usefixtures("numpy_generator")


# Tracing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: [1 for _ in x if x.sum() > 0],
        lambda x: float(x.sum()),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: str(x),
        lambda x: x[x > 0],
        lambda x: np.from_dlpack(x),
        lambda x: memoryview(x.cached_data),
        lambda x: pickle.dumps(x),
    ],
)
def test_python_that_needs_elements_is_refused(ask):
    with pytest.raises(
        ndl.TraceError, match=r"not computed yet; .*\n  .*test_jit.py:\d+: lambda x"
    ):
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
    a, b = ndl.tensor([2, 3, -1, 5]), ndl.tensor([3, 0, 3, 1])
    power = ndl.jit(lambda a, b: a**b)
    np.testing.assert_array_equal(power(a, b).numpy(), (a**b).numpy())
    for function in (power, lambda a, b: a**b):
        with pytest.raises(ValueError, match="integers have no negative integer powers"):
            function(a, -b)


def test_the_error_names_the_line_and_the_remedy():
    def f(x):
        y = x * 2
        return 1 if float(y.sum()) > 0 else 2  # the line

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


# The reason, and what changes with n before each call.
CHANGES = {
    "Dropout.p is 0.09 instead of 0.08": lambda w, layers, n: setattr(layers[1], "p", n / 100),
    "Linear.weight is another one": lambda w, layers, n: setattr(
        layers[0], "weight", nn.Parameter(ndl.ones(2, 2))
    ),
    "a tensor from outside is float32(9,) instead of float32(8,)": lambda w, layers, n: setattr(
        w, "data", ndl.zeros(n)
    ),
    "a tensor from outside has another layout in memory": lambda w, layers, n: setattr(
        w, "data", ndl.zeros(20)[n : n + 2]
    ),
    "a tensor that it made is still used outside": lambda w, layers, n: setattr(w, "made", []),
}


@pytest.mark.parametrize("why", CHANGES)
def test_retracing_often_says_what_has_changed(why):
    w, layers = ndl.zeros(1), nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    @ndl.jit
    def f(x):
        y = layers(x)
        if hasattr(w, "made"):
            w.made.append(y)
        return y, w + 1

    with pytest.warns(RuntimeWarning) as caught:
        for n in range(1, 10):
            CHANGES[why](w, layers, n)
            f(ndl.ones(1, 2))
    assert str(caught[0].message).endswith(f"has been traced 9 times: {why}.")


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
    assert two.apply.cache_info() == (1, 1, 128, 1, 0)


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


def test_functions_that_have_no_name_are_not_pickled():
    f = ndl.jit(lambda x: x * 2)
    f(ndl.tensor(X))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(f)


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


def test_results_of_steps_do_not_keep_those_of_earlier_calls():
    w = ndl.tensor([2.0], requires_grad=True)

    @ndl.jit
    def step(x):
        y = w * x
        y.sum().backward()
        return y

    first = last = step(ndl.ones(1))
    for _ in range(5):
        last = step(last)
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


def test_what_is_not_compiled_has_no_graph():
    code = """
import needle as ndl
f = ndl.jit(lambda x: x * 2)
f(ndl.tensor(1.0))
try:
    f.graph
except ValueError as error:
    print(error)
"""
    assert "NEEDLE_JIT=off turns compiling off" in run_script(code, NEEDLE_JIT="off")
    assert "NEEDLE_BACKEND=np turns compiling off" in run_script(code, NEEDLE_BACKEND="np")


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


def test_a_process_that_is_forked_while_a_thread_traces_can_trace():
    code = """
import os, signal, threading
import needle as ndl

is_tracing, go_on = threading.Event(), threading.Event()

@ndl.jit
def slow(x):
    is_tracing.set()
    go_on.wait(0.5)
    return x * 2

x = ndl.ones(3)
thread = threading.Thread(target=slow, args=(x,))
thread.start()
is_tracing.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    os._exit(0 if ndl.jit(lambda x: x + 1)(x).tolist() == [2, 2, 2] else 1)
go_on.set()
thread.join()
print(os.waitpid(child, 0)[1])
"""
    assert run_script(code).strip() == "0"


def test_a_process_that_is_forked_while_a_thread_runs_a_function_can_run_it():
    code = """
import os, signal, threading, time
import needle as ndl

f = ndl.jit(lambda x: ndl.scan(lambda c, _: ((c @ x).tanh(), c.sum()), x, ndl.zeros(100))[1])
x = ndl.ones(300, 300) / 300
start = time.perf_counter()
expected = f(x).numpy()
seconds = time.perf_counter() - start
statuses = []
for i in range(5):
    thread = threading.Thread(target=f, args=(x,))
    thread.start()
    time.sleep(seconds / 4)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if (f(x).numpy() == expected).all() else 1)
    thread.join()
    statuses.append(os.waitpid(child, 0)[1])
print(statuses)
"""
    assert run_script(code).strip() == "[0, 0, 0, 0, 0]"


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


@pytest.mark.parametrize("show", [str, repr, lambda x: f"{x.sum():.2f}"])
def test_printing_a_traced_tensor_says_when_to_print(show):
    with pytest.raises(ndl.TraceError, match=r"return it, and print it after the call\.\n.*\.py:"):
        ndl.jit(lambda x: show(x * 2))(ndl.ones(2))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled):
    """It rests while a function is traced and compiled, also if that fails."""
    seen = []

    @ndl.jit
    def step(x, fail):
        seen.append(gc.isenabled())
        return float(x.sum()) if fail else x * 2

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        step(ndl.ones(3), False)
        with pytest.raises(ndl.TraceError, match="float"):
            step(ndl.ones(3), True)
        assert gc.isenabled() is enabled and seen == [False, False]
    finally:
        (gc.enable if before else gc.disable)()


def test_a_result_that_shows_some_elements_twice_and_some_not():
    # (4, 8) -> (2, 4, 4): as many elements as there are in memory, but not the same ones.
    a = ndl.tensor(np.arange(32.0).reshape(4, 8))

    def f(a):
        y = (a * 2)[:, ::2].broadcast_to((2, 4, 4))
        return y, y, a[:, 4:].broadcast_to((2, 4, 4))

    for fuse in (True, False):
        ours = ndl.jit(f, fuse=fuse)(a)
        for found, expected in zip(ours, f(a), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
            found[0] = 7.0  # its memory is its own
        assert (ours[0].numpy()[1] == f(a)[0].numpy()[1]).all()
