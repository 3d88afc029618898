"""`torch.nn.parallel`: models on several devices, of which there is one here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...distributed import get_world_size
from ..base.module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """The model itself under the name `module`: there is one device, as with PyTorch on a CPU."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            raise RuntimeError("[DataParallel] expected no device_ids: there are no GPUs.")
        self.module = module
        self.device_ids: list[int] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """The model itself under the name `module`, in a world of one process."""

    def __init__(self, module: Module, device_ids: Any = None, **options: Any) -> None:
        super().__init__()
        get_world_size()  # an error before `init_process_group`, as in PyTorch
        if device_ids and any(str(d) not in ("cpu", "None") for d in device_ids):
            raise ValueError("[DistributedDataParallel] expected no device_ids: there are no GPUs.")
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are not averaged inside: one process averages none."""
        yield
