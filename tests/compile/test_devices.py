"""The jit knows contracts, not devices: what a device does not offer is not asked of it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.backend import BackendDevice, cpu, cpu_numpy
from needle.backend.protocol import Offers
from needle.testing import assert_close

PACKAGE = Path(ndl.__file__).parent
BEYOND_KERNELS = {
    "run_loop",
    "run_python",
    "run_compiled",
    "Sequence",
    "is_builtin",
    "instruction_set",
}
EPILOGUES = {"matmul_then", "conv_then"}


class Counting:
    """The kernels of a device, counted; some of them are forbidden."""

    def __init__(self, kernels, forbidden):
        self._kernels = kernels
        self._forbidden = forbidden
        self.calls = Counter()

    def __getattr__(self, name):
        if name in self._forbidden:
            raise AssertionError(f"{name} was asked for, which the device does not offer")
        self.calls[name] += 1
        return getattr(self._kernels, name)


def counting_device(offers=None, forbidden=frozenset()):
    kernels = Counting(cpu_numpy().mod, BEYOND_KERNELS | forbidden)
    return BackendDevice("counting", kernels, offers)


def make_step(device):
    """A training step with products, a convolution, a norm and an optimizer."""
    np.random.seed(0)
    model = nn.Sequential(
        nn.Conv(3, 8, 3, device=device), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * 36, 32, device=device), nn.LayerNorm1d(32, device=device), nn.ReLU(),
        nn.Linear(32, 4, device=device),
    )  # fmt: skip
    optimizer = ndl.optim.Adam(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.reset_grad()
        loss = nn.SoftmaxLoss()(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def batch(device):
    rng = np.random.default_rng(1)
    x = ndl.tensor(rng.standard_normal((16, 3, 6, 6)).astype("float32"), device=device)
    return x, ndl.tensor(rng.integers(0, 4, 16), device=device)


def losses(device, compiled, steps=4):
    step = make_step(device)
    step = ndl.jit(step) if compiled else step
    x, y = batch(device)
    return np.array([step(x, y).item() for _ in range(steps)])


@pytest.mark.parametrize(
    ("offers", "forbidden"),
    [
        (None, frozenset()),
        (Offers(epilogues=False), EPILOGUES | {"matmul_of"}),
        (Offers(prologues=lambda: True), frozenset()),
    ],
    ids=["the kernels alone", "no epilogues", "prologues"],
)
def test_a_device_that_offers_only_its_kernels(offers, forbidden):
    device = counting_device(offers, forbidden)
    found = losses(device, compiled=True)
    np.testing.assert_allclose(found, losses(cpu_numpy(), compiled=False), rtol=1e-5)
    assert device.mod.calls["matmul"] + device.mod.calls["matmul_then"] > 0


def test_compiled_functions_make_fewer_calls():
    eager, compiled = counting_device(), counting_device()
    losses(eager, compiled=False)
    losses(compiled, compiled=True)
    assert compiled.mod.calls.total() < eager.mod.calls.total()


def test_the_reference_runs_compiled_functions_as_the_native_core_does():
    assert cpu().offers.sequence is not None and cpu_numpy().offers.sequence is None
    np.testing.assert_allclose(losses(cpu_numpy(), True), losses(cpu(), True), rtol=1e-5)


def test_loops_run_on_a_device_without_sequences():
    device = counting_device()
    x = ndl.tensor(np.arange(12, dtype="float32").reshape(4, 3), device=device)

    def running(x):
        def body(carry, row):
            return carry * 0.5 + row, carry.sum()

        return ndl.scan(body, ndl.zeros(3, device=device), x)

    for found, expected in zip(ndl.jit(running)(x), running(x), strict=True):
        assert_close(found, expected)


def test_the_compiler_names_no_device():
    for path in (PACKAGE / "compiler").rglob("*.py"):
        text = path.read_text()
        assert "cpu()" not in text and "_native" not in text, path
