"""Mathematics: every operator with its gradient, and the table that gives Tensor its methods.

Stands on: autograd.
"""

from typing import TYPE_CHECKING

from ..system.later import names_of as _names_of
from .matmul import matmul as matmul  # its file's name must not hide it
from .tensor_table import install as _install

if TYPE_CHECKING:
    from ..autograd.op import *
    from ..autograd.tensor import (
        Tensor as Tensor,
        TensorOp as TensorOp,
        TensorTuple as TensorTuple,
        TensorTupleOp as TensorTupleOp,
        Value as Value,
    )
    from ..compat.torch_math import *
    from ..compat.torch_names import *
    from .arithmetic import *
    from .compare import *
    from .contraction import *
    from .cumulative import *
    from .elementwise import *
    from .index.along_axis import *
    from .index.indexing import *
    from .index.sorting import *
    from .matmul import *
    from .network.conv import *
    from .network.pool import *
    from .network.resize import *
    from .network.softmax import *
    from .reduce import *
    from .shape.concat import *
    from .shape.movement import *
    from .shape.pad import *
    from .tuples import *
    from .unary import *
else:
    __getattr__, __dir__ = _names_of(__name__)

_install()
