"""The message of the error for an index out of range.

A kernel raises it in terms of its operands. The functions that called the kernel, from the inside
out, rewrite the message in their own terms (`rewrite_index_error`). A compiled program does the
same later, when its kernels run, so the recorder keeps the functions that rewrite. A check of other
elements (`checked_by`) is an index out of range too, to which they give an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import tracing
from ...backend.protocol import Outside
from ...dtype import bool_
from ..array import NDArray, empty, full, make_view

# The new message or error, from the message so far and what was found.
Words = Callable[[str, Outside], str | ValueError]
NOT_WHOLE = 1 - (1 << 63)  # stands for a fraction among ids: it is out of every range
FAR = 1 << 60  # further than any axis is long


class rewrite_index_error:
    """Within this context, an index out of range is reported in these words: at once, or when a
    kernel that is only recorded here runs later."""

    __slots__ = ("_start", "_tracer", "_words")

    def __init__(self, words: Words):
        self._words = words

    def __enter__(self) -> None:
        self._tracer = tracing.active()
        self._start = 0 if self._tracer is None else self._tracer.count_calls()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            said = say(error, self._words)
            if said is not error:
                raise said from None
        elif self._tracer is not None:
            self._tracer.note_words(self._start, self._words)


def say(error: BaseException, *words: Words) -> BaseException:
    """An error in these words, one after another, if it is an index out of range."""
    outside: Any = getattr(error, "outside", None)
    for each in words if outside is not None else ():
        made = each(str(error), outside)
        if isinstance(made, ValueError):
            vars(made)["outside"] = outside
            error = made
        else:
            error.args = (made,)
    return error


def checked_by(index: NDArray, a: NDArray, words: Words) -> NDArray:
    """a, if a 0-d index is 0, else the error that the words give, when the traced program runs. The
    result depends on the check, so that the program makes it."""
    device = a.device
    holds = empty((), bool_, device)
    with rewrite_index_error(words):
        device.mod.gather(holds, full((1,), True, bool_, device), (index,))
    everywhere = make_view(a.shape, (0,) * a.ndim, 0, bool_, device, holds._handle)
    out = empty(a.shape, a.dtype, device)
    device.mod.where(out, everywhere, a, a)
    return out


def wrong_id(outside: Outside) -> str:
    """The id that was out of range. Ids do not count from the end, so that a negative id i became
    the index i - FAR (`from_zero` in ops/index/indexing.py); this undoes it."""
    value = outside.value
    if not -FAR <= value < (1 << 63) - FAR:
        value = (value + FAR + (1 << 63)) % (1 << 64) - (1 << 63)
    return "a number that is not whole" if value == NOT_WHOLE else str(value)
