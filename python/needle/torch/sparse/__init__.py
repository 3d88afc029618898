"""`torch.sparse`: matrices of which only what is not zero is stored."""

from typing import TYPE_CHECKING

from ...system.later import names_of as _names_of

if TYPE_CHECKING:
    from .coo import (
        DoubleTensor as DoubleTensor,
        FloatTensor as FloatTensor,
        addmm as addmm,
        mm as mm,
        softmax as softmax,
        sum as sum,
    )
else:
    __getattr__, __dir__ = _names_of(__name__)
