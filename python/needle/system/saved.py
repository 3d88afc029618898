"""Saved states: what `load_state_dict` and `set_state` take is checked before anything changes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Kind = Callable[[Any], Any]  # the entry as it is used, or TypeError or ValueError


def entries(
    owner: str, state: object, kinds: Mapping[str, Kind], op: str = "load_state_dict"
) -> list[Any]:
    """The entries of a state by these names, each made by its kind. A kind's docstring says what
    it takes. Raises if the state is somebody else's; `owner` and `op` are for errors."""
    if not isinstance(state, Mapping):
        raise TypeError(f"[{op}] {owner} expected a dict of its state, got {type(state).__name__}.")
    if not state.keys() >= kinds.keys():
        raise ValueError(
            f"[{op}] {owner} expected a state with {', '.join(kinds)}, got "
            f"{', '.join(map(str, state))[:200] or 'an empty one'}; is it another object's?"
        )
    return [_as_kind(op, owner, name, state[name], kind) for name, kind in kinds.items()]


def _as_kind(op: str, owner: str, name: str, value: object, kind: Kind) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"[{op}] {owner} expected {name!r} to be {kind.__doc__}, got {value!r:.60}."
        ) from None


def whole(value: Any) -> int:
    """a whole number >= 0"""
    if isinstance(value, bool) or (n := operator.index(value)) < 0:
        raise ValueError
    return n


def number(value: Any) -> float:
    """a number"""
    if isinstance(value, str):
        raise ValueError
    return float(value)


def numbers(value: object) -> list[float]:
    """a list of numbers"""
    return [*map(number, items(value))]


def text(value: object) -> str:
    """text"""
    if not isinstance(value, str):
        raise TypeError
    return value


def items(value: object) -> Sequence[Any]:
    """a list"""
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return value


def mapping(value: object) -> Mapping[Any, Any]:
    """a dict"""
    if not isinstance(value, Mapping):
        raise TypeError
    return value
