"""`torch.compile`, `torch.jit.script` and `torch.jit.trace`: functions and modules compiled by
`needle.jit`, or as they are where that cannot be.

What a program computes does not depend on them. Results are those of eager mode, up to rounding.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from ... import torch
from ...autograd.graph import observers
from ...compiler.errors import TraceError
from ...compiler.function import ENABLED, Call, jit
from ...tracing import active
from ..nn import Module

BACKENDS = ("inductor", "cudagraphs", "aot_eager", "eager")
EAGER = ("aot_eager", "eager")  # backends that compile nothing
MODES = (
    None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs",
)  # fmt: skip


class Fallback:
    """A function that is compiled for each kind of arguments until that fails: then it runs
    eagerly, after one warning. With `whole`, the failure is an error."""

    def __init__(self, function: Callable[..., Any], whole: bool = False):
        self._eager, self._whole = function, whole
        self._compiled: Any = jit(function)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled
        if compiled is None or active() is not None or observers or not ENABLED:
            return self._eager(*args, **kwargs)
        try:
            call = Call(args, kwargs)
            program = compiled._find(call)
            if program.binding.recorded and not program.has_gradient:
                raise TraceError("[jit] the function changes what its gradient depends on.")
        except TraceError as error:
            if self._whole:
                raise
            self._compiled = None
            name = getattr(self._eager, "__qualname__", type(self._eager).__name__)
            warnings.warn(
                f"[torch.compile] {name} runs eagerly, since it cannot be compiled: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return self._eager(*args, **kwargs)
        return compiled._run(program, call)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class OptimizedModule(Module):
    """A module whose calls are compiled; `_orig_mod` is the module, which it acts as."""

    _orig_mod: Module

    def __init__(self, model: Module, whole: bool) -> None:
        super().__init__()
        self._orig_mod = model
        self.training = model.training
        self.__dict__["_calls"] = Fallback(model.__call__, whole)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self._calls(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_calls"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__["_calls"] = Fallback(self._orig_mod.__call__)


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: Any = "inductor", mode: str | None = None,
    options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """The function or module, whose calls `needle.jit` compiles; eager where a trace fails, which
    is an error with `fullgraph`. How it is compiled, PyTorch's options do not say."""
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, backend=backend, mode=mode, disable=disable
        )
    if mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {MODES[1:]}")
    if not callable(backend) and backend not in BACKENDS:
        raise ValueError(f"[torch.compile] expected a backend of {BACKENDS}, got {backend!r}.")
    if disable or backend in EAGER:
        return model
    if callable(backend):
        raise NotImplementedError(
            "[torch.compile] a backend of one's own is missing: there are no graphs of torch.fx."
        )
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph)
    return Fallback(model, fullgraph)


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, compiled as by `compile`; a module or class as it is."""
    return obj if isinstance(obj, (Module, type)) else Fallback(obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """`script`, once it has run on the example."""
    if example_inputs is not None:
        given = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
        with torch.no_grad():
            func(*given)
    return script(func)


def _same(obj: Any = None, *args: Any, **options: Any) -> Any:
    """The function itself."""
    return obj if callable(obj) else _same


ignore = unused = export = script_if_tracing = interface = _same
freeze = optimize_for_inference = _same


def is_scripting() -> bool:
    """Is this code being translated? No."""
    return False


is_tracing = is_scripting


def fork(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result, computed now."""
    return func(*args, **options)


def wait(future: Any) -> Any:
    """The result of `fork`."""
    return future


def save(*args: object, **options: object) -> NoReturn:
    """Not here: programs have no format of their own."""
    raise NotImplementedError("torch.jit.save: save model.state_dict() with torch.save instead.")


def load(*args: object, **options: object) -> NoReturn:
    """Not here: programs of TorchScript are not read."""
    raise NotImplementedError("torch.jit.load: TorchScript programs are not read; build the model "
                              "and load its state_dict.")  # fmt: skip
