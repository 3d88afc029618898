"""Averages of weights over training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from ... import torch
from ..nn.base.module import Module
from ..nn.modules.batchnorm import _BatchNorm
from .lr_scheduler import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """decay times the average and the rest of the parameter."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )

    def average(ema: Any, current: Any, count: Any) -> Any:
        return decay * ema + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The mean of all."""

    def average(mean: Any, current: Any, count: Any) -> Any:
        return mean + (current - mean) / (count + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` for lists, in place."""
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` for lists, in place."""
    return _for_lists(get_swa_avg_fn())


def _for_lists(average: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    def change(averages: Any, currents: Any, count: Any) -> None:
        with torch.no_grad():
            for mean, current in zip(averages, currents, strict=True):
                mean.copy_(average(mean, current, count))

    return change


class AveragedModel(Module):
    """A copy of a model, whose parameters are averages of the model's."""

    n_averaged: Any

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Any = None, multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model: Module) -> list[Any]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages."""
        own = [t.detach() for t in self._tensors(self.module)]
        given = [t.detach() for t in self._tensors(model)]
        if int(self.n_averaged) == 0:
            for mean, current in zip(own, given, strict=True):
                mean.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(own, given, self.n_averaged)
        else:
            _for_lists(self.avg_fn or get_swa_avg_fn())(own, given, self.n_averaged)
        if not self.use_buffers:
            for mean, current in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.detach().copy_(current.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch norms anew, from a pass over the data."""
    with torch.no_grad():
        norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
        if not norms:
            return
        momenta = [m.momentum for m in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        was_training = model.training
        model.train()
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """To swa_lr in anneal_epochs epochs, and then constant."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for group, rate in zip(
            optimizer.param_groups, per_group(optimizer, "swa_lr", swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must by one of 'cos' or 'linear', instead got " + anneal_strategy
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2 if self._strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        step = self._step_count - 1
        length = max(1, self.anneal_epochs)
        before = self._share(max(0, min(1, (step - 1) / length)))
        now = self._share(max(0, min(1, step / length)))
        found = []
        for group, lr in zip(self.optimizer.param_groups, self._now(), strict=True):
            first = group["swa_lr"]
            if before < 1:
                first = (lr - before * group["swa_lr"]) / (1 - before)
            found.append(group["swa_lr"] * now + first * (1 - now))
        return found
