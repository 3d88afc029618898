"""`torch.nn.utils`"""

from typing import TYPE_CHECKING

from ....system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import (
        clip_grad as clip_grad,
        parametrizations as parametrizations,
        parametrize as parametrize,
        rnn as rnn,
        stateless as stateless,
    )
    from .clip_grad import *
    from .former import *
    from .fusion import *
    from .stateless import skip_init as skip_init
    from .vectors import *
else:
    __getattr__, __dir__ = _names_of(__name__)
