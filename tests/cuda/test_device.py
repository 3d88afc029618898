"""The device as an object, arrays that move to it and back, and what is refused."""

import copy
import os
import pickle

import numpy as np
import pytest

import needle as ndl
from needle import _native, nn, optim

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_what_it_says(device):
    assert (repr(device), device.type, device.enabled()) == ("cuda()", "cuda", True)
    assert ndl.cuda.is_available() and ndl.cuda.device_count() == 1
    properties = ndl.cuda.get_device_properties()
    assert properties["warp_size"] == 32 and properties["total_memory"] > 0
    is_named_so = "simulated" in ndl.cuda.get_device_name()
    assert is_named_so == _native.cuda.is_simulated()


def test_memory_is_counted(device):
    before = ndl.memory_stats(device)["live"]
    x = ndl.zeros(1000, device=device)
    assert ndl.memory_stats("cuda")["live"] - before >= 4000
    del x
    assert ndl.memory_stats(device)["live"] == before
    assert ndl.memory_stats() == ndl.memory_stats("cpu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "bool"])
def test_there_and_back(device, dtype):
    x = ndl.Tensor(VALUES, dtype=dtype)
    moved = x.to(device)
    assert moved.device == device and moved.dtype == x.dtype
    np.testing.assert_array_equal(moved.numpy(), x.numpy())
    np.testing.assert_array_equal(moved.transpose().cpu().numpy(), x.numpy().T)
    assert moved.to(device) is moved


def test_gradients_go_along(device):
    x = ndl.Tensor(VALUES, requires_grad=True)
    (x.cuda() * 2).cpu().sum().backward()
    assert x.grad.device == ndl.cpu()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 3), 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y.transpose(),
        lambda x, y: ndl.where(x > 1, y, x),
        lambda x, y: ndl.stack([x, y], 0),
        lambda x, y: x[ndl.Tensor([0, 1], dtype="int64")],
    ],
)
def test_devices_do_not_mix(device, call):
    x, y = ndl.Tensor(VALUES, device=device), ndl.Tensor(VALUES)
    with pytest.raises(ValueError, match=r"got cuda\(\) and cpu\(\); move one with \.to\(device\)"):
        call(x, y)


def test_kernels_of_the_cpu_refuse_its_memory(device):
    x = ndl.Tensor(VALUES, device=device).cached_data
    with pytest.raises(TypeError, match="not on this device"):
        ndl.cpu().mod.fill(x, 1.0)
    with pytest.raises(BufferError):
        memoryview(x)


def test_copies(device):
    x = ndl.Tensor(VALUES, device=device)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device == device
        np.testing.assert_array_equal(y.numpy(), VALUES)


def test_memory_is_shared(device):
    x = ndl.Tensor(VALUES, device=device).transpose().cached_data
    assert x.__dlpack_device__() == (2, 0)
    y = ndl.from_dlpack(x)
    assert y.device == device
    np.testing.assert_array_equal(y.numpy(), VALUES.T)
    shown = x.__cuda_array_interface__
    assert (shown["shape"], shown["strides"], shown["typestr"]) == ((3, 2), (4, 12), "<f4")
    assert shown["data"] == (x._handle.ptr(), False)
    assert not hasattr(ndl.Tensor(VALUES).cached_data, "__cuda_array_interface__")


def test_a_checkpoint_of_the_gpu_loads_on_the_cpu(device, tmp_path):
    ndl.manual_seed(0)
    model = nn.Linear(3, 2).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(ndl.Tensor(VALUES, device=device)).sum().backward()
    optimizer.step()
    ndl.save({"model": model.state_dict()}, tmp_path / "run.ndl")
    loaded = nn.Linear(3, 2)
    loaded.load_state_dict(ndl.load(tmp_path / "run.ndl")["model"])
    assert loaded.weight.device == ndl.cpu()
    np.testing.assert_array_equal(loaded.weight.numpy(), model.weight.numpy())


def test_a_child_is_told(device):
    ndl.ones(2, device=device)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ndl.ones(2, device=device)
        except RuntimeError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(read, 1000)
