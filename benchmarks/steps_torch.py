"""Whole steps in PyTorch, in each of the ways it runs them.

eager, fused       as written; with the optimizer's update in one call
compile            forward and backward by torch.compile, the update fused
whole              forward, backward and update in one compiled graph (with the C++ wrapper)
..._cl             the same in channels-last order
freeze             inference with torch.compile and constant weights
"""

from __future__ import annotations

from typing import Any

import numpy as np
from peer import torch
from workloads import WITH_SMALL_WEIGHTS, Module, Step, Workload


def torch_model(work: Workload) -> Module:
    """PyTorch's network, always with the same weights."""
    torch.manual_seed(0)
    model = work.make(torch)
    if work.make in WITH_SMALL_WEIGHTS:
        for p in model.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, 0, 0.02)
    return model


def weights_of(model: Module) -> dict[str, np.ndarray[Any, Any]]:
    """All parameters and buffers as NumPy arrays, by name."""
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


def torch_step(work: Workload, model: Module, how: str = "eager") -> Step:
    """A step that gives its loss, or the largest logit."""
    x = torch.tensor(work.inputs)
    if how.endswith("_cl"):
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    if work.targets is None:
        return _inference(work, model, x, how)
    y = torch.tensor(work.targets).reshape(-1)

    def loss_of(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x), y)

    if how.startswith("whole"):
        return _whole_step(work, model, loss_of, x, y)
    options: dict[str, Any] = dict(work.options)
    if how != "eager":
        options["fused"] = True
    optimizer = getattr(torch.optim, str(work.optimizer))(model.parameters(), **options)
    forward = torch.compile(loss_of) if how.startswith("compile") else loss_of

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _inference(work: Workload, model: Module, x: Any, how: str) -> Step:
    torch.set_grad_enabled(False)
    model.eval()
    if how == "freeze":
        import torch._inductor.config as inductor

        inductor.freezing = True

    def largest(x: Any) -> Any:
        return model(x, work.start).max()

    infer = largest if how == "eager" else torch.compile(largest)
    return lambda: float(infer(x).item())


def _whole_step(work: Workload, model: Module, loss_of: Any, x: Any, y: Any) -> Step:
    """Forward, backward and Adam's update as one compiled graph."""
    torch._dynamo.config.trace_autograd_ops = True
    params = list(model.parameters())
    means, squares = ([torch.zeros_like(p) for p in params] for _ in range(2))
    count = torch.zeros(())
    lr, decay = work.options["lr"], work.options.get("weight_decay", 0.0)

    def whole(x: Any, y: Any) -> Any:
        loss = loss_of(x, y)
        gradients = torch.autograd.grad(loss, params)
        with torch.no_grad():
            count.add_(1)
            first, second = 1 - 0.9**count, 1 - 0.999**count
            for p, g, m, v in zip(params, gradients, means, squares, strict=True):
                if decay:
                    p.mul_(1 - lr * decay)
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                p.sub_(lr * (m / first) / ((v / second).sqrt() + 1e-8))
        return loss.detach()

    compiled = torch.compile(whole, fullgraph=True)
    return lambda: float(compiled(x, y).item())
