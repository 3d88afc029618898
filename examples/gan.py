"""A generative adversarial network: random numbers become a tilted cloud of points.

    python examples/gan.py [--steps 2000] [--batch 64] [--lr 0.005]

Target: mean and covariance of the generated points within 0.5 of the data's.
"""

from __future__ import annotations

import argparse

import numpy as np

import needle as ndl
from needle import nn

MEAN = np.array([2.0, 1.0])
MIX = np.array([[1.0, 2.0], [-0.2, 0.5]])  # of two normal numbers


def real_points(n: int) -> ndl.Tensor:
    points = np.random.randn(n, 2) @ MIX + MEAN
    return ndl.tensor(points, dtype="float32")


def make_discriminator() -> nn.Module:
    """(B, 2) -> (B, 1): how real the points look, before the sigmoid"""
    return nn.Sequential(
        nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
    )


def update(optimizer: ndl.optim.Optimizer, loss: ndl.Tensor) -> float:
    optimizer.reset_grad()
    loss.backward(create_graph=False)
    optimizer.step()
    return loss.item()


def errors(generator: nn.Module) -> tuple[float, float]:
    """The largest error of the mean and of the covariance, from 4,000 points."""
    with ndl.no_grad():
        points = generator(ndl.randn(4000, 2)).numpy()
    mean = np.abs(points.mean(axis=0) - MEAN).max()
    covariance = np.abs(np.cov(points.T) - MIX.T @ MIX).max()
    return float(mean), float(covariance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    generator, discriminator = nn.Linear(2, 2), make_discriminator()
    opt_g = ndl.optim.Adam(generator.parameters(), options.lr, 0.5, 0.99)
    opt_d = ndl.optim.Adam(discriminator.parameters(), options.lr, 0.5, 0.99)
    schedules = [ndl.optim.CosineAnnealingLR(opt, options.steps) for opt in (opt_g, opt_d)]
    loss_fn = nn.BCEWithLogitsLoss()
    real, fake = ndl.ones(options.batch, 1), ndl.zeros(options.batch, 1)
    for step in range(1, options.steps + 1):
        made = generator(ndl.randn(options.batch, 2))
        judged = discriminator(made.detach()), discriminator(real_points(options.batch))
        loss_d = update(opt_d, loss_fn(judged[0], fake) + loss_fn(judged[1], real))
        loss_g = update(opt_g, loss_fn(discriminator(made), real))
        for schedule in schedules:
            schedule.step()
        if step % max(1, options.steps // 10) == 0:
            mean, covariance = errors(generator)
            print(
                f"step {step:5}  discriminator {loss_d:.3f}  generator {loss_g:.3f}  "
                f"error of mean {mean:.3f}, covariance {covariance:.3f}"
            )
    mean, covariance = errors(generator)
    print(f"error of mean {mean:.3f} (target 0.5), of covariance {covariance:.3f} (target 0.5)")


if __name__ == "__main__":
    main()
