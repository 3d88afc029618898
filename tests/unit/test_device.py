"""Devices as Python objects: look-ups, copies and tests that are parametrised by them."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import pytest

import needle as ndl

DEVICES = [ndl.cpu(), ndl.cpu_numpy(), ndl.cuda()]


@pytest.mark.parametrize("name", ["__name__", "__wrapped__", "__array__", "__len__", "no_such"])
@pytest.mark.parametrize("device", DEVICES)
def test_what_a_device_does_not_have(device, name):
    assert getattr(device, name, None) is None
    assert not hasattr(device, name)
    with pytest.raises(AttributeError, match=name):
        getattr(device, name)


@pytest.mark.parametrize("device", DEVICES)
def test_python_may_look_at_devices(device):
    assert copy.copy(device) is device and copy.deepcopy([device])[0] is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert not callable(device) and not inspect.isfunction(inspect.unwrap(device))
    assert dict(inspect.getmembers(device))["name"] == device.name
    assert f"{device!s:>12}".strip() == repr(device)
    with pytest.raises(AttributeError):
        getattr(type(device).__new__(type(device)), "mod")  # noqa: B009 - as it is being made


@pytest.mark.parametrize("name", ["matmul", "ewise_add", "reduce", "Array", "__tile_size__"])
def test_kernels_of_an_absent_device(name):
    assert getattr(ndl.cuda(), name, None) is None
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        getattr(ndl.cuda(), name)
    assert ndl.cpu().__tile_size__ == ndl.cpu_numpy().__tile_size__


def test_an_absent_device_is_refused():
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        ndl.device("cuda")
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        ndl.ones(2, device=ndl.cuda())


def test_pytorchs_questions():
    assert [device.type for device in DEVICES] == ["cpu", "cpu", "cuda"]
    assert ndl.device("cpu").type == "cpu" and ndl.ones(2).device.type == "cpu"
    assert all(device.index is None for device in DEVICES)


PARAMETRISED = """
import pytest
import needle as ndl

absent = pytest.mark.skipif(not ndl.cuda().enabled(), reason="no GPU")

@pytest.mark.parametrize("device", [ndl.cpu(), pytest.param(ndl.cuda(), marks=absent)])
@pytest.mark.parametrize("other", [ndl.cuda(), ndl.cpu_numpy()], ids=["cuda", "numpy"])
def test_on(device, other):
    assert device == ndl.cpu() and other != device

@pytest.fixture(params=[ndl.cpu(), ndl.cuda()])
def made(request):
    return request.param

def test_made(made):
    assert made in (ndl.cpu(), ndl.cuda())
"""


def test_pytest_collects_tests_of_an_absent_device(tmp_path):
    (tmp_path / "test_parametrised.py").write_text(PARAMETRISED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "4 passed, 2 skipped" in done.stdout, done.stdout
