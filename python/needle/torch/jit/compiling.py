"""`torch.compile`, `torch.jit.script` and `torch.jit.trace`: the function itself.

What a program computes does not depend on them. Results are those of eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: Any = "inductor", mode: str | None = None,
    options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """The function or module, which runs eagerly; `needle.jit` compiles functions."""
    if model is None:
        return lambda function: function
    return model


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function or module itself."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, once it has run on the example."""
    if example_inputs is not None:
        given = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
        func(*given)
    return func


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
