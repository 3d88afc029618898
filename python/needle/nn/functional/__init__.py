"""Functions of networks under PyTorch's names, argument orders and defaults.

Deprecated arguments (`size_average`, `reduce`, `inplace`) are left out; what follows them in
PyTorch's order is given by name.
"""

from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of
from .linear import linear as linear  # the file's name must not hide it

if TYPE_CHECKING:
    from .activation import *
    from .attention import *
    from .conv import *
    from .linear import *
    from .loss import *
    from .norm import *
else:
    __getattr__, __dir__ = _names_of(__name__)
