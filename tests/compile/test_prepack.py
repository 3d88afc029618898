"""Weights that are kept in panels, made anew whenever somebody has written the weights."""

import gc
import threading

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.compiler.passes import prepack

from .compiled import RNG, tensor

ROWS, IN, OUT = 70, 384, 384  # OUT = 6 panels


def is_prepacked(function):
    return str(function.graph["prepacked"]) != str(function.graph["fused"])


def assert_right(function, x, w):
    expected = x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)
    np.testing.assert_allclose(function(x).numpy(), expected, rtol=0, atol=2e-3)


def test_text():
    w = tensor(IN, OUT)
    f = ndl.jit(lambda x: x @ w)
    f(tensor(ROWS, IN))
    assert (
        str(f.graph["prepacked"])
        == """\
%0: float32[26880] input
%3: float32[147456] constant
%2[6x70x64 by 64x384x1]: float32[6, 70, 64] = matmul(%0, %3)
return %2"""
    )


@pytest.mark.parametrize("layout", ["rows", "columns", "part"])
@pytest.mark.parametrize("rows", [65, 70, 512])
def test_layouts(layout, rows):
    w = {
        "rows": lambda: tensor(IN, OUT),
        "columns": lambda: tensor(OUT, IN).T,
        "part": lambda: tensor(IN + 1, OUT)[1:],
    }[layout]()
    f = ndl.jit(lambda x: x @ w)
    assert_right(f, tensor(rows, IN), w)
    assert is_prepacked(f) == (layout != "part")


@pytest.mark.parametrize("rows, columns", [(64, OUT), (513, OUT), (ROWS, OUT + 1), (ROWS, 320)])
def test_products_that_gain_nothing(rows, columns):
    w = tensor(IN, columns)
    f = ndl.jit(lambda x: x @ w)
    assert_right(f, tensor(rows, IN), w)
    assert not is_prepacked(f)


def test_same_bits_as_a_batch_of_products():
    w, x = tensor(IN, OUT), tensor(ROWS, IN)
    parts = w.reshape((IN, OUT // prepack.WIDTH, prepack.WIDTH)).permute((1, 0, 2))
    batch = (x @ parts).permute((1, 0, 2)).reshape((ROWS, OUT))
    np.testing.assert_array_equal(ndl.jit(lambda x: x @ w)(x).numpy(), batch.numpy())


def test_every_kind_of_write_is_seen():
    w, x = tensor(IN, OUT), tensor(ROWS, IN)
    f = ndl.jit(lambda x: x @ w)
    assert_right(f, x, w)
    assert is_prepacked(f)
    w.data = tensor(IN, OUT)
    assert_right(f, x, w)
    w[3:5] = 2.0
    assert_right(f, x, w)
    w.data[7] = tensor(OUT)  # through a view of the memory
    assert_right(f, x, w)
    step = ndl.jit(lambda g: setattr(w, "data", w - g))  # in place, by another compiled function
    step(tensor(IN, OUT))
    step(tensor(IN, OUT))
    assert_right(f, x, w)
    np.asarray(memoryview(w.cached_data))[0] = 3.0
    assert_right(f, x, w)
    shared = np.from_dlpack(w.cached_data)
    for value in (5.0, 6.0):
        shared[1] = value
        assert_right(f, x, w)
    assert f.cache_info().misses == 1


def test_an_optimizer_between_calls():
    model = nn.Linear(IN, OUT)
    optimizer = ndl.optim.Adam(model.parameters(), lr=0.1)
    f = ndl.jit(lambda x: model(x))
    x = tensor(ROWS, IN)
    for _ in range(3):
        with ndl.no_grad():
            np.testing.assert_allclose(f(x).numpy(), model(x).numpy(), atol=1e-3)
        optimizer.zero_grad()
        model(x).sum().backward(create_graph=False)
        optimizer.step()


def test_training_reads_its_weights_as_they_lie():
    w = tensor(IN, OUT).requires_grad_()

    @ndl.jit
    def step(x):
        loss = (x @ w).square().mean()
        loss.backward(create_graph=False)
        w.data = w.detach() - 0.1 * w.grad
        return loss

    step(tensor(ROWS, IN))
    assert not is_prepacked(step)


def test_memory_of_others_has_no_panels():
    array = RNG.standard_normal((IN, OUT)).astype(np.float32)
    w = ndl.from_dlpack(array)
    f = ndl.jit(lambda x: x @ w)
    x = tensor(ROWS, IN)
    assert_right(f, x, w)
    assert not is_prepacked(f)
    array[0] = 9.0
    assert_right(f, x, w)


def test_programs_share_panels_and_they_go_with_the_weights():
    before = len(prepack._kept)
    w = tensor(IN, OUT)
    f = ndl.jit(lambda x: x @ w)
    for rows in (70, 80, 90):
        assert_right(f, tensor(rows, IN), w)
    assert len(prepack._kept) == before + 1
    assert len(prepack._kept[w.cached_data._handle]) == 1
    del f
    w.data = ndl.zeros(1)
    gc.collect()
    assert len(prepack._kept) == before


def test_dynamic_rows():
    w = tensor(IN, OUT)
    f = ndl.jit(lambda x: x @ w, dynamic=0)
    for rows in (100, 70, 130):
        assert_right(f, tensor(rows, IN), w)
    assert f.cache_info().resized == 2
    assert is_prepacked(f)


def test_threads_and_writes_at_once():
    """Whatever a call sees while weights change, the calls after it are right."""
    w, x = tensor(IN, OUT), tensor(ROWS, IN)
    f = ndl.jit(lambda x: x @ w)
    f(x)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            w[:] = float(RNG.integers(9))

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(50):
        f(x)
    stop.set()
    writer.join()
    assert_right(f, x, w)


def test_export(tmp_path):
    w, x = tensor(IN, OUT), tensor(ROWS, IN)
    f = ndl.jit(lambda x: x @ w)
    expected = f(x).numpy()
    w_before = w.numpy()
    ndl.export(f, x, path=tmp_path / "product.needle")
    w[:] = 0.0
    np.testing.assert_array_equal(
        ndl.load_exported(tmp_path / "product.needle")(x).numpy(), expected
    )
    assert is_prepacked(f) and w_before.any()


def test_versions():
    x = tensor(3)
    memory = x.cached_data._handle
    first = memory.version
    assert memory.version == first
    assert (x + x).cached_data._handle.version != first
    x[0] = 1.0
    second = memory.version
    assert second != first and memory.version == second
    memoryview(x.cached_data)
    assert memory.version != memory.version  # anyone may write it from now on
