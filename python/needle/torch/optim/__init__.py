"""`torch.optim`"""

import sys as _sys
from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of
from ..nn.base.paths import register as _register

if TYPE_CHECKING:
    from . import lr_scheduler as lr_scheduler, swa_utils as swa_utils
    from .adam import *
    from .averages import *
    from .factored import *
    from .lbfgs import *
    from .optimizer import *
    from .sgd import *
else:
    __getattr__, __dir__ = _names_of(__name__)

_register(_sys.modules, __name__)
