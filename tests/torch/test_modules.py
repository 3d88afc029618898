"""Layers against PyTorch's own samples: values, gradients, states, weights, printed form."""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import needle.torch as ours

theirs = pytest.importorskip("torch")
MISSING = {"FractionalMaxPool2d", "FractionalMaxPool3d", "LinearCrossEntropyLoss"}
SKIPPED = {"TransformerEncoder"}  # samples hold a layer, which to_ours does not convert
EMPTY_BATCH = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}  # of no samples: an error here
MOST = 12  # samples of one layer


def module_db() -> list[Any]:
    """PyTorch's table of layers; it imports a package of its own tests, which nothing here uses."""
    stub: Any = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase
    sys.modules.setdefault("expecttest", stub)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = pytest.importorskip("torch.testing._internal.common_modules")
    return [info for info in modules.module_db if info.name.startswith("nn.")]


def to_ours(x: Any) -> Any:
    if isinstance(x, theirs.Tensor):
        found = ours.tensor(x.detach().numpy().copy())
        return found.requires_grad_() if x.requires_grad else found
    if type(x) in (tuple, list):
        return type(x)(map(to_ours, x))
    if isinstance(x, dict):
        return {key: to_ours(value) for key, value in x.items()}
    if isinstance(x, theirs.dtype):
        return getattr(ours, str(x).partition(".")[2])
    if callable(x) and (x.__module__ or "").startswith("torch"):  # such as F.gelu
        return getattr(ours.nn.functional, x.__name__)
    return ours.device("cpu") if isinstance(x, theirs.device) else x


def tensors(x: Any) -> Iterator[Any]:
    if isinstance(x, (theirs.Tensor, ours.Tensor)):
        yield x
    elif isinstance(x, (tuple, list, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from tensors(part)


def same(a: Any, b: Any, what: str) -> None:
    assert tuple(a.shape) == tuple(b.shape), what
    assert str(a.dtype) == str(b.dtype), what
    x, y = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5, err_msg=what)


def check(info: Any, sample: Any, training: bool) -> bool:
    """Compare one sample; False if PyTorch does not make this layer."""
    made, given = sample.constructor_input, sample.forward_input
    theirs.manual_seed(1)
    ours.manual_seed(1)
    try:
        reference = info.module_cls(*made.args, **made.kwargs).train(training)
    except Exception:
        return False
    cls = getattr(ours.nn, info.module_cls.__name__)
    layer = cls(*to_ours(made.args), **to_ours(made.kwargs)).train(training)
    args, kwargs = to_ours(given.args), to_ours(given.kwargs)
    theirs.manual_seed(2)
    ours.manual_seed(2)
    try:
        expected = reference(*given.args, **given.kwargs)
    except (RuntimeError, ValueError, TypeError):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            layer(*args, **kwargs)
        return True
    results = list(zip(tensors(layer(*args, **kwargs)), tensors(expected), strict=True))
    assert repr(layer) == repr(reference)
    state, wanted = layer.state_dict(), reference.state_dict()
    assert list(state) == list(wanted)
    for name in wanted:
        same(state[name], wanted[name], name)
    for result, value in results:
        same(result, value, "result")
    check_gradients(results, (layer, reference), ((args, kwargs), (given.args, given.kwargs)))
    return True


def check_gradients(results: Any, layers: Any, inputs: Any) -> None:
    differentiable = [(a, b) for a, b in results if b.requires_grad]
    if not differentiable:
        return
    for a, b in differentiable:
        weights = theirs.randn_like(b)
        b.backward(weights, retain_graph=True)
        a.backward(ours.tensor(weights.numpy()), retain_graph=True)
    pairs = zip(layers[0].named_parameters(), layers[1].named_parameters(), strict=True)
    found = [(p.grad, q.grad, name) for (name, p), (_, q) in pairs]
    leaves = zip(tensors(list(inputs[0])), tensors(list(inputs[1])), strict=True)
    found += [(a.grad, b.grad, "input") for a, b in leaves if b.is_leaf]
    for own, reference, name in found:
        assert (own is None) == (reference is None), name
        if reference is not None:
            same(own, reference, f"gradient of {name}")


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", module_db(), ids=lambda info: info.name)
def test_layers(info: Any, training: bool) -> None:
    name = info.module_cls.__name__
    if name in MISSING:
        with pytest.raises(AttributeError, match=name):
            getattr(ours.nn, name)
        return
    if name in SKIPPED:
        pytest.skip("its samples hold a layer")
    options = {"device": "cpu", "dtype": theirs.float32, "requires_grad": True}
    samples = info.module_inputs_func(info, training=training, **options)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples[:MOST]:
            if sample.forward_input is None:
                continue
            if name in EMPTY_BATCH and sample.desc == "zero_batch":
                continue
            compared += check(info, sample, training)
    assert compared or not samples


def test_every_class_is_there() -> None:
    """Names of torch.nn that are layers, but for those that are said to be missing."""
    names = {
        name for name in dir(theirs.nn)
        if isinstance(getattr(theirs.nn, name), type)
        and issubclass(getattr(theirs.nn, name), theirs.nn.Module)
    }  # fmt: skip
    absent = {name for name in names if not hasattr(ours.nn, name)}
    assert absent <= MISSING | {"AdaptiveLogSoftmaxWithLoss", "RNNBase", "CrossMapLRN2d"}
