"""PyTorch's mixed precision without a GPU: scripts run, in float32."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim


def trained(scaler, context):
    ndl.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        with context():
            loss = model(ndl.ones(4, 3)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return model.weight.numpy()


class Nothing(ndl.amp.GradScaler):
    def step(self, optimizer):
        optimizer.step()


def test_scripts_run_in_float32():
    scaler = ndl.amp.GradScaler("cuda", enabled=True)
    assert not scaler.is_enabled() and scaler.get_scale() == 1 and scaler.state_dict() == {}
    scaler.load_state_dict({})
    a = trained(scaler, lambda: ndl.autocast("cuda", dtype=ndl.float16))
    b = trained(Nothing(), lambda: ndl.amp.autocast("cpu", enabled=False))
    assert a.dtype == np.float32 and np.array_equal(a, b)


def test_casts_on_the_cpu_are_refused():
    with pytest.raises(ValueError, match=r"\[autocast\] expected enabled=False on the CPU"):
        ndl.autocast("cpu", dtype=ndl.bfloat16)


def test_paths_of_pytorch():
    from needle.utils.checkpoint import checkpoint
    from needle.utils.data import DataLoader

    assert DataLoader is ndl.data.DataLoader is ndl.utils.data.DataLoader
    x = ndl.ones(2, requires_grad=True)
    checkpoint(ndl.exp, x, use_reentrant=False).sum().backward()
    assert np.allclose(x.grad.numpy(), np.e)
    assert ndl.utils.checkpoint.checkpoint is ndl.checkpoint
