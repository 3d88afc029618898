"""Student's t distribution has PyTorch's density and moments."""

from __future__ import annotations

import pytest

import needle.torch as ours

theirs = pytest.importorskip("torch")


def test_density_and_moments() -> None:
    found = []
    for torch in (ours, theirs):
        scale = torch.tensor([1.0, 2.0], requires_grad=True)
        t = torch.distributions.StudentT(torch.tensor([3.0, 1.5]), torch.tensor(0.5), scale)
        density = t.log_prob(torch.tensor([0.3, -4.0]))
        density.sum().backward()
        found.append([*density.tolist(), *scale.grad.tolist(), *t.mean.tolist()])
        found[-1] += t.variance.tolist()
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    ours.manual_seed(0)
    drawn = ours.distributions.StudentT(9.0, 2.0, 1.0).sample((4000,))
    assert drawn.mean().item() == pytest.approx(2.0, abs=0.1)
    assert drawn.var().item() == pytest.approx(9 / 7, abs=0.2)
