"""What rewritten functions see under the name `ndl__`."""

from __future__ import annotations

import sys

from .effects import assert_ as assert_, print_, raises as raises
from .functions import call_of, convert
from .loops import TensorRange, for_ as for_, while_ as while_
from .operators import (
    and_ as and_,
    choose as choose,
    compare as compare,
    if_ as if_,
    is_traced,
    not_ as not_,
    or_ as or_,
    own as own,
)
from .values import Value, returned as returned


def with_control_flow(function: Value) -> Value:
    """The function with the control flow of its source in the graph; itself if it has none."""
    return convert(function, sys.modules[__name__])


def prints(function: Value) -> bool:
    """Does a function call print? Then it is traced from its source at once: a trace as it is would
    have printed a part of the line before it fails."""
    code = getattr(function, "__code__", None)
    return code is not None and "print" in code.co_names


def call(f: Value) -> Value:
    """What to call in the place of f."""
    if f is range:
        return _range
    return print_ if f is print else call_of(f, sys.modules[__name__])


def _range(*numbers: Value) -> Value:
    return TensorRange(*numbers) if any(map(is_traced, numbers)) else range(*numbers)
