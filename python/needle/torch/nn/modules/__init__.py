"""The layers, and the paths that PyTorch has them under."""

import sys as _sys
from typing import TYPE_CHECKING

from ....system.later import names_of as _names_of
from ..base.paths import register as _register

if TYPE_CHECKING:
    from ..base.module import Module as Module
    from .activation import *
    from .batchnorm import *
    from .container import *
    from .conv import *
    from .dropout import *
    from .linear import *
    from .loss import *
    from .normalization import *
    from .padding import *
    from .pooling import *
    from .rnn import *
    from .shapes import *
    from .sparse import *
    from .transformer import *
else:
    __getattr__, __dir__ = _names_of(__name__)

_register(_sys.modules, __name__)
