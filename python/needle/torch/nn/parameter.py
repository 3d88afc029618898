"""Parameters: tensors that modules register and optimizers train."""

from __future__ import annotations

from typing import Any

from ... import torch
from ..core.tensor import Parameter as Parameter, Tensor

__all__ = [
    "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer",
    "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is set as an attribute."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = torch.empty(0) if data is None else data
        found: Buffer = cls.make_const(data.realize_cached_data(), data.requires_grad)
        found.persistent = persistent
        return found

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        pass  # as it was made


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: `materialize` gives it one."""

    cls_to_become: type = Tensor
    wanted: dict[str, Any]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of this shape, without initial values."""
        options = {
            "device": device or self.wanted["device"],
            "dtype": dtype or self.wanted["dtype"],
        }
        fresh = torch.empty(tuple(shape), **options)
        self.cached_data = fresh.realize_cached_data()
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> Any:  # type: ignore[override, unused-ignore]
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized module. Call `forward` to initialize the parameters before accessing "
            "their attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[override, misc]
    """A parameter whose shape the first input gives."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = torch.empty(0, device=device, dtype=dtype)
        found: UninitializedParameter = cls.make_const(data.realize_cached_data(), requires_grad)
        found.wanted = {"device": device, "dtype": dtype}
        return found

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        pass  # as it was made


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[override, misc]
    """A buffer whose shape the first input gives."""

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None
    ) -> UninitializedBuffer:
        data = torch.empty(0, device=device, dtype=dtype)
        found: UninitializedBuffer = cls.make_const(data.realize_cached_data(), requires_grad)
        found.wanted = {"device": device, "dtype": dtype}
        return found

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None):
        pass  # as it was made


def is_lazy(tensor: object) -> bool:
    """Is its shape not known yet?"""
    return isinstance(tensor, UninitializedTensorMixin)
