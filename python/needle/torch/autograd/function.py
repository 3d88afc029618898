"""`autograd.Function`: operators whose gradient the user writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...autograd import Tensor as EngineTensor, TensorOp, TensorTupleOp
from ...autograd.grad_mode import GradMode, is_grad_enabled
from ..core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from ...types import Gradients


class FunctionCtx:
    """What forward keeps for backward."""

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _dirty: tuple[Any, ...] = ()
    _flat: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors."""
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs forward changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self._flat = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether backward gets zeros in place of None."""
        self.materialize_grads = value


class _Steps:
    """What an operator of one result and one of several share."""

    def __init__(self, function: type[Function], ctx: Any, args: tuple[Any, ...], results: Any):
        self.function, self.ctx, self.results = function, ctx, results
        self.places = [i for i, a in enumerate(args) if isinstance(a, EngineTensor)]
        self.count = len(args)
        self.backward_name = f"{function.__name__}Backward"

    def run_backward(self, grads: tuple[Any, ...]) -> Gradients:
        found = self.function.backward(self.ctx, *grads)
        listed = found if isinstance(found, tuple) else (found,)
        if len(listed) < self.count:
            raise RuntimeError(
                f"function {self.function.__name__}Backward returned an incorrect number of "
                f"gradients (expected {self.count}, got {len(listed)})"
            )
        return tuple([listed[i] for i in self.places])


class ApplyOne(_Steps, TensorOp):
    """A user's function of one result"""

    def compute(self, *arrays: Any) -> Any:
        return self.results[0]

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        return self.run_backward((out_grad,))


class ApplySeveral(_Steps, TensorTupleOp):
    """A user's function of several results"""

    def compute(self, *arrays: Any) -> Any:
        return tuple(self.results)

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        return self.run_backward(tuple(out_grad.tuple()))


class FunctionMeta(type):
    """Gives each function a class for its context."""


class Function(metaclass=FunctionMeta):
    """An operator: `forward(ctx, *args)` and `backward(ctx, *grads)`, called by `apply`."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what backward needs, where forward has no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments."""
        raise NotImplementedError(
            "You must implement the backward function for custom autograd.Function."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """The results, as values of the graph."""
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, EngineTensor) and a.requires_grad for a in args)
        with GradMode(False):
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        return cls._record(ctx, args, output)

    @classmethod
    def _record(cls, ctx: FunctionCtx, args: tuple[Any, ...], output: Any) -> Any:
        tensors = [a for a in args if isinstance(a, EngineTensor)]
        listed = list(output) if isinstance(output, (tuple, list)) else [output]
        flat = {id(x) for x in ctx._flat}
        traced = [
            x for x in listed
            if isinstance(x, EngineTensor) and id(x) not in flat and x.dtype.is_floating
        ]  # fmt: skip
        if not (is_grad_enabled() and any(ctx.needs_input_grad)) or not traced:
            return output
        arrays = [x.realize_cached_data() for x in traced]
        kind = ApplyOne if len(traced) == 1 else ApplySeveral
        value: Any = kind(cls, ctx, args, arrays)(*tensors)
        values = [value] if len(traced) == 1 else list(value.tuple())
        made = dict(zip(map(id, traced), values, strict=True))
        results = [made.get(id(x), x) for x in listed]
        for x in ctx._dirty:
            _become(x, made.get(id(x)))
        for i, x in enumerate(listed):
            if any(x is d for d in ctx._dirty):
                results[i] = x
        _keep_results(ctx, made)
        return results[0] if not isinstance(output, (tuple, list)) else type(output)(results)


def _become(x: Any, value: Any) -> None:
    """Let an input that was changed in place be the result."""
    if value is not None:
        from ...autograd import rebind
        from ..core.writing import Replaced

        rebind.become(x, Replaced(), value)


def _keep_results(ctx: FunctionCtx, made: dict[int, Any]) -> None:
    """Results that were kept are those with a history."""
    ctx.saved_tensors = tuple(
        wrap(x.cached_data) if id(x) in made and isinstance(x, Tensor) else x
        for x in ctx.saved_tensors
    )


def once_differentiable(function: Any) -> Any:
    """backward, without gradients of its own."""

    def backward(ctx: Any, *grads: Any) -> Any:
        with GradMode(False):
            return function(ctx, *grads)

    return backward
