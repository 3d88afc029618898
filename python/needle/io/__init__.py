"""Files: tensors and training states on disk.

Stands on: autograd.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of

if TYPE_CHECKING:
    from .checkpoint import *
    from .saving import *
else:
    __getattr__, __dir__ = _names_of(__name__)
