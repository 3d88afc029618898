"""Linear maps for inference whose weights are stored in fewer bits.

A product of one row, a token that is decoded, takes the time that its weights take to be read:
half in bfloat16, a quarter in int8. Activations, sums and biases stay float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import init
from ..autograd import Tensor, no_grad
from ..dtype import dtype_of
from ..ops import clip, isfinite, where
from .container import Modules
from .linear import Linear
from .module import Module, Parameter

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike

__all__ = ["QuantizedLinear", "quantize"]

DTYPES = ("bfloat16", "int8")
LARGEST = 127  # of int8, on both sides of 0
SMALLEST = 2.0**-126  # float32 with all its bits


class QuantizedLinear(Module):
    """y = (x W) s + b, with W (in, out) in int8, s and b (1, out): (..., in) -> (..., out).

    Column j of W is round(w / s_j) for s_j = max |w_j| / 127, so a weight is at most s_j / 2 off.
    With dtype "bfloat16" there is no s, and a weight is at most 2⁻⁹ of itself off. W and s are
    buffers: they get no gradient, inputs and the bias do.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "int8",
    ):
        dtype = dtype_of(dtype)
        if dtype not in DTYPES:
            raise ValueError(f"[QuantizedLinear] dtype must be one of {DTYPES}, got {dtype}.")
        self.in_features = in_features
        self.out_features = out_features
        row = (1, out_features)
        self.weight = init.zeros(in_features, out_features, device=device, dtype=dtype)
        self.scale = init.ones(*row, device=device) if dtype == "int8" else None
        self.bias = Parameter(init.zeros(*row, device=device)) if bias else None

    @classmethod
    def from_linear(cls, linear: Linear, dtype: DTypeLike = "int8") -> QuantizedLinear:
        """A layer that computes what `linear` does, to rounding; it shares the bias."""
        return cls.from_weight(linear.weight, linear.bias, dtype)

    @classmethod
    def from_weight(
        cls, weight: Tensor, bias: Parameter | None = None, dtype: DTypeLike = "int8"
    ) -> QuantizedLinear:
        """The layer x -> x weight + bias, for a weight (in, out)."""
        inner, outer = weight.shape
        layer = cls(inner, outer, False, weight.device, dtype)
        with no_grad():
            if layer.scale is None:
                layer.weight = weight.detach().astype(layer.weight.dtype)
            elif inner > 0:
                layer.weight, layer.scale = _in_int8(weight.detach().astype("float32"))
        layer.bias = bias
        return layer

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(
                f"[QuantizedLinear] expected the last dimension of the input to be "
                f"{self.in_features}, got {x.shape}."
            )
        y = x @ self.weight  # (..., out)
        if self.scale is not None:
            y = y * self.scale.reshape((self.out_features,))
        return y if self.bias is None else y + self.bias.reshape((self.out_features,))

    def dequantized(self) -> Tensor:
        """The weights (in, out) that the layer stands for, in float32."""
        weight: Tensor = self.weight.astype("float32")
        return weight if self.scale is None else weight * self.scale

    def extra_repr(self) -> str:
        sizes = f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"
        return f"{sizes}, dtype={self.weight.dtype}"


def _in_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W and s, with W s close to a weight. A column that is zero, or so small that its scale would
    lose bits, becomes zero."""
    if not isfinite(weight).all().item():
        raise ValueError("[quantize] expected finite weights, got some that are nan or inf.")
    scale = abs(weight).max(axis=0, keepdims=True) / LARGEST
    scale = where(scale >= SMALLEST, scale, 1.0)
    return clip((weight / scale).round(), -LARGEST, LARGEST).astype("int8"), scale


def quantize(
    model: Module,
    dtype: DTypeLike = "int8",
    only: Callable[[str, Linear], bool] | None = None,
) -> Module:
    """Replace the Linear layers below a model, in place, by QuantizedLinear ones; returns the model
    (or, if it is itself a Linear, its replacement). `only(name, layer)` says which.

    Load float weights first: afterwards the state has the names and dtypes of the new layers."""
    made: dict[int, QuantizedLinear] = {}  # a layer with two names stays one
    names = {id(module): name for name, module in model.named_modules()}

    def replaced(value: Any) -> Any:
        if type(value) is Linear and (only is None or only(names[id(value)], value)):
            if id(value) not in made:
                made[id(value)] = QuantizedLinear.from_linear(value, dtype)
            return made[id(value)]
        if isinstance(value, dict):
            new: Any = {key: replaced(item) for key, item in value.items()}
            return new if any(new[key] is not item for key, item in value.items()) else value
        if type(value) in (list, tuple, Modules):
            items = [replaced(item) for item in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else type(value)(items)  # a container keeps its names
        return value

    for module in [module for _, module in model.named_modules()]:
        for name, value in list(module.__dict__.items()):
            new = replaced(value)
            if new is not value:
                setattr(module, name, new)
    result: Module = replaced(model)
    return result
