"""What a model is made of: its layers, their output shapes, parameters, work and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .. import init
from ..autograd import Observer, Op, Tensor, TensorTuple, Value
from ..autograd.grad_mode import no_grad
from ..autograd.graph import observers
from ..dtype import dtype_of
from ..ops import MatMul, TupleGetItem
from ..ops.network.attention import Attention
from ..ops.network.conv import Conv, ConvByData
from .module import Module, Parameter

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike

__all__ = ["Summary"]

Shape = tuple[int, ...]


def _matmul_flops(out: Shape, a: Shape, *_: Shape) -> int:
    return 2 * math.prod(out) * a[-1]


def _conv_flops(out: Shape, _: Shape, w: Shape) -> int:
    return 2 * math.prod(out) * math.prod(w[:-1])


def _transposed_conv_flops(_: Shape, y: Shape, w: Shape) -> int:
    return 2 * math.prod(y) * math.prod(w[:-1])


def _attention_flops(out: Shape, q: Shape, k: Shape, *_: Shape) -> int:
    return 2 * math.prod(out[:-1]) * k[-2] * (q[-1] + out[-1])


# Multiplications and additions, from the shapes of the result and of the inputs.
FLOPS: dict[type[Op], Callable[..., int]] = {
    MatMul: _matmul_flops,
    Conv: _conv_flops,
    ConvByData: _transposed_conv_flops,
    Attention: _attention_flops,
}


@dataclass
class Layer:
    """One module of the tree. Parameters, FLOPs and bytes are its own, without its children's."""

    name: str  # the path, "" for the model
    kind: str
    label: str  # the path from the module that holds it
    depth: int
    parameters: int = 0
    frozen: int = 0  # of the parameters, those without gradient
    bytes: int = 0  # of parameters and buffers
    output_shapes: list[Shape] = field(default_factory=list)
    flops: int = 0
    activation_bytes: int = 0  # of everything that its forward computed


class Summary:
    """The layers of a model and their sums; as text, a table."""

    def __init__(self, layers: Sequence[Layer], input_shapes: Sequence[Shape]):
        self.layers = list(layers)
        self.input_shapes = list(input_shapes)

    def _total(self, name: str) -> int:
        return sum(getattr(layer, name) for layer in self.layers)

    @property
    def parameters(self) -> int:
        """How many numbers the model learns or has learnt."""
        return self._total("parameters")

    @property
    def trainable(self) -> int:
        """Those that get a gradient."""
        return self.parameters - self._total("frozen")

    @property
    def flops(self) -> int:
        """Multiplications and additions of matrix products and convolutions in one forward."""
        return self._total("flops")

    @property
    def bytes(self) -> int:
        """Memory of parameters and buffers."""
        return self._total("bytes")

    @property
    def activation_bytes(self) -> int:
        """Memory of all that one forward computes: what training keeps for backward, at most."""
        return self._total("activation_bytes")

    def __str__(self) -> str:
        rows = [("layer", "output", "parameters", "FLOPs")]
        for layer in self.layers:
            title = f"{layer.label}: {layer.kind}" if layer.label else layer.kind
            shapes = ", ".join(map(str, layer.output_shapes)) or "-"
            counts = (f"{n:,}" if n else "-" for n in (layer.parameters, layer.flops))
            rows.append(("  " * layer.depth + title, shapes, *counts))  # type: ignore[arg-type]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip()
            for a, b, c, d in rows
        ]
        rule = "-" * (sum(widths) + 6)
        frozen = self.parameters - self.trainable
        return "\n".join(
            [
                lines[0],
                rule,
                *lines[1:],
                rule,
                f"input {', '.join(map(str, self.input_shapes))}",
                f"parameters {self.parameters:,}" + (f", {frozen:,} frozen" if frozen else ""),
                f"FLOPs of one forward {self.flops:,}",
                f"memory: weights {_size(self.bytes)}, activations {_size(self.activation_bytes)}",
            ]
        )

    def __repr__(self) -> str:
        return str(self)


def _size(count: int) -> str:
    """Bytes in the unit that suits them."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}" if unit != "B" else f"{count} B"


class _LayerObserver(Observer):
    """Gives every operator's work to the module whose forward is running."""

    def __init__(self, layers: dict[int, Layer]):
        self.layers = layers
        self.running: list[Layer] = []

    def computed(self, op: Op, inputs: Sequence[Value], result: Value) -> None:
        if not self.running:
            return
        layer = self.running[-1]
        out = result if isinstance(result, Tensor) else result[0]  # type: ignore[index]
        count = FLOPS.get(type(op))
        if count is not None:
            layer.flops += count(out.shape, *(x.shape for x in inputs if isinstance(x, Tensor)))
        layer.activation_bytes += _new_bytes(op, inputs, result)

    def before(self, module: Module, args: object) -> None:
        self.running.append(self.layers[id(module)])

    def after(self, module: Module, args: object, output: object) -> None:
        layer = self.running.pop()
        layer.output_shapes = [x.shape for x in _tensors(output)]


def _new_bytes(op: Op, inputs: Sequence[Value], result: Value) -> int:
    """Memory of a result, or of the elements of a tuple, that is not an input's memory."""
    if isinstance(op, TupleGetItem):
        return 0
    taken = {id(getattr(x.cached_data, "_handle", None)) for x in inputs}
    made = result.cached_data if isinstance(result, TensorTuple) else (result.cached_data,)
    return sum(_bytes(a) for a in made if id(getattr(a, "_handle", a)) not in taken)


def _bytes(x: Tensor) -> int:
    return int(math.prod(x.shape)) * dtype_of(x.dtype).itemsize


def _tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, (tuple, list)):
        for item in output:
            yield from _tensors(item)


def summary(
    model: Module,
    input_shape: Sequence[int] | Sequence[Sequence[int] | Tensor],
    *,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
) -> Summary:
    """Run a model once on zeros (in eval mode, without gradients) and list what it is made of.

    input_shape is one shape with the batch in front, or a list of shapes or tensors, one for each
    argument of forward. `dtype` is that of the inputs: "int64" for a model of ids.

    >>> model = ndl.nn.Sequential(ndl.nn.Linear(4, 8), ndl.nn.ReLU(), ndl.nn.Linear(8, 2))
    >>> print(ndl.summary(model, (16, 4)))
    layer        output   parameters  FLOPs
    ---------------------------------------
    Sequential   (16, 2)           -      -
      0: Linear  (16, 8)          40  1,024
      1: ReLU    (16, 8)           -      -
      2: Linear  (16, 2)          18    512
    ---------------------------------------
    input (16, 4)
    parameters 58
    FLOPs of one forward 1,536
    memory: weights 232 B, activations 1.79 kB
    """
    given = input_shape if isinstance(input_shape, list) else [input_shape]
    inputs = [
        x if isinstance(x, Tensor) else init.zeros(*x, dtype=dtype, device=device) for x in given
    ]
    named = list(model.named_modules())
    layers: dict[int, Layer] = {}
    by_name: dict[str, Layer] = {}
    for name, module in named:
        layers[id(module)] = by_name[name] = _layer(name, module, by_name)
    _count_parameters(named, layers)
    recorder = _LayerObserver(layers)
    modes = [(module, module.training) for _, module in named]
    removers = [m.register_forward_pre_hook(recorder.before) for _, m in named]
    removers += [m.register_forward_hook(recorder.after) for _, m in named]
    observers.append(recorder)
    try:
        model.eval()
        with no_grad():
            model(*inputs)
    finally:
        observers.remove(recorder)
        for remove in removers:
            remove()
        for module, training in modes:
            module.training = training
    return Summary(list(layers.values()), [x.shape for x in inputs])


def _layer(name: str, module: Module, before: dict[str, Layer]) -> Layer:
    """Under the module that holds it: the longest path that its own path begins with."""
    kind = type(module).__name__
    if not name:
        return Layer(name, kind, "", 0)
    parent = name
    while parent:
        parent = parent.rpartition(".")[0]
        if parent in before:
            break
    return Layer(name, kind, name[len(parent) :].lstrip("."), before[parent].depth + 1)


def _count_parameters(named: Sequence[tuple[str, Module]], layers: dict[int, Layer]) -> None:
    """Each tensor once, with the first module that has it."""
    seen: set[int] = set()
    for _, module in named:
        layer = layers[id(module)]
        for _, value in module._named_items():
            if not isinstance(value, Tensor) or id(value) in seen:
                continue
            seen.add(id(value))
            layer.bytes += _bytes(value)
            if isinstance(value, Parameter):
                layer.parameters += value.size
                layer.frozen += 0 if value.requires_grad else value.size
