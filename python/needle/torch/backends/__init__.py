"""`torch.backends`: questions about libraries that PyTorch has and this one has not."""

from __future__ import annotations

import sys
from types import ModuleType


class Backend(ModuleType):
    """A library that is not here; settings are kept, and change nothing."""

    enabled = benchmark = deterministic = allow_tf32 = False

    def is_available(self) -> bool:
        """Is it here? No."""
        return False

    def is_built(self) -> bool:
        """Is it here? No."""
        return False

    def version(self) -> None:
        """None"""

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Nothing: there is one kernel of attention."""

    enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp

    def flash_sdp_enabled(self) -> bool:
        """No."""
        return False


class _Matmul:
    """Settings of products on a GPU."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False
    fp32_precision = "ieee"


def _backend(name: str) -> Backend:
    module = Backend(f"{__name__}.{name}", "Not here.")
    sys.modules[module.__name__] = module
    return module


cudnn, cuda, mps, mkl, mkldnn, openmp, quantized, xnnpack, opt_einsum, nnpack = (
    _backend(name) for name in (
        "cudnn", "cuda", "mps", "mkl", "mkldnn", "openmp", "quantized", "xnnpack", "opt_einsum",
        "nnpack",
    )
)  # fmt: skip
cuda.matmul = _Matmul()  # type: ignore[attr-defined]


class cpu:
    """The CPU."""

    @staticmethod
    def get_cpu_capability() -> str:
        """The instruction set of the kernels."""
        from ..._native import instruction_set

        return instruction_set().upper()
