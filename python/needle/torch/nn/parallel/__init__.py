"""`torch.nn.parallel`: models on several devices, of which there is one here."""

from __future__ import annotations

from typing import Any

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
    """A model whose gradients are averaged over processes, after each backward pass."""

    def __init__(self, module: Module, device_ids: Any = None, **options: Any) -> None:
        super().__init__()
        raise NotImplementedError(
            "[torch.nn.parallel.DistributedDataParallel] is missing; average the gradients with "
            "needle.distributed, or run one process."
        )
