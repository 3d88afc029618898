"""What a compiled function shows of itself: graphs, kernels, times."""

import numpy as np
import pytest

import needle as ndl
from needle.compiler.view.show import SHOWN

X = ndl.tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
W = ndl.tensor(np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32))


def compiled():
    f = ndl.jit(lambda x: (x @ W).tanh().sum())
    f(X)
    return f


def test_the_graph_is_shown_after_each_pass():
    graph = compiled().graph
    assert list(graph)[:2] == ["traced", "simplified"]
    assert "traced: 3 calls" in str(graph) and "matmul" in str(graph)
    assert len(graph["traced"].nodes) == 3


def test_kernels_tell_what_they_move_and_compute():
    kernels = compiled().kernels
    product = kernels[0]
    assert product.name == "matmul" and product.inputs == ("float32[8, 4]", "float32[4, 16]")
    assert product.flops == 2 * 8 * 4 * 16 and product.bytes == 4 * (8 * 4 + 4 * 16 + 8 * 16)
    assert "test_show.py" in product.source and "matmul" in str(product)


def test_profiles_have_a_time_per_kernel_and_compute_the_same():
    w = ndl.tensor([1.0])

    @ndl.jit
    def f(x):
        w.data = w + x
        return w * 2

    profile = f.profile(ndl.tensor([2.0]))
    assert w.item() == 3.0 and profile.seconds > 0
    assert len(profile.kernels) == len(f.kernels)
    lines = str(profile).splitlines()
    assert f"in {len(profile.kernels)} kernels" in lines[0]
    assert lines[2].endswith("run fused: float32[], float32[] from float32[], float32[]")


def test_profiles_name_kernels_with_many_outputs():
    tensors = [ndl.ones(3, n) for n in range(30, 60)]
    outputs = ndl.jit(lambda tensors: [x * 2 + 1 for x in tensors])
    lines = str(outputs.profile(tensors)).splitlines()
    assert "run_each fused: float32[3, 30]" in lines[2] and len(lines[2]) < 200


def test_long_profiles_are_cut():
    def f(x):
        for _ in range(SHOWN + 10):
            x = x @ x
        return x

    assert "in 10 more" in str(ndl.jit(f).profile(ndl.ones(3, 3)))


def test_a_function_must_be_called_first():
    with pytest.raises(ValueError, match="call the function first"):
        ndl.jit(lambda x: x).graph  # noqa: B018


def test_stages_that_there_are():
    f = ndl.jit(lambda x: x * 2)
    f(ndl.ones(2))
    with pytest.raises(KeyError, match=r"expected one of traced, simplified, fused.*got 'fuse'"):
        f.graph["fuse"]


def test_compiled_and_exported_functions_show_what_they_are(tmp_path):
    f = ndl.jit(test_stages_that_there_are)
    assert repr(f) == "<compiled function test_stages_that_there_are>"
    ndl.export(lambda x: x * 2, ndl.ones(2), path=tmp_path / "f.needle")
    loaded = ndl.load_exported(tmp_path / "f.needle")
    assert repr(loaded) == "<exported program of ((float32[2]), {})>"
