"""Fusion: what becomes one program, and what must not."""

import numpy as np
import pytest

import needle as ndl
from needle.compiler.fusion.fuse import is_builtin
from needle.compiler.fusion.spaces import count_of, refinement, split
from needle.ndarray import functions
from needle.tile.program import Symbol, cast, program, row_index

RNG = np.random.default_rng(0)


def tensor(*shape):
    return ndl.tensor(RNG.standard_normal(shape).astype(np.float32))


def kernels(function, *args):
    f = ndl.jit(function)
    for ours, theirs in zip(_all(f(*args)), _all(function(*args)), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
    return [k.name.split()[0] for k in f.kernels]


def _all(x):
    return x if isinstance(x, tuple) else (x,)


def test_elementwise_chains_are_one_program():
    f = ndl.jit(lambda x, y: ((x * 2 + y).tanh() / x).exp())
    f(tensor(3, 4), tensor(3, 4))
    (kernel,) = f.kernels
    assert [line.split(" = ")[-1].split()[0] for line in kernel.text.splitlines()[1:]] == [
        "load", "load", "constant", "multiply", "add", "tanh", "divide", "exp", "store",
    ]  # fmt: skip


def test_rows_are_one_program():
    def softmax(x):
        e = (x - x.max(-1, keepdims=True)).exp()
        return e / e.sum(-1, keepdims=True)

    assert kernels(softmax, tensor(6, 40)) == ["run"]
    assert kernels(softmax, tensor(2, 3, 40)) == ["run"]


def test_normalization_over_rows_is_one_program():
    w = tensor(40)

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / (var + 1e-5).sqrt() * w

    assert kernels(norm, tensor(6, 40)) == ["run"]


def test_sums_of_columns_take_their_inputs_along():
    assert kernels(lambda x, y: (x * y).sum(0), tensor(50, 12), tensor(50, 12)) == ["run"]


def test_reshaped_results_are_followed():
    w = tensor(12)

    def f(x):
        y = (x * 2).reshape((10, 12)) + w
        return y.reshape((2, 5, 12)).tanh()

    assert kernels(f, tensor(2, 5, 12)) == ["run"]


def test_channels_last_pictures_are_followed():
    """Sums over all but the channels are sums of columns when channels lie innermost."""
    x = ndl.tensor(RNG.standard_normal((2, 4, 4, 8)).astype(np.float32)).permute((0, 3, 1, 2))

    def f(y):
        return (x * 2).sum((0, 2, 3))

    found = ndl.jit(f)
    np.testing.assert_allclose(found(x).numpy(), f(x).numpy(), rtol=1e-5)


def test_transposed_uses_are_not_mixed_up():
    def f(x):
        y = x * 2
        return y + y.T.exp()

    assert kernels(f, tensor(5, 5)) == ["run", "add"]  # the exponential lies as y.T does


def test_what_waits_for_another_kernel_is_not_pulled_before_it():
    def f(x, w):
        y = x.tanh()
        return y + (y @ w)

    assert kernels(f, tensor(4, 4), tensor(4, 4)) == ["tanh", "matmul", "add"]


def test_groups_that_wait_for_each_other_by_way_of_an_earlier_call_stay_apart():
    x, y, w = tensor(4, 4), tensor(4, 4), tensor(4, 4)

    def f(x, y):
        early = x.exp()
        product = early @ w  # comes before `late`, but would wait for it once early + late.T joins
        late = y.exp()
        return early + late.T, late + product

    assert sorted(kernels(f, x, y)) == ["add", "exp", "matmul", "run"]


def test_values_that_others_need_are_stored_too():
    def f(x, w):
        y = x * 2
        z = y.tanh()
        return z, y @ w

    assert kernels(f, tensor(4, 4), tensor(4, 4)) == ["run", "matmul"]


def test_an_update_is_one_kernel_per_parameter():
    w = ndl.nn.Parameter(RNG.standard_normal((30, 20)).astype(np.float32))
    optimizer = ndl.optim.AdamW([w], lr=0.01)

    @ndl.jit
    def step(x):
        optimizer.reset_grad()
        (x @ w).sum().backward(create_graph=False)
        optimizer.step()

    step(tensor(4, 30))
    large = [
        k for k in step.kernels if "float32[30, 20]" in k.outputs or "float32[600]" in k.outputs
    ]
    assert len(large) == 2  # the gradient's product, and the update
    place = [p.realize_cached_data()._handle.ptr() for p in (w, *optimizer.state[w].values())]
    step(tensor(4, 30))
    assert place == [
        p.realize_cached_data()._handle.ptr() for p in (w, *optimizer.state[w].values())
    ]


def test_updates_of_all_parameters_are_one_call():
    shapes = [(30, 20), (20,), (20, 7), (7,)]
    starts = [RNG.standard_normal(s).astype(np.float32) for s in shapes]
    x, outcomes = tensor(4, 30), []
    for compiled in (False, True):
        params = [ndl.nn.Parameter(p) for p in starts]
        optimizer = ndl.optim.Adam(params, lr=0.01)

        def step(x):
            optimizer.reset_grad()  # noqa: B023
            a, b, c, d = params  # noqa: B023
            (((x @ a + b).tanh() @ c + d) ** 2).sum().backward(create_graph=False)
            optimizer.step()  # noqa: B023

        run = ndl.jit(step) if compiled else step
        for _ in range(3):
            run(x)
        outcomes.append([p.numpy() for p in params])
    for eager, ours in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-4, atol=1e-5)
    (update,) = [k for k in run.kernels if k.name.startswith("run_each")]
    assert len(update.outputs) == 3 * len(shapes)


def test_programs_that_ask_for_positions_keep_their_rows():
    @program
    def ramp(x: Symbol) -> Symbol:
        return x * cast(row_index(), x)

    class Ramp(ndl.TensorOp):
        def compute(self, a):
            return functions.run(ramp, a, axes=(1,))

    def f(x):
        return Ramp()(x * 2).T + 1, Ramp()(x.T) * 3

    x = tensor(3, 5)
    for ours, theirs in zip(ndl.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    expected = (2 * x.numpy() * np.arange(5)).T + 1
    np.testing.assert_allclose(ndl.jit(f)(x)[0].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_outputs_that_are_parts_of_different_memory_are_kept_apart():
    @program
    def both(x: Symbol) -> tuple[Symbol, Symbol]:
        return x * 2, x * 3

    class Halves(ndl.TensorOp):
        def compute(self, a):
            sums, products = (functions.full_like(a, 7, shape=(6,)) for _ in range(2))
            parts = tuple(functions.flip(y, ())[1:4] for y in (sums, products))
            typed = both.for_dtypes((a.dtype,))
            a.device.mod.run(typed, parts, (a,), 0)
            return functions.concatenate([sums, products], 0)

    x = ndl.tensor([1.0, 2.0, 3.0])
    expected = [7, 2, 4, 6, 7, 7, 7, 3, 6, 9, 7, 7]
    assert Halves()(x).tolist() == expected
    for fuse in (False, True):
        assert ndl.jit(lambda x: Halves()(x * 1.0), fuse=fuse)(x).tolist() == expected


def test_halves_and_small_integers_keep_their_rounding():
    for dtype in ("float16", "bfloat16", "int8", "uint8"):
        x = ndl.tensor(np.arange(12).reshape(3, 4), dtype=dtype)

        def f(x):
            return (x * x + x) * x

        np.testing.assert_array_equal(ndl.jit(f)(x).numpy(), f(x).numpy())


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ((2048, 384), (8, 256, 384), (8, 256, 384)),
        ((6,), (2, 3), (2, 3)),
        ((6, 4), (3, 8), (3, 2, 4)),
        ((6, 4), (4, 6), None),
        ((6,), (7,), None),
        ((4, 6), (2, 2, 2, 3), (2, 2, 2, 3)),
        ((), (), ()),
    ],
)
def test_spaces_meet_in_their_refinement(a, b, found):
    assert refinement(a, b) == found


def test_steps_are_split_with_their_space():
    assert split((384, 1), (2048, 384), (8, 256, 384)) == (256 * 384, 384, 1)
    assert split((0, 5), (6, 4), (2, 3, 4)) == (0, 0, 5)
    assert (count_of((8, 256, 384), 384), count_of((8, 4), 5), count_of((8,), 1)) == (1, None, 0)


def test_rows_are_written_over_an_input_that_is_read_to_its_end():
    w = ndl.tensor(np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32))

    @ndl.jit
    def f(x):
        z = x @ w  # in the arena, and not needed afterwards
        return (z - z.max(1, keepdims=True)).exp() @ w.T

    @ndl.jit
    def g(x):
        z = x @ w
        return (z * z).sum(1), (z + 1) @ w.T  # the sum is of z: nothing is written before

    x = ndl.tensor(np.random.default_rng(2).standard_normal((50, 64)).astype(np.float32))
    z = x.numpy() @ w.numpy()
    expected = np.exp(z - z.max(1, keepdims=True)) @ w.numpy().T
    np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-4, atol=1e-4)
    first, second, _ = f.program.plan.nodes
    places = f.program.plan.places
    assert places[first.outs[0].value] == places[second.outs[0].value]
    squares, moved = g(x)
    np.testing.assert_allclose(squares.numpy(), (z * z).sum(1), rtol=1e-4)
    np.testing.assert_allclose(moved.numpy(), (z + 1) @ w.numpy().T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(300, 401), (50, 20, 77), (65536,), (30011,), (1 << 20,), (7,)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
def test_long_reductions_are_part_of_what_computes_their_elements(name, shape):
    x = ndl.tensor(np.random.default_rng(0).standard_normal(shape).astype("f4"))

    def f(x):
        return getattr((x - 0.5) ** 2, name)()

    compiled = ndl.jit(f)
    np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), rtol=1e-6)
    large = [out for k in compiled.kernels for out in k.outputs if out == f"float32{list(shape)}"]
    assert bool(large) == (shape == (30011,))  # a prime has no rows, and is stored


def test_a_loss_and_its_gradient_are_one_pass():
    x, y = (ndl.randn(256, 512) for _ in range(2))
    x.requires_grad = True

    @ndl.jit
    def step(y):
        loss = ((x - y) ** 2).mean()
        loss.backward()
        grad, x.grad = x.grad, None
        return loss, grad

    loss, grad = step(y)
    d = x.numpy() - y.numpy()
    np.testing.assert_allclose(loss.numpy(), (d * d).mean(), rtol=1e-6)
    np.testing.assert_allclose(grad.numpy(), 2 * d / d.size, rtol=1e-5)
    assert [k.bytes > d.nbytes for k in step.kernels].count(True) == 1


@pytest.mark.parametrize("ignored", [0, 3])
def test_mean_cross_entropy_and_its_gradients_are_one_program(ignored):
    ids = RNG.integers(0, 9, 20)
    ids[:ignored] = -100  # do not count

    def step(x, w, b, y):
        w, b = (p.detach().requires_grad_() for p in (w, b))
        loss = ndl.nn.functional.cross_entropy(x @ w + b, y)
        loss.backward(create_graph=False)
        return loss, w.grad, b.grad

    arguments = tensor(20, 6), tensor(6, 9), tensor(9), ndl.tensor(ids)
    compiled = ndl.jit(step)
    for ours, theirs in zip(compiled(*arguments), step(*arguments), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
    over_logits = [k for k in compiled.kernels if "float32[20, 9]" in k.inputs + k.outputs]
    assert [k.name for k in over_logits] == ["matmul", "run fused", "matmul"]
    assert over_logits[1].text.count("exp ") == 1


def test_the_loss_of_the_course_is_such_a_program_too():
    compiled = ndl.jit(ndl.value_and_grad(lambda w, x, y: ndl.nn.SoftmaxLoss()(x @ w, y)))
    compiled(tensor(6, 9), tensor(20, 6), ndl.tensor(RNG.integers(0, 9, 20)))
    over_logits = [k for k in compiled.kernels if "float32[20, 9]" in k.inputs + k.outputs]
    assert [k.name for k in over_logits] == ["matmul", "run fused", "matmul"]


def test_builtin_programs_stay_apart_from_what_is_not():
    """As a part of another program they would be interpreted, which takes twice as long."""
    softmax = ndl.nn.functional.softmax
    x = tensor(6, 40)
    assert kernels(lambda x: softmax(softmax(x, -1), -1), x) == ["run", "run"]
    assert kernels(lambda x: (softmax(x * 2, -1) + 1).exp(), x) == ["multiply", "run", "run"]
    doubles = ndl.tensor(RNG.standard_normal((6, 40)))
    assert kernels(lambda x: softmax(softmax(x, -1), -1), doubles) == ["run"]


def test_programs_of_several_calls_may_be_built_in():
    layer, norm = ndl.nn.Linear(40, 40), ndl.nn.LayerNorm(40)

    def block(x):
        with ndl.no_grad():
            x = x + layer(x)
            return x, norm(x)

    f = ndl.jit(block)
    f(tensor(6, 40))
    (program,) = [node for node in f.graph["fused"].nodes if node.kernel == "run"]
    assert is_builtin(program)


@pytest.mark.parametrize("count", [15, 16, 40])
@pytest.mark.parametrize(
    "step",
    [
        lambda x: x / x.sum(-1, keepdims=True),
        lambda x: x / x.sum(),
        lambda x: ndl.softmax(x, -1) * 2,
        lambda x: x / x.sum(-1, keepdims=True) / x.sum(0, keepdims=True),
    ],
    ids=["rows", "all", "softmax", "sinkhorn"],
)
def test_a_program_has_no_more_passes_over_a_row_than_a_device_takes(step, count):
    def f(x):
        for _ in range(count):
            x = step(x)
        return x

    x = ndl.tensor(np.random.default_rng(0).random((8, 16), np.float32) + 0.5)
    np.testing.assert_allclose(ndl.jit(f)(x).numpy(), f(x).numpy(), 1e-4, 1e-6)


def test_a_program_has_no_more_instructions_than_a_device_takes():
    @program
    def long(x: Symbol, y: Symbol) -> Symbol:
        for _ in range(40):
            x = x * y + x
        return x

    class Long(ndl.autograd.TensorOp):
        def compute(self, x, y):
            return functions.run(long, x, y)

    def f(x, y):
        for _ in range(6):
            x = Long()(x, y)
        return x

    x, y = ndl.ones(4), ndl.zeros(4) + 2**-10
    step = ndl.jit(f)
    np.testing.assert_allclose(step(x, y).numpy(), f(x, y).numpy(), 1e-6)
    assert len(step.kernels) == 3
