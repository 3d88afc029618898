"""`torch.utils`"""

from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import checkpoint as checkpoint, data as data, tensorboard as tensorboard
else:
    __getattr__, __dir__ = _names_of(__name__)
