"""The exponential moving average of weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import Tensor, no_grad
from ..system import saved

if TYPE_CHECKING:
    from ..backend import BackendDevice
    from ..nn.module import Module

__all__ = ["ExponentialMovingAverage"]


class ExponentialMovingAverage:
    """Averages of parameters, which often generalise better than their last values:

        a <- d a + (1 - d) p,    a = p at first

    source: a module, or its parameters. With warmup=True, d = min(decay, (1 + n) / (10 + n)) at
    update n, so that the first weights are soon forgotten.

        ema = ExponentialMovingAverage(model, 0.999)
        ...                       # after every optimizer step: ema.update()
        with ema.apply():         # the model has the averaged weights here
            evaluate(model)
    """

    def __init__(
        self, source: Module | Iterable[Tensor], decay: float = 0.999, warmup: bool = False
    ):
        if not 0 <= decay <= 1:
            raise ValueError(f"[ExponentialMovingAverage] decay must be in [0, 1], got {decay}.")
        self.params = _parameters(source)
        self.decay = Tensor(decay, dtype="float64", device=self._device, requires_grad=False)
        self.updates = Tensor(0, dtype="float64", device=self._device, requires_grad=False)
        self.warmup = warmup
        self.averages = [_copy(p) for p in self.params]

    @property
    def _device(self) -> BackendDevice:
        return self.params[0].device

    def update(self) -> None:
        """Move the averages towards the parameters."""
        with no_grad():
            self.updates.data = self.updates + 1
            decay = self.decay
            if self.warmup:
                decay = decay.minimum((self.updates + 1) / (self.updates + 10))
            for average, p in zip(self.averages, self.params, strict=True):
                keep = decay.to(p.device, p.dtype)
                average.data = keep * average + (1 - decay).to(p.device, p.dtype) * p.detach()

    def copy_to(self, target: Module | Iterable[Tensor] | None = None) -> None:
        """Copy the averages into the parameters (or into another module's)."""
        params = self.params if target is None else _parameters(target)
        if [p.shape for p in params] != [a.shape for a in self.averages]:
            raise ValueError("[copy_to] expected parameters of the shapes that were averaged.")
        for p, average in zip(params, self.averages, strict=True):
            p.data = _copy(average)

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Within this context the parameters have the averaged values."""
        trained = [p.detach() for p in self.params]
        self.copy_to()
        try:
            yield
        finally:
            for p, value in zip(self.params, trained, strict=True):
                p.data = value

    def state_dict(self) -> dict[str, Any]:
        """The averages, how many updates they have seen, and the decay."""
        return {
            "decay": float(self.decay),
            "updates": int(self.updates),
            "averages": [_copy(average) for average in self.averages],
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take over the averages of the same parameters."""
        kinds = {"averages": saved.items, "decay": saved.number, "updates": saved.whole}
        averages, decay, updates = saved.entries("ExponentialMovingAverage", state, kinds)
        shapes = [tuple(np.shape(a)) for a in averages]
        if shapes != [a.shape for a in self.averages]:
            raise ValueError(
                "[load_state_dict] expected averages of shapes "
                f"{[a.shape for a in self.averages]}, got {shapes}."
            )
        pairs = [*zip(self.averages, averages, strict=True)]
        for own, value in (*pairs, (self.decay, decay), (self.updates, updates)):
            loaded = Tensor(value, dtype=own.dtype, device=own.device, requires_grad=False)
            own.data = _copy(loaded)


def _parameters(source: Module | Iterable[Tensor]) -> list[Tensor]:
    """The parameters of a module, or the given ones."""
    params = list(source.parameters() if hasattr(source, "parameters") else source)
    for p in params:
        if not isinstance(p, Tensor):
            raise TypeError(
                f"[ExponentialMovingAverage] expected Tensors, got {type(p).__name__}; give "
                "model.parameters()."
            )
    if not params:
        raise ValueError("[ExponentialMovingAverage] expected parameters, got none.")
    return params


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()
