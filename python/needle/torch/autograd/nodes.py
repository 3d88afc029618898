"""`x.grad_fn`: the graph under PyTorch's names."""

from __future__ import annotations

from typing import Any

NAMES = {
    "EWiseAdd": "Add", "AddScalar": "Add", "EWiseMul": "Mul", "MulScalar": "Mul", "EWiseDiv": "Div",
    "DivScalar": "Div", "ScalarDiv": "Div", "Negate": "Neg", "Summation": "Sum", "Reshape": "View",
    "EWisePow": "Pow", "PowerScalar": "Pow", "ScalarPower": "Pow", "Cast": "ToCopy",
    "BroadcastTo": "Expand", "Concatenate": "Cat", "GetItem": "Slice", "Matmul": "Mm",
    "MatMul": "Mm", "Written": "CopySlices", "EWiseSub": "Sub", "Where": "Where", "Max": "Max",
    "LogSoftmax": "LogSoftmax", "Softmax": "Softmax",
}  # fmt: skip


class Node:
    """The operator that computed a value."""

    def __init__(self, value: Any):
        self._op, self._value = value.op, value

    def name(self) -> Any:
        """PyTorch's name of it."""
        own = type(self._op).__name__
        if own == "Replaced":
            return node_of(self._value.inputs[1]).name()
        return getattr(self._op, "backward_name", None) or f"{NAMES.get(own, own)}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[object, int], ...]:
        """Those of its inputs."""
        return tuple((node_of(x), 0) for x in self._value.inputs)

    @property
    def metadata(self) -> dict[str, object]:
        """What a user keeps with it."""
        return vars(self).setdefault("_metadata", {})  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self._op):#x}>"


class AccumulateGrad:
    """Where the gradient of a leaf goes."""

    def __init__(self, variable: Any):
        self.variable = variable

    def name(self) -> str:
        """PyTorch's name of it."""
        return "torch::autograd::AccumulateGrad"

    next_functions = ()


def node_of(x: Any) -> Any:
    """The node of a value; None if it needs no gradient."""
    if not x.requires_grad:
        return None
    return AccumulateGrad(x) if x.op is None else Node(x)
