"""Needle: a deep-learning framework that one person can read."""

# ruff: noqa: I001 - names stand with their kin
# First: refuses a Python that the native core does not run on.
from .system import interpreter as _interpreter  # noqa: F401

from typing import TYPE_CHECKING

from . import config as _config, ops as ops  # Tensor, with its operators
from .backend import native as _native_core  # noqa: F401 - with the settings of this process
from ._native import __version__ as __version__
from .course import paths as course_paths  # noqa: F401
from .ops.shape.concat import tile as tile  # not the package of tile programs
from .system.later import names_of as _names_of

if TYPE_CHECKING:
    # Modules.
    from . import (
        autograd as autograd,
        data as data,
        distributed as distributed,
        init as init,
        io as io,
        nn as nn,
        ops as ops,
        optim as optim,
        testing as testing,
    )
    from .compat import amp as amp, utils as utils
    from .course import (
        backend_ndarray as backend_ndarray,
        backend_numpy as backend_numpy,
        backend_selection as backend_selection,
    )
    from .train import models as models

    # Tensors, operators and new tensors.
    from .autograd.grad_mode import *
    from .autograd.graph import Observer as Observer
    from .ops import *
    from .compat.torch_names import allclose as allclose, is_tensor as is_tensor, numel as numel
    from .init.basic import *
    from .init.sampling import *

    # Functions of functions: derivatives, recomputation, compiled functions.
    from .transforms.functions import *
    from .transforms.checkpoint import checkpoint as checkpoint
    from .compiler.control.functions import *
    from .compiler.errors import TraceError as TraceError
    from .compiler.export.files import export as export, load_exported as load_exported
    from .compiler.function import jit as jit

    # Element types, random numbers, devices, memory and threads.
    from .dtype import *
    from .ndarray.random import *
    from .backend.device import memory_stats as memory_stats
    from .backend.precision import (
        get_float32_matmul_precision as get_float32_matmul_precision,
        set_float32_matmul_precision as set_float32_matmul_precision,
    )
    from .course.backend_selection import *
    from .ndarray.kernels.c_kernel import CKernel as CKernel
    from ._native import (
        get_num_threads as get_num_threads,
        release_memory as release_memory,
        reset_peak_memory as reset_peak_memory,
        set_num_threads as set_num_threads,
    )

    from .compat.names import *
    from .compat.typed import *

    # Training, files and finding faults.
    from .autograd.anomaly import AnomalyError as AnomalyError, detect_anomaly as detect_anomaly
    from .compat.amp import autocast as autocast
    from .io.checkpoint import *
    from .io.saving import *
    from .nn.summary import summary as summary
    from .train.trainer import Trainer as Trainer
else:
    _absent = () if _config.BACKEND == "nd" else ("cpu_numpy", "cuda")
    __getattr__, __dir__ = _names_of(__name__, _absent)
