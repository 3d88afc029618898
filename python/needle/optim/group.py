"""ParamGroup: parameters that are updated with the same hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from ..autograd import Tensor
from ..facts import changed, fact

__all__ = ["ParamGroup"]

T = TypeVar("T")

# What a hyperparameter must satisfy, where it has a bound.
_BOUNDS = {
    "lr": ("at least 0", lambda x: x >= 0),
    "weight_decay": ("at least 0", lambda x: x >= 0),
    "momentum": ("at least 0", lambda x: x >= 0),
    "eps": ("at least 0", lambda x: x >= 0),
    "lr_decay": ("at least 0", lambda x: x >= 0),
    "initial_accumulator_value": ("at least 0", lambda x: x >= 0),
    "beta1": ("in [0, 1)", lambda x: 0 <= x < 1),
    "beta2": ("in [0, 1)", lambda x: 0 <= x < 1),
    "alpha": ("in [0, 1)", lambda x: 0 <= x < 1),
    "rho": ("in [0, 1]", lambda x: 0 <= x <= 1),
}


def _checked(name: str, value: T) -> T:
    """The value, if it is within its bound; each of a pair (Adafactor's eps, which may be None)."""
    bound, holds = _BOUNDS.get(name, ("", lambda x: True))
    for each in value if isinstance(value, (tuple, list)) else (value,):
        if name in _BOUNDS and each is not None and not holds(_number(name, each)):
            raise ValueError(f"[optim] {name} must be {bound}, got {value}.")
    return value


def _number(name: str, value: object) -> float:
    """The value, unless it is text or no number at all."""
    try:
        return float("no" if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"[optim] {name} must be a number, got {value!r:.60}.") from None


def pair_of_betas(value: object) -> Sequence[Any]:
    """betas, if they are two."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"[optim] betas must be a pair of numbers, got {value!r:.60}.")
    return value


class ParamGroup(MutableMapping[str, Any]):
    """A mapping of "params" and hyperparameters; those named in `variable` live in 0-d tensors.

    They read and write as numbers: `group["lr"] *= 0.5` writes into the tensor that a step, eager
    or compiled, reads through `group.tensor("lr")`. "betas" stands for the pair (beta1, beta2).
    """

    def __init__(
        self, params: Iterable[Tensor], variable: Iterable[str], options: dict[str, object]
    ):
        self.params = list(params)
        self._variable = frozenset(variable)
        self._tensors: dict[str, Tensor] = {}
        self._plain: dict[str, Any] = {}
        self._used: set[str] = set()
        self._form: tuple[object, ...] | None = None  # computed when it is asked for
        self.update(options)

    def tensor(self, name: str) -> Tensor:
        """The float64 0-d tensor of a hyperparameter."""
        return self._tensors[name]

    @property
    def form(self) -> tuple[object, ...]:
        """What the formula of an update depends on: the plain options, and which numbers count."""
        return fact(self, "form", self._current_form)

    def _current_form(self) -> tuple[object, ...]:
        if self._form is None:
            self._form = frozenset(self._used), *self._plain.items()
        return self._form

    def uses(self, name: str) -> bool:
        """Was the hyperparameter ever other than 0? If not, its term is left out of the update.

        Known without reading the tensor, so that a compiled step can ask."""
        return fact(self, name, lambda: name in self._used)

    def with_options(self, options: Mapping[str, object]) -> ParamGroup:
        """Such a group with other options; this one stays."""
        own = {name: value for name, value in self.items() if name != "params"}
        other = ParamGroup(self.params, self._variable, {**own, **options})
        other._used |= self._used
        other._form = None
        return other

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.params
        if name == "betas":
            return self["beta1"], self["beta2"]
        if name in self._tensors:
            return float(self._tensors[name])
        return fact(self, name, lambda: self._plain[name])

    def __setitem__(self, name: str, value: object) -> None:
        if name == "params":
            raise KeyError("[optim] the parameters of a group are fixed; use add_param_group.")
        if name == "betas":
            self["beta1"], self["beta2"] = pair_of_betas(value)
        elif name in self._variable:
            self._set_number(name, _checked(name, _number(name, value)))
        else:
            self._plain[name] = _checked(name, value)
            self._form = None
            changed()

    def _set_number(self, name: str, value: float) -> None:
        if value != 0 and name not in self._used:
            self._used.add(name)
            self._form = None
            changed()
        device = self.params[0].device if self.params else None
        number = Tensor(value, dtype="float64", device=device, requires_grad=False)
        if name in self._tensors:
            self._tensors[name].data = number
        else:
            self._tensors[name] = number

    def __delitem__(self, name: str) -> None:
        del self._plain[name]
        self._form = None

    def __iter__(self) -> Iterator[str]:
        yield "params"
        yield from self._tensors
        yield from self._plain

    def __len__(self) -> int:
        return 1 + len(self._tensors) + len(self._plain)

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v}" for k, v in self.items() if k != "params")
        return f"ParamGroup({len(self.params)} parameters, {options})"
