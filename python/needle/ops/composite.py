"""The derivatives of fused operators, by the composite of plain operators that each one equals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..autograd import Tensor
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import backward_pass
from .common import fresh_leaf

if TYPE_CHECKING:
    from ..types import Adjoint


def gradient_of_gradient(
    composite: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    given: Sequence[Tensor],
    wanted: Sequence[bool],
    out_grads: Sequence[Tensor],
) -> tuple[list[Adjoint], list[Adjoint]]:
    """Differentiates (inputs, given) -> adjoints of the wanted inputs of `composite`, where `given`
    are the adjoints of its results. Gives the adjoints of inputs and of given."""
    with enable_grad():
        sources, seeds = [fresh_leaf(x) for x in inputs], [fresh_leaf(g) for g in given]
        first = backward_pass(composite(*sources), seeds, sources, create_graph=True)
    pairs = [
        (adjoint, out_grad)
        for adjoint, out_grad in zip(
            (a for a, w in zip(first, wanted, strict=True) if w), out_grads, strict=True
        )
        if adjoint is not None
    ]
    second = backward_pass(
        [a for a, _ in pairs],
        [g for _, g in pairs],
        [*sources, *seeds],
        create_graph=is_grad_enabled(),
    )
    return second[: len(sources)], second[len(sources) :]
