"""Functions of networks with PyTorch's names, arguments and meaning."""

from typing import TYPE_CHECKING

from ....system.later import names_of as _names_of
from .linear import linear as linear  # the file's name must not hide it

if TYPE_CHECKING:
    from .activation import *
    from .attention import *
    from .conv import *
    from .dropping import *
    from .grid import *
    from .linear import *
    from .loss import *
    from .loss_margin import *
    from .norm import *
    from .pool import *
    from .shape import *
else:
    __getattr__, __dir__ = _names_of(__name__)
