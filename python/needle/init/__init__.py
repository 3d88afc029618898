"""New tensors: creation functions and starting values of weights.

Stands on: ops.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from .basic import *
    from .basic import constant as constant
    from .initializers import *
    from .sampling import *
else:
    __getattr__, __dir__ = _names_of(__name__)
