"""`torch.nn`: layers with PyTorch's attributes, layouts, initial values and names."""

from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import (
        attention as attention,
        functional as functional,
        init as init,
        modules as modules,
        parallel as parallel,
        parameter as parameter,
        utils as utils,
    )
    from .base.module import Module as Module
    from .modules import *
    from .parallel import DataParallel as DataParallel
    from .parameter import (
        Buffer as Buffer,
        Parameter as Parameter,
        UninitializedBuffer as UninitializedBuffer,
        UninitializedParameter as UninitializedParameter,
    )
else:
    __getattr__, __dir__ = _names_of(__name__)
