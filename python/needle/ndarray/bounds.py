"""What is said of an index out of range: at once, or by a compiled program that meets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backend.protocol import Outside
from .random import recording

# From what was said so far and what was found.
Words = Callable[[str, Outside], str]
NOT_WHOLE = 1 - (1 << 63)  # stands for a fraction among ids: it is out of every range


class saying:
    """While it lasts, an index out of range is told in these words.

    Kernels that are only recorded are told of them, for when they run, when the tensors around them
    are gone."""

    __slots__ = ("_recorder", "_start", "_words")

    def __init__(self, words: Words):
        self._words = words

    def __enter__(self) -> None:
        self._recorder = recording.recorder
        self._start = 0 if self._recorder is None else self._recorder.count_calls()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            say(error, self._words)
        elif self._recorder is not None:
            self._recorder.note_words(self._start, self._words)


def say(error: BaseException, *words: Words) -> bool:
    """Tell an error in these words, one after another, if it is an index out of range."""
    outside = getattr(error, "outside", None)
    if outside is None:
        return False
    for each in words:
        error.args = (each(str(error), outside),)
    return True


def wrong_id(outside: Outside) -> str:
    """The id i that became the index i, or i - n if i < 0: ids do not count from the end."""
    value, size = outside.value, outside.size
    if not 0 <= value < (1 << 63) - size:
        value = (value + size + (1 << 63)) % (1 << 64) - (1 << 63)
    return "a number that is not whole" if value == NOT_WHOLE else str(value)
