"""Operators of the user's own in compiled functions: recorded, or a reported break."""

import threading

import numpy as np
import pytest

import needle as ndl
from needle.autograd import TensorOp, TensorTupleOp
from needle.ndarray import functions as F

X = np.random.default_rng(0).standard_normal((4, 3)).astype("f4")


class Recorded(TensorOp):
    """y = x + 1, by functions of arrays"""

    def compute(self, a):
        return F.binary("add", a, 1)

    def gradient(self, out_grad, node):
        return out_grad


class ByNumpy(TensorOp):
    """y = x³, by NumPy"""

    def compute(self, a):
        return ndl.tensor(a.numpy() ** 3, dtype=str(a.dtype), device=a.device).cached_data

    def gradient(self, out_grad, node):
        return out_grad * 3 * node.inputs[0] ** 2


class Halves(TensorTupleOp):
    """The rows below and above the middle, by NumPy"""

    def compute(self, a):
        n = a.shape[0] // 2
        return tuple(ndl.tensor(part).cached_data for part in (a.numpy()[:n], a.numpy()[n:]))


def test_operators_on_arrays_are_recorded():
    f = ndl.jit(lambda x: Recorded()(x * 2).tanh())
    np.testing.assert_allclose(f(ndl.tensor(X)).numpy(), np.tanh(2 * X + 1), rtol=1e-6)
    assert all(node.kernel != "python" for node in f.graph["traced"].nodes)


def test_operators_that_need_elements_are_breaks():
    w = ndl.tensor(np.ones((3, 2), np.float32), requires_grad=True)

    def f(x):
        y = ByNumpy()((x * 2).T.T @ w).sum()
        y.backward(create_graph=False)
        return y, w.grad

    expected = [t.numpy() for t in f(ndl.tensor(X))]
    step = ndl.jit(f)
    with pytest.warns(
        RuntimeWarning, match=r"ByNumpy.compute needs the elements.*test_breaks.py:\d+"
    ):
        first = [t.numpy() for t in step(ndl.tensor(X))]
    for found in (first, [t.numpy() for t in step(ndl.tensor(X))]):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    assert step.cache_info().misses == 1
    assert "python(ByNumpy, " in str(step.graph["traced"])
    assert [k.name for k in step.kernels].count("python ByNumpy") == 1


def test_transposed_inputs_and_tuples():
    def f(x):
        low, high = Halves()(x.T * 1.0 if x.ndim else x).tuple()
        return low.sum() + (high * 2).sum()

    x = ndl.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    step = ndl.jit(f)
    with pytest.warns(RuntimeWarning, match="Halves.compute"):
        assert step(x).item() == f(x).item()
    assert step(x).item() == f(x).item()


def test_exceptions_come_out_and_the_next_call_works():
    class Fails(ByNumpy):
        wrong = False

        def compute(self, a):
            if Fails.wrong:
                raise KeyError("not today")
            return super().compute(a)

    step = ndl.jit(lambda x: Fails()(x) + 1)
    x = ndl.tensor(X)
    with pytest.warns(RuntimeWarning):
        step(x)
    Fails.wrong = True
    with pytest.raises(KeyError, match="not today"):
        step(x)
    Fails.wrong = False
    np.testing.assert_allclose(step(x).numpy(), X**3 + 1, rtol=1e-5)


def test_other_shapes_than_those_traced_are_refused():
    class Positive(ByNumpy):
        def compute(self, a):
            found = a.numpy()
            return ndl.tensor(found[found > 0]).cached_data

    step = ndl.jit(lambda x: Positive()(x) * 2)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(TypeError, match=r"Positive.compute\] expected float32\[12\]"),
    ):
        step(ndl.tensor(X))


def test_threads_run_breaks_at_once():
    step = ndl.jit(lambda x: ByNumpy()(x).sum())
    with pytest.warns(RuntimeWarning):
        step(ndl.tensor(X))
    found = []

    def work(scale):
        found.append(all(
            np.isclose(step(ndl.tensor(X * scale)).item(), ((X * scale) ** 3).sum(), 1e-3, 1e-4)
            for _ in range(20)
        ))  # fmt: skip

    threads = [threading.Thread(target=work, args=(s,)) for s in (0.5, 1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


def test_the_reference_device_has_breaks_too():
    x = ndl.Tensor(X, device=ndl.cpu_numpy())
    step = ndl.jit(lambda x: ByNumpy()(x) + 1)
    with pytest.warns(RuntimeWarning):
        found = step(x)
    np.testing.assert_allclose(found.numpy(), X**3 + 1, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*needs the elements:RuntimeWarning")
def test_breaks_cannot_be_exported(tmp_path):
    with pytest.raises(TypeError, match=r"python cannot be stored.*use functions of arrays"):
        ndl.export(lambda x: ByNumpy()(x), ndl.tensor(X), path=tmp_path / "f.needle")
