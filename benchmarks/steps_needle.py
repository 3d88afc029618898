"""Whole steps in needle: training, or a token of inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads import Module, Step, Workload

import needle as ndl


def needle_model(work: Workload, weights: Mapping[str, Any]) -> Module:
    """The network with PyTorch's weights, by PyTorch's names."""
    model = work.make(ndl)
    model.load_state_dict(weights, layout="torch")
    if work.weights != "float32":
        ndl.nn.quantize(model, work.weights)
        table = model.tokens.weight.T
        model.head = ndl.nn.QuantizedLinear.from_weight(table, dtype=work.weights)
    return model


def needle_step(work: Workload, model: Module, compiled: bool = False) -> Step:
    """A step that gives its loss, or the largest logit; compiled: as one program."""
    step = _training(work, model) if work.optimizer else _inference(work, model)
    if compiled:
        step = ndl.jit(step)
    arrays = [ndl.tensor(work.inputs)]
    if work.targets is not None:
        arrays.append(ndl.tensor(work.targets.reshape(-1)))
    return lambda: float(step(*arrays).item())


def _training(work: Workload, model: Module) -> Any:
    optimizer = getattr(ndl.optim, str(work.optimizer))(model.parameters(), **work.options)

    def train(x: Any, y: Any) -> Any:
        optimizer.reset_grad()
        loss = ndl.nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    return train


def _inference(work: Workload, model: Module) -> Any:
    model.eval()

    def infer(x: Any) -> Any:
        with ndl.no_grad():
            return model(x, work.start).max()

    return infer
