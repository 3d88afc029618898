"""Functions of functions: derivatives, recomputation; clipping of gradients.

Stands on: ops, tree.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from .functions import *
else:
    __getattr__, __dir__ = _names_of(__name__)
