"""The graph: `Value`, `Tensor`, `Op`, and reverse mode. No operator is known here.

Stands on: ndarray.
"""

from .. import _native
from ..system.later import no_attribute as _no_attribute
from .backward import *
from .grad_mode import *
from .graph import *
from .op import *
from .tensor import *
from .writing import *

LAZY_MODE = False  # True: values compute when their data is asked for


def __getattr__(name: str) -> int:
    if name == "TENSOR_COUNTER":  # live values; the course's memory checks read it
        return _native.count_nodes()
    raise _no_attribute(__name__, name)
