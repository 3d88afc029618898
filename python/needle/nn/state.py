"""The state of a model: its tensors by name, and comparing them with a state to be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import init
from ..autograd import Tensor, replace_data
from ..dtype import dtype_of
from ..ndarray import functions as F

if TYPE_CHECKING:
    from ..ndarray.array import NDArray
    from ..types import DTypeLike, Shape

__all__ = ["LoadReport"]

REAL = ("float", "int", "bool")  # one is in the name of every dtype of real numbers
Move = Callable[[Tensor], Tensor]


def unchanged(x: Tensor) -> Tensor:
    """x"""
    return x


class StateEntry(NamedTuple):
    """A tensor of a model: its name in a state, and how its elements move there and back."""

    name: str
    tensor: Tensor
    there: Move = unchanged
    back: Move = unchanged
    optional: bool = False  # a state may do without it


@dataclass
class LoadReport:
    """What load_state_dict found: names, and (name, expected, given) of shapes or of dtypes.

    As in PyTorch, it can be taken apart: `missing, unexpected = model.load_state_dict(...)`."""

    missing: list[str]
    unexpected: list[str]
    mismatched: list[tuple[str, Any, Any]]

    def __iter__(self) -> Iterator[list[str]]:
        return iter((self.missing, self.unexpected))

    def __bool__(self) -> bool:
        """Did anything not match?"""
        return bool(self.missing or self.unexpected or self.mismatched)

    @property
    def missing_keys(self) -> list[str]:
        """`missing`, as PyTorch calls it."""
        return self.missing

    @property
    def unexpected_keys(self) -> list[str]:
        """`unexpected`, as PyTorch calls it."""
        return self.unexpected

    def __str__(self) -> str:
        lines = [f"missing: {name}" for name in self.missing]
        lines += [f"unexpected: {name}" for name in self.unexpected]
        for name, want, got in self.mismatched:
            what = "shape" if isinstance(want, tuple) else "dtype"
            lines.append(f"{what} of {name}: expected {want}, got {got}")
        return "\n".join(lines) or "every tensor matched"


# Comparing ---------------------------------------------------------------------------------------


def check_numbers(own: dict[str, StateEntry], state: Mapping[str, object]) -> None:
    """Raise if an entry is not an array of real numbers, before any tensor is changed."""
    for name in own:
        if name not in state:
            continue
        kind = str(getattr(state[name], "dtype", ""))
        if not hasattr(state[name], "shape") or not any(k in kind for k in REAL):
            raise TypeError(
                f"[load_state_dict] {name}: expected a tensor or array of real numbers, got "
                f"{kind or type(state[name]).__name__}."
            )


def compare(own: dict[str, StateEntry], state: Mapping[str, object]) -> LoadReport:
    """What a state lacks, what the model does not have, and what has another shape, or floats
    where the model has integers: rounding floats does not give quantized weights."""
    given = {id(entry.tensor) for name, entry in own.items() if name in state}
    shapes = {name: entry.there(entry.tensor.detach()).shape for name, entry in own.items()}
    return LoadReport(
        missing=[
            name
            for name, entry in own.items()
            if id(entry.tensor) not in given and not entry.optional
        ],
        unexpected=[name for name in state if name not in own],
        mismatched=[
            (name, *difference)
            for name, shape in shapes.items()
            if name in state
            if (difference := _difference(shape, own[name].tensor.dtype, state[name])) is not None
        ],
    )


def _difference(shape: Shape, dtype: object, given: Any) -> tuple[object, object] | None:
    """Expected and given shapes, or dtypes, if the given tensor cannot take the place."""
    if tuple(given.shape) != shape:
        return shape, tuple(given.shape)
    is_float = "float" in str(given.dtype)
    return (dtype, given.dtype) if is_float and dtype_of(dtype).is_integer else None


# Loading -----------------------------------------------------------------------------------------


def is_torch(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def as_tensor(value: Any, dtype: DTypeLike) -> Tensor:
    """An array, or a tensor of either library."""
    if isinstance(value, Tensor):
        return value.detach()
    if is_torch(value):
        return init.from_dlpack(value.detach().cpu().contiguous())
    return Tensor(value, dtype=dtype, requires_grad=False)


def copied_like(data: NDArray, former: NDArray) -> NDArray:
    """A copy of data in the memory order of the former data."""
    copy = F.full_like(former, 0, shape=data.shape)
    F.assign(copy, data)
    return copy


def give_data(tensor: Tensor, data: NDArray) -> None:
    """Replace a tensor's data by data of any dtype and device. Gradients of what was computed from
    the former data are refused."""
    if data is not tensor.cached_data:
        replace_data((tensor,), (data,))
