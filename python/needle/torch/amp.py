"""`torch.amp`: mixed precision as it is without a GPU.

`autocast("cuda")` and `GradScaler("cuda")` change nothing, as in PyTorch without CUDA. Casts on the
CPU are refused: results would differ in silence.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class autocast:
    """`with autocast("cuda"):` computes in float32; casts on the CPU are an error."""

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ):
        if device_type == "cpu" and enabled:
            raise NotImplementedError(
                "torch.autocast('cpu'): expected enabled=False; operators compute in the dtype of "
                "their inputs, so cast the model: model.bfloat16()."
            )
        self.device, self.fast_dtype = device_type, dtype

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with self:
                return function(*args, **options)

        return call


class GradScaler:
    """Steps of an optimizer without any scaling: there is no GPU."""

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **options: Any):
        self._device = device

    def scale(self, outputs: Any) -> Any:
        """The outputs as they are."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step()"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
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

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to load."""


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """The function itself: nothing is cast."""
    return fwd if fwd is not None else lambda function: function


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """The function itself: nothing is cast."""
    return bwd if bwd is not None else lambda function: function


def is_autocast_available(device_type: str) -> bool:
    """No."""
    return False
