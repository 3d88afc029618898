"""A `while` in a traced function as one loop of the graph, which ends when its condition does.

How many steps it makes is not known, so no step can be kept for backward. The gradient goes back
from the last step, and computes the state before each step again from the beginning: no memory for
steps, but a time that grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ... import tracing
from ...autograd import Tensor, TensorTuple
from ...autograd.grad_mode import enable_grad, is_grad_enabled
from ...autograd.graph import backward_pass
from ...backend import BackendDevice, default_device
from ...dtype import DType, int64
from ...ndarray.array import full
from ...ops.common import fresh_leaf, zeros_like
from ..errors import at_user_line
from .bodies import NotCompact
from .loops import UNBOUNDED
from .scan import Body

if TYPE_CHECKING:
    from ...types import Gradients

Shape = tuple[int, ...]
State = list[Tensor]
Condition = Callable[[State], Tensor]
Update = Callable[[State], State]


def constant(
    value: float, dtype: DType, device: BackendDevice | None = None, shape: Shape = ()
) -> Tensor:
    """A tensor of one number."""
    return Tensor.make_const(full(shape, value, dtype, device or default_device()))


@contextmanager
def computed_again() -> Iterator[None]:
    """Within this context, steps have no effects: they were made before."""
    recording: Any = tracing.active()
    if recording is None:
        yield
        return
    before, recording.is_again = recording.is_again, True
    try:
        yield
    finally:
        recording.is_again = before


def until_false(op: str, condition: Condition, update: Update, init: State) -> State:
    """state = update(state) as long as condition(state), a 0-d bool tensor, holds."""
    try:
        return While(condition, update, init).state()
    except NotCompact as found:
        raise at_user_line(
            f"[{op}] expected a step that gives values of the same shapes and dtypes and changes "
            f"nothing outside of the loop, but {found}; assign the results to variables, and draw "
            "random numbers before."
        ) from None


class While(Body):
    """Carries whether to go on, how many steps were made, and the state."""

    keeps_befores = False
    OWN = 2  # carried values that are not the state

    def __init__(self, condition: Condition, update: Update, init: State):
        self.condition, self.update = condition, update
        going, count = condition(init), constant(0, int64, init[0].device)
        super().__init__(self._step, [going, count, *init], None, UNBOUNDED, False)
        self.count = count

    def _step(self, carry: State, _: object) -> tuple[State, None]:
        new = self.update(carry[self.OWN :])
        return [self.condition(new), carry[1] + 1, *new], None

    def state(self) -> State:
        """Record the loop: the state after it."""
        made, _ = self.run()
        self.count = made[1]
        return list(made[self.OWN :])

    def _after(self, steps: Tensor) -> State:
        """The state after some steps, computed again."""
        first = constant(0, int64, steps.device)

        def update(state: State) -> State:
            return [state[0] + 1, *self.update(state[1:])]

        init = [first, *self.inits[self.OWN :]]
        with computed_again():
            return While(lambda s: s[0] < steps, update, init).state()[1:]

    def vjp(self, kept: list[int], given: Sequence[Tensor], node: TensorTuple) -> Gradients:
        """The adjoints of all inputs, given those of the outputs at the positions `kept`."""
        adjoints = dict(zip(kept, given, strict=True))
        outside = list(node.inputs[len(self.inits) :])
        moving = self.moving
        seeds = [adjoints[k] if k in adjoints else zeros_like(self.inits[k]) for k in moving]
        count = len(moving)

        def back(state: State) -> State:
            left, sums = state[0] - 1, state[1 + count :]
            before = self._after(left)
            with enable_grad(), computed_again():
                carried = [
                    fresh_leaf(b) if k in moving else b for k, b in enumerate(before, self.OWN)
                ]
                new = self.update(carried)
            pairs = [
                (new[k - self.OWN], g)
                for k, g in zip(moving, state[1 : 1 + count], strict=True)
                if new[k - self.OWN].requires_grad
            ]
            wanted: list[Any] = [*(carried[k - self.OWN] for k in moving), *outside]
            found = backward_pass(
                [o for o, _ in pairs],
                [g for _, g in pairs],
                wanted,
                create_graph=is_grad_enabled(),
                is_part=True,
            )
            full: Any = [
                zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)
            ]
            added: Any = [s + g for s, g in zip(sums, full[count:], strict=True)]
            return [left, *full[:count], *added]

        init = [self.count, *seeds, *map(zeros_like, outside)]
        made = While(lambda state: state[0] > 0, back, init).state()[1:]
        places = [*moving, *range(len(self.inits), len(node.inputs))]
        gradients = dict(zip(places, made, strict=True))
        return tuple(gradients.get(k) for k in range(len(node.inputs)))
