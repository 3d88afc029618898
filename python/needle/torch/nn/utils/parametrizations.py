"""Weight norm, spectral norm and orthogonal weights, as parametrizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import torch
from .. import functional as F
from ..base.module import Module
from .parametrize import register_parametrization

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except(v: Tensor, dim: int) -> Tensor:
    """The length of v along all axes but one; along all, if dim is -1."""
    if dim == -1:
        return v.norm()
    axes = tuple(i for i in range(v.ndim) if i != dim)
    return torch.norm(v, 2, axes, True)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with one axis as rows."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.reshape(weight.shape[0], -1)


class _WeightNorm(Module):
    """w = g v / |v|"""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """g and v of a weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """The weight as its length and its direction."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """w / σ(w), the largest singular value by power iteration"""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            u, v = (matrix.new_empty(n).normal_(0, 1) for n in matrix.shape)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, times: int) -> None:
        with torch.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.t() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: dividing by σ again changes nothing."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """The weight with 1 as its largest singular value."""
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
        dim = 1 if type(module).__name__ in transposed else 0
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, norm)


class _Orthogonal(Module):
    """An orthogonal matrix: base times e^A or the Cayley map, A antisymmetric"""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.transpose(-2, -1) if wide else X
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = torch.cat([x, torch.zeros((*x.shape[:-2], n, n - k), dtype=x.dtype)], -1)
        a = x - x.transpose(-2, -1)
        if self.orthogonal_map == "matrix_exp":
            q = torch.matrix_exp(a)
        else:
            eye = torch.eye(n, dtype=a.dtype)
            q = torch.linalg.solve(eye - 0.5 * a, eye + 0.5 * a)
        q = q[..., :k] if n != k else q
        q = q if self.base is None else self.base @ q
        return q.transpose(-2, -1) if wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Q becomes the base; the map starts from -1, whose part below the diagonal is 0."""
        with torch.no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            q = Q.transpose(-2, -1) if wide else Q
            n, k = q.shape[-2:]
            if n != k:
                more = torch.randn(*q.shape[:-2], n, n - k, dtype=q.dtype)
                q = torch.cat([q, more], -1)
            found, r = torch.linalg.qr(q)
            signs = r.diagonal(dim1=-2, dim2=-1).sign()
            self.base = found * signs.unsqueeze(-2)
            return -torch.eye(*Q.shape[-2:], dtype=Q.dtype).expand(Q.shape).clone()


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Module:  # fmt: skip
    """The weight as an orthogonal matrix."""
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    if orthogonal_map == "householder" or not use_trivialization:
        raise NotImplementedError(
            "[torch.nn.utils.parametrizations.orthogonal] the map 'householder' (the default for "
            "matrices that are not square) and use_trivialization=False are missing; give "
            "orthogonal_map='matrix_exp'."
        )
    norm = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, norm, unsafe=True)
