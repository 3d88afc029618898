"""`torch.autograd`."""

from ..core.tensor import Tensor
from . import functional as functional
from .checks import (
    detect_anomaly as detect_anomaly,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
    set_detect_anomaly as set_detect_anomaly,
)
from .function import Function as Function, FunctionCtx as FunctionCtx
from .modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .reverse import backward as backward, grad as grad

Variable = Tensor
