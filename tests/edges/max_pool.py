"""Max pooling by its definition, window by window."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

import needle as ndl

from .values import Array


@dataclass(frozen=True)
class Pool:
    """The windows of a pooling, for each axis of space."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    def __call__(self, x, return_indices=False):
        return ndl.max_pool(
            x, self.size, self.stride, self.padding, self.dilation, self.ceil_mode, return_indices
        )

    def largest(self, x: Array, window: tuple[int, ...]) -> tuple[int, ...] | None:
        """Where the first of the largest elements of a window lies; None in the padding."""
        found = None
        for tap in itertools.product(*map(range, self.size)):
            axes = zip(window, self.stride, self.padding, tap, self.dilation, strict=True)
            place = tuple(p * s - pad + t * d for p, s, pad, t, d in axes)
            if not all(0 <= i < n for i, n in zip(place, x.shape, strict=True)):
                continue
            if found is None or x[place] > x[found] or (np.isnan(x[place]) > np.isnan(x[found])):
                found = place
        return found

    def expected(self, x: Array, g: Array) -> tuple[Array, Array, Array]:
        """The value, the positions and the gradient for an adjoint g in the result's shape."""
        y, index, gradient = np.full(g.shape, -np.inf), np.full(g.shape, -1), np.zeros(x.shape)
        for n, c, *window in np.ndindex(*g.shape):
            image, at = x[n, c], (n, c, *window)
            place = self.largest(image, tuple(window))
            if place is not None:
                y[at] = image[place]
                index[at] = np.ravel_multi_index(place, image.shape)
                gradient[n, c][place] += g[at]
        return y, index, gradient


def check(pool: Pool, x: Array, rng: np.random.Generator, compiled: bool) -> int:
    """Compare with the definition; gives how many windows lie in the padding."""

    def forward_and_backward(x, g):
        leaf = x.detach()
        leaf.requires_grad = True
        y, index = pool(leaf, return_indices=True)
        y.backward(g)
        return y.detach(), index, leaf.grad.detach()

    shape = pool(ndl.tensor(x, dtype="float64")).shape
    g = rng.integers(-3, 4, shape).astype(float)
    function = ndl.jit(forward_and_backward) if compiled else forward_and_backward
    found = function(ndl.tensor(x, dtype="float64"), ndl.tensor(g, dtype="float64"))
    expected = pool.expected(x, g)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=f"{pool} of {x.shape}")
    return int((expected[1] == -1).sum())
