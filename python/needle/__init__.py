"""Needle: a deep-learning framework that one person can read."""

# isort: skip_file

# First: refuses a Python that the native core does not run on.
from .system import interpreter as _interpreter  # noqa: F401

# The modules.
from . import autograd as autograd
from . import init as init, ops as ops

# Tensors, values and operators: all names of `needle.ops`, which lists them.
from .ops import *  # noqa: F403
from .ops import (  # a star import leaves these to Python
    abs as abs,
    all as all,
    any as any,
    max as max,
    min as min,
    pow as pow,
    round as round,
    sum as sum,
)

# Recording and gradients.
from .autograd import (
    Observer as Observer,
    Op as Op,
    Tensor as Tensor,
    TensorOp as TensorOp,
    TensorTuple as TensorTuple,
    TensorTupleOp as TensorTupleOp,
    Value as Value,
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)

# Functions that differentiate functions, recomputation, and finding faults.
from .transforms import (
    grad as grad,
    hessian as hessian,
    jacobian as jacobian,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from .transforms.checkpoint import checkpoint as checkpoint

# New tensors.
from .init import (
    arange as arange,
    as_tensor as as_tensor,
    asarray as asarray,
    bernoulli as bernoulli,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    full as full,
    full_like as full_like,
    linspace as linspace,
    multinomial as multinomial,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    rand as rand,
    rand_like as rand_like,
    randb as randb,
    randint as randint,
    randn as randn,
    randn_like as randn_like,
    randperm as randperm,
    tensor as tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)

# Random numbers.
from .ndarray.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    manual_seed as manual_seed,
    set_rng_state as set_rng_state,
)

# Element types.
from .dtype import (
    DType as DType,
    bfloat16 as bfloat16,
    bool_ as bool_,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    finfo as finfo,
    iinfo as iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
)

# The native core: memory and threads.
from ._native import (
    __version__ as __version__,
    get_num_threads as get_num_threads,
    memory_stats as memory_stats,
    release_memory as release_memory,
    reset_peak_memory as reset_peak_memory,
    set_num_threads as set_num_threads,
)

from .backend.precision import (
    get_float32_matmul_precision as get_float32_matmul_precision,
    set_float32_matmul_precision as set_float32_matmul_precision,
)

# Devices, and the course's module paths.
from .backend import device_named as device  # noqa: F401 - the name in PyTorch
from .course.backend_selection import *  # noqa: F403
from .course import (
    backend_ndarray as backend_ndarray,
    backend_numpy as backend_numpy,
    backend_selection as backend_selection,
    paths as course_paths,  # noqa: F401
)

# PyTorch's functions that give no tensor, and its other names of element types.
from .ops.torch_names import allclose as allclose, is_tensor as is_tensor, numel as numel
from .absent import no_attribute as _no_attribute
from math import inf as inf, nan as nan, pi as pi
from typing import TYPE_CHECKING
import builtins as _builtins

from .init.typed import TYPED

Size: type = tuple  # of shapes
channels_last, contiguous_format, preserve_format = "channels_last", "contiguous", "preserve"

_TORCH_NAMES = {
    **TYPED,
    # not names of the module: a star import must not hide int
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32,
    "long": int64, "bool": bool_,
}  # fmt: skip

# Loaded when first used, so that importing needle stays quick: modules, and names with the module
# that has them.
_LATER_MODULES = {
    "amp": "compat.amp",
    "data": "data",
    "io": "io",
    "nn": "nn",
    "optim": "optim",
    "testing": "testing",
    "utils": "utils",
    "models": "train.models",
}
_LATER_NAMES = {
    "autocast": "compat.amp",
    "AnomalyError": "autograd.anomaly",
    "detect_anomaly": "autograd.anomaly",
    "CKernel": "ndarray.kernels.c_kernel",
    "Checkpoint": "io",
    "load": "io",
    "save": "io",
    "summary": "nn.summary",
    "TraceError": "compiler",
    "cond": "compiler",
    "export": "compiler.export.files",
    "jit": "compiler",
    "load_exported": "compiler.export.files",
    "scan": "compiler",
    "while_loop": "compiler",
    "Trainer": "train.trainer",
}

if TYPE_CHECKING:
    from .compat import amp as amp
    from . import (
        data as data,
        io as io,
        nn as nn,
        optim as optim,
        testing as testing,
        utils as utils,
    )
    from .train import models as models
    from .compat.amp import autocast as autocast
    from .autograd.anomaly import AnomalyError as AnomalyError, detect_anomaly as detect_anomaly
    from .compiler.export.files import export as export, load_exported as load_exported
    from .compiler import (
        TraceError as TraceError,
        cond as cond,
        jit as jit,
        scan as scan,
        while_loop as while_loop,
    )
    from .io import Checkpoint as Checkpoint, load as load, save as save
    from .ndarray.kernels.c_kernel import CKernel as CKernel
    from .nn.summary import summary as summary
    from .train.trainer import Trainer as Trainer


def __getattr__(name: str) -> object:
    if name in _TORCH_NAMES:
        return _TORCH_NAMES[name]
    if name not in _LATER_MODULES and name not in _LATER_NAMES:
        raise _no_attribute(__name__, name)
    from importlib import import_module

    path = _LATER_MODULES.get(name) or _LATER_NAMES[name]
    module = import_module(f".{path}", __name__)
    found = globals()[name] = module if name in _LATER_MODULES else getattr(module, name)
    return found


# A star import must not hide Python's own max, sum and others.
if not TYPE_CHECKING:
    __all__ = [n for n in globals() if not n.startswith("_") and not hasattr(_builtins, n)]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER_MODULES, *_LATER_NAMES})
