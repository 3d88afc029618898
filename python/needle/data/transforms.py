"""Transforms of images (H, W, C), as callables. Random ones draw from NumPy's global generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "Transform", "Compose", "RandomFlipHorizontal", "RandomCrop", "Normalize", "RandomErasing",
    "Mixup",
]  # fmt: skip

Array = np.ndarray[Any, Any]


class Transform:
    """The base: a callable on one image."""

    def __call__(self, x: Array) -> Array:
        raise TypeError(f"[{type(self).__name__}] define __call__(self, x).")


class Compose(Transform):
    """Several transforms as one."""

    def __init__(self, *transforms: Callable[[Array], Array]):
        self.transforms = transforms

    def __call__(self, x: Array) -> Array:
        for transform in self.transforms:
            x = transform(x)
        return x


class RandomFlipHorizontal(Transform):
    """Left and right swapped with probability p: one draw per image."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, img: Array) -> Array:
        return np.flip(img, 1) if np.random.rand() < self.p else img


class RandomCrop(Transform):
    """Shifted by up to `padding` pixels both ways, zeros coming in: one draw of two numbers."""

    def __init__(self, padding: int = 3):
        self.padding = padding

    def __call__(self, img: Array) -> Array:
        p = self.padding
        shift_x, shift_y = np.random.randint(low=-p, high=p + 1, size=2)
        height, width = img.shape[:2]
        padded = np.pad(img, [(p, p), (p, p)] + [(0, 0)] * (img.ndim - 2))
        return padded[p + shift_x : p + shift_x + height, p + shift_y : p + shift_y + width]


class Normalize(Transform):
    """(x - mean) / std, per channel (the last axis)."""

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]):
        self.mean = np.asarray(mean, np.float32)
        self.std = np.asarray(std, np.float32)
        if (self.std == 0).any():
            raise ValueError(f"[Normalize] std must not be 0, got {std}.")

    def __call__(self, x: Array) -> Array:
        return (x - self.mean) / self.std


class RandomErasing(Transform):
    """With probability p, a random rectangle set to `value` (Zhong et al., 2017)."""

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float = 0.0,
    ):
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value

    def __call__(self, img: Array) -> Array:
        if np.random.rand() >= self.p:
            return img
        height, width = img.shape[:2]
        area = height * width * np.random.uniform(*self.scale)
        aspect = np.exp(np.random.uniform(*np.log(self.ratio)))
        h = min(height, max(1, round(np.sqrt(area * aspect))))
        w = min(width, max(1, round(np.sqrt(area / aspect))))
        top, left = np.random.randint(height - h + 1), np.random.randint(width - w + 1)
        erased = img.copy()
        erased[top : top + h, left : left + w] = self.value
        return erased


class Mixup:
    """Pairs of a batch blended with one weight from Beta(alpha, alpha) (Zhang et al., 2018).

    x (n, ...) and labels (n,) -> blended x, and label probabilities (n, classes)."""

    def __init__(self, num_classes: int, alpha: float = 0.2):
        self.num_classes = num_classes
        self.alpha = alpha

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        weight = np.float32(np.random.beta(self.alpha, self.alpha))
        other = np.random.permutation(len(x))
        targets = np.eye(self.num_classes, dtype=np.float32)[np.asarray(y, np.int64)]
        blend = weight * targets + (1 - weight) * targets[other]
        return (weight * x + (1 - weight) * x[other]).astype(x.dtype), blend
