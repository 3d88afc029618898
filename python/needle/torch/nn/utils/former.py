"""Weight norm and spectral norm by hooks, as they were before parametrizations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .... import torch
from .. import functional as F
from ..base.module import Module
from ..parameter import Parameter
from .parametrizations import as_matrix, norm_except

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _Computed:
    """A hook that computes module.name before each forward."""

    name: str

    def compute(self, module: Module) -> Tensor:
        """The weight."""
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))

    @classmethod
    def of(cls, module: Module, name: str) -> int | None:
        """The number of the hook that computes this weight."""
        for number, hook in module._forward_pre_hooks.items():
            if isinstance(hook, cls) and hook.name == name:
                return number
        return None


class WeightNorm(_Computed):
    """w = g v / |v|, with parameters weight_g and weight_v"""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute(self, module: Module) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        found: Tensor = v * (g / norm_except(v, self.dim))
        return found


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """The weight as its length, `weight_g`, and its direction, `weight_v`."""
    if WeightNorm.of(module, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    del module._parameters[name]
    g = norm_except(weight.detach(), hook.dim)
    module.register_parameter(f"{name}_g", Parameter(g))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """The weight as one parameter again."""
    number = WeightNorm.of(module, name)
    if number is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(number).compute(module)  # type: ignore[attr-defined]
    delattr(module, name)
    for part in ("g", "v"):
        del module._parameters[f"{name}_{part}"]
    setattr(module, name, Parameter(weight.detach()))
    return module


class SpectralNorm(_Computed):
    """w / σ(w), with a parameter weight_orig and buffers weight_u and weight_v"""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute(self, module: Module) -> Tensor:
        return self.computed(module, module.training)

    def computed(self, module: Module, iterates: bool) -> Tensor:
        """The weight; iterates: after power iterations."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = as_matrix(weight, self.dim)
        if iterates:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        found: Tensor = weight / (u * (matrix @ v)).sum()
        return found


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> M:  # fmt: skip
    """The weight with 1 as its largest singular value."""
    if dim is None:
        transposed = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
        dim = 1 if type(module).__name__ in transposed else 0
    if SpectralNorm.of(module, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight: Any = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    matrix = as_matrix(weight.detach(), dim)
    u, v = (F.normalize(matrix.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in matrix.shape)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_note_version(name))
    return module


def _note_version(name: str) -> Any:
    def note(module: Module, state: Any, prefix: str, metadata: dict[str, Any]) -> None:
        metadata.setdefault("spectral_norm", {})[f"{name}.version"] = 1

    return note


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """The weight as one parameter again."""
    number = SpectralNorm.of(module, name)
    if number is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks.pop(number)
    with torch.no_grad():
        weight = hook.computed(module, False)
    for part in ("", "_u", "_v", "_orig"):
        delattr(module, name + part)
    module.register_parameter(name, Parameter(weight.detach()))
    return module
