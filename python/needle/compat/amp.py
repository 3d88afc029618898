"""PyTorch's mixed precision as it is on a machine without CUDA: scripts run, in float32.

A GPU computes much faster in half types, which need losses that are scaled. The CPU does not, so
that there is nothing to cast and nothing to scale: as in PyTorch without CUDA, `autocast("cuda")`
and `GradScaler` change nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..dtype import float32

if TYPE_CHECKING:
    from ..optim.optimizer import Optimizer
    from ..types import DTypeLike


class autocast(contextlib.ContextDecorator):
    """`with autocast("cuda"):` computes in float32; casts on the CPU are an error."""

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: DTypeLike | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ):
        if device_type == "cpu" and enabled and dtype != float32:
            raise ValueError(
                "[autocast] expected enabled=False on the CPU, which computes in float32; for "
                "inference in bfloat16, use nn.quantize(model, 'bfloat16')."
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class GradScaler:
    """Steps of an optimizer without any scaling: `scaler.step(optimizer)` is `optimizer.step()`."""

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **options: object):
        pass

    def scale(self, outputs: object) -> Any:
        """The outputs as they are."""
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        """Nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step()"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: object = None) -> None:
        """Nothing: there is no scale."""

    def is_enabled(self) -> bool:
        """No."""
        return False

    def get_scale(self) -> float:
        """1"""
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        """Nothing to save."""
        return {}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Nothing to load."""
