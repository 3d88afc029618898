"""Data: datasets, the loader that makes batches of them, and transforms.

Stands on: init.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from . import transforms as transforms
    from .bundled import *
    from .cifar10 import *
    from .dataset import *
    from .distributed import *
    from .loader import *
    from .mnist import *
    from .sampler import *
    from .text import *
    from .transforms import *
else:
    __getattr__, __dir__ = _names_of(__name__)
