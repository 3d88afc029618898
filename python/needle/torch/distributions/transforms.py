"""Invertible functions of samples, with the logarithms of their derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import torch
from ..nn.functional import softplus

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = [
    "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftplusTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class Transform:
    """y = f(x): subclasses define `_call`, `_inverse` and `log_abs_det_jacobian`."""

    bijective = True
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._last: tuple[Any, Any] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self._last is not None and self._last[0] is x:
            return self._last[1]  # type: ignore[no-any-return]
        y = self._call(x)
        if self._cache_size:
            self._last = (x, y)
        return y

    def inverse(self, y: Tensor) -> Tensor:
        """x of y; the one that y was computed from, if that is kept."""
        if self._last is not None and self._last[1] is y:
            return self._last[0]  # type: ignore[no-any-return]
        return self._inverse(y)

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _Inverse(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """ln |dy / dx|"""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same, keeping the last values."""
        self._cache_size = cache_size
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, base: Transform) -> None:
        super().__init__()
        self._base = base

    @property
    def inv(self) -> Transform:
        return self._base

    def _call(self, x: Tensor) -> Tensor:
        return self._base.inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._base(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._base.log_abs_det_jacobian(y, x)


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = parts

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = torch.zeros_like(x)
        for part in self.parts:
            after = part(x)
            total = total + part.log_abs_det_jacobian(x, after)
            x = after
        return total  # type: ignore[no-any-return]


identity_transform = ComposeTransform([])


class ExpTransform(Transform):
    """y = e^x"""

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^k"""

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """y = σ(x)"""

    def _call(self, x: Tensor) -> Tensor:
        info = torch.finfo(x.dtype)
        return torch.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = torch.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = ln(1 + e^x)"""

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x)"""

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AffineTransform(Transform):
    """y = loc + scale x"""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self.event_dim = event_dim

    @property
    def sign(self) -> Any:  # type: ignore[override]
        """Does it go up, or down?"""
        if isinstance(self.scale, torch.Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, torch.Tensor):
            found = self.scale.abs().log()
        else:
            found = torch.full_like(x.detach(), math.log(abs(self.scale)))
        if self.event_dim:
            found = found.expand(x.shape)
            found = found.reshape((*x.shape[: -self.event_dim], -1)).sum(-1)
        return found.expand(x.shape[: x.ndim - self.event_dim])
