"""Networks: modules, and the layers made of them.

Stands on: init, transforms.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import functional as functional, init as init, utils as utils
    from .activation import *
    from .container import *
    from .conv import *
    from .dropout import *
    from .embedding import *
    from .linear import *
    from .loss import *
    from .module import *
    from .norm import *
    from .pool import *
    from .quantized import *
    from .sequence.attention import *
    from .sequence.recurrent import *
    from .sequence.transformer import *
    from .state import *
    from .summary import *
else:
    __getattr__, __dir__ = _names_of(__name__)
