"""The graph: `Value`, `Tensor`, `Op`, and reverse mode. No operator is known here.

Stands on: ndarray.
"""

from .. import _native
from ..absent import no_attribute
from .backward import (
    clear_gradients as clear_gradients,
    compute_gradient_of_variables as compute_gradient_of_variables,
    grad as grad,
    in_own_memory as in_own_memory,
)
from .grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .graph import (
    HookHandle as HookHandle,
    Observer as Observer,
    find_topo_sort as find_topo_sort,
    observers as observers,
)
from .op import Op as Op
from .tensor import (
    Tensor as Tensor,
    TensorOp as TensorOp,
    TensorTuple as TensorTuple,
    TensorTupleOp as TensorTupleOp,
    Value as Value,
    after_write as after_write,
    assign_data as assign_data,
    before_write as before_write,
    next_stamp as next_stamp,
)

LAZY_MODE = False  # True: values compute when their data is asked for


def __getattr__(name: str) -> int:
    if name == "TENSOR_COUNTER":  # live values; the course's memory checks read it
        return _native.count_nodes()
    raise no_attribute(__name__, name)
