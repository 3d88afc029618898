"""Layers that find the size of their parameters in the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..parameter import is_lazy

if TYPE_CHECKING:
    from .module import Module

    Base = Module
else:
    Base = object


class LazyModuleMixin(Base):
    """Parameters without shapes until the first call, which calls `initialize_parameters`."""

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__["_first_call"] = self.register_forward_pre_hook(
            _before_first_call, with_kwargs=True
        )

    def has_uninitialized_params(self) -> bool:
        """Does one of the own tensors still lack a shape?"""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, given the first call's arguments."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )


def _before_first_call(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module.__dict__.pop("_first_call").remove()
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
