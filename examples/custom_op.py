"""An operator of your own: compute and gradient, checked, and trained through.

    python examples/custom_op.py [--steps 1000]

The operator is Swish with a slope, y = x sigmoid(b x), with gradients for x and b. A small net that
learns its slopes fits a curve. Target: a mean squared error below 0.01.
"""

from __future__ import annotations

import argparse

import numpy as np

import needle as ndl
from needle import nn
from needle.ndarray import functions as F
from needle.testing import check_grads


class Swish(ndl.TensorOp):
    """y = x s with s = sigmoid(b x);  dy/dx = s + b y (1 - s),  dy/db = x y (1 - s)"""

    def compute(self, x, b):
        return F.binary("multiply", x, F.unary("sigmoid", F.binary("multiply", b, x)))

    def gradient(self, out_grad, node):
        x, b = node.inputs
        s = ndl.sigmoid(b * x)
        rest = node * (1 - s)
        return out_grad * (s + b * rest), out_grad * x * rest


def swish(x: ndl.Tensor, b: ndl.Tensor) -> ndl.Tensor:
    """x sigmoid(b x) for x and b of one shape."""
    return Swish()(x, b)


class SwishLayer(nn.Module):
    """A slope for each feature: (B, n) -> (B, n)"""

    def __init__(self, features: int):
        self.slope = nn.Parameter(ndl.ones(features))

    def forward(self, x: ndl.Tensor) -> ndl.Tensor:
        return swish(x, self.slope.broadcast_to(x.shape))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    check_grads(swish, ndl.randn(3, 4), ndl.randn(3, 4))
    print("gradients agree with finite differences: first and second order, both modes")
    x = ndl.linspace(-3, 3, 200).reshape((200, 1))
    y = ndl.sin(2 * x) + 0.3 * x * x
    model = nn.Sequential(
        nn.Linear(1, options.width), SwishLayer(options.width), nn.Linear(options.width, 1)
    )
    optimizer = ndl.optim.Adam(model.parameters(), lr=options.lr)
    schedule = ndl.optim.CosineAnnealingLR(optimizer, options.steps)
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        schedule.step()
        if step % max(1, options.steps // 5) == 0:
            print(f"step {step:4}  error {loss.item():.4f}")
    slopes = model.modules[1].slope.numpy()
    print(f"slopes from {slopes.min():.2f} to {slopes.max():.2f}")
    print(f"mean squared error {loss.item():.4f} (target 0.01)")


if __name__ == "__main__":
    main()
