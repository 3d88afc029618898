"""The message of the error for an index out of range.

A kernel raises it in terms of its operands. The functions that called the kernel, from the inside
out, rewrite the message in their own terms (`saying`). A compiled program does the same later, when
its kernels run, so the recorder keeps the functions that rewrite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import tracing
from ...backend.protocol import Outside

Words = Callable[[str, Outside], str]  # the new message, from the one so far and what was found
NOT_WHOLE = 1 - (1 << 63)  # stands for a fraction among ids: it is out of every range
FAR = 1 << 60  # further than any axis is long


class AboutValues:
    """Words about values that are no indices, but were checked as such: a ValueError's."""

    __slots__ = ("_words",)

    def __init__(self, words: Words):
        self._words = words

    def __call__(self, text: str, outside: Outside) -> str:
        return self._words(text, outside)


class saying:
    """Within this context, an index out of range is reported in these words: at once, or when a
    kernel that is only recorded here runs later."""

    __slots__ = ("_start", "_tracer", "_words")

    def __init__(self, words: Words):
        self._words = words

    def __enter__(self) -> None:
        self._tracer = tracing.active()
        self._start = 0 if self._tracer is None else self._tracer.count_calls()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            say(error, self._words)
        elif self._tracer is not None:
            self._tracer.note_words(self._start, self._words)


def say(error: BaseException, *words: Words) -> bool:
    """Rewrite an error in these words, one after another, if it is an index out of range. One that
    is about values is raised anew."""
    outside = getattr(error, "outside", None)
    if outside is None:
        return False
    for each in words:
        error.args = (each(str(error), outside),)
    if any(isinstance(each, AboutValues) for each in words):
        raise ValueError(*error.args) from None
    return True


def wrong_id(outside: Outside) -> str:
    """The id that was out of range. Ids do not count from the end, so that a negative id i became
    the index i - FAR (`from_zero` in ops/index/indexing.py); this undoes it."""
    value = outside.value
    if not -FAR <= value < (1 << 63) - FAR:
        value = (value + FAR + (1 << 63)) % (1 << 64) - (1 << 63)
    return "a number that is not whole" if value == NOT_WHOLE else str(value)
