"""Random generators that are not needle's: a program does not draw from them again.

A function that draws from NumPy's global generator, from Python's, from one that it gets hold of,
or from a new one without a seed would use the numbers of its trace in every call. It is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import dumps  # to compare states
from typing import Any

import numpy as np

from ... import tracing
from ..errors import TraceError, at_user_line

REFUSED = (
    "while it is traced, and would use the same numbers in every call; draw with ndl.rand and its "
    "like, or draw outside and pass the numbers as an argument."
)
NUMPYS: Any = getattr(np.random.get_state, "__self__", None)
PYTHONS: Any = getattr(random.getstate, "__self__", None)


class Generators:
    """The generators that a function may draw from, and their states when it got hold of them."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[Any, Any]] = {}
        self.meet(NUMPYS)
        self.meet(PYTHONS)

    def meet(self, value: object) -> None:
        """An object that the function can reach: is it a generator?"""
        kinds = (np.random.Generator, np.random.RandomState, random.Random)
        is_one = isinstance(value, kinds) and not isinstance(value, random.SystemRandom)
        if is_one and id(value) not in self._met:
            self._met[id(value)] = value, _state(value)

    def states(self) -> list[tuple[object, object]]:
        """Where each of them is now."""
        return [(generator, _state(generator)) for generator, _ in self._met.values()]

    def rewind(self) -> object:
        """Set all to where they were; gives one that has been drawn from, or None."""
        drawn = [pair for pair in self._met.values() if dumps(_state(pair[0])) != dumps(pair[1])]
        rewind(drawn)
        return drawn[0][0] if drawn else None

    def check(self) -> None:
        """Raise if the function has drawn from one of them, which is then where it was."""
        if (drawn := self.rewind()) is not None:
            package = "random" if isinstance(drawn, random.Random) else "np.random"
            name = f"a {package}.{type(drawn).__name__} from outside"
            name = "NumPy's global generator (np.random)" if drawn is NUMPYS else name
            name = "Python's global generator (random)" if drawn is PYTHONS else name
            raise TraceError(f"[jit] the function draws from {name} {REFUSED}")


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return (getattr(generator, "get_state", None) or generator.getstate)()


def rewind(states: Sequence[tuple[Any, Any]]) -> None:
    """Set generators to where they were."""
    for generator, state in states:
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            (getattr(generator, "set_state", None) or generator.setstate)(state)


@contextmanager
def no_entropy() -> Iterator[None]:
    """Within this context a traced function may not ask the system for random bits: NumPy's
    generators that are made without a seed do so, those of Python, and `secrets`."""
    kept = vars(random)["_urandom"], random.Random.seed

    def urandom(size: int) -> object:
        _check_entropy()
        return kept[0](size)

    def seed(generator: random.Random, a: Any = None, *args: int, **kwargs: int) -> None:
        if a is None:
            _check_entropy()
        kept[1](generator, a, *args, **kwargs)

    _put(urandom, seed)
    try:
        yield
    finally:
        _put(*kept)


def _check_entropy() -> None:
    if tracing.is_tracing():
        raise at_user_line(f"[jit] the function uses a random generator without a seed {REFUSED}")


def _put(urandom: Callable[..., object], seed: Callable[..., None]) -> None:
    vars(random)["_urandom"] = urandom
    setattr(random.Random, "seed", seed)  # noqa: B010
