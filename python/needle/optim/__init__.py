"""Optimizers, gradient clipping, learning-rate schedules and averaged weights.

Stands on: init, transforms.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from ..transforms.clipping import *
    from . import lr_scheduler as lr_scheduler, schedule as schedule
    from .adadelta import *
    from .adafactor import *
    from .adagrad import *
    from .adam import *
    from .ema import *
    from .group import *
    from .lion import *
    from .muon import *
    from .optimizer import *
    from .rmsprop import *
    from .schedule import *
    from .sgd import *
else:
    __getattr__, __dir__ = _names_of(__name__)
