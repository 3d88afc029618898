"""The kernels of cuda(): every function of protocol.py."""

from __future__ import annotations

from functools import partial

from ..._native import Sequence, run_loop as run_loop, run_python as run_python
from ..protocol import Offers
from . import index
from .elementwise import (
    binary as binary,
    copy as copy,
    fill as fill,
    unary as unary,
    where as where,
)
from .index import nonzero as nonzero
from .matmul import matmul as matmul, matmul_of as matmul_of, matmul_then as matmul_then
from .memory import empty as empty, from_numpy as from_numpy, to_numpy as to_numpy
from .networks.attention import attention as attention, attention_backward as attention_backward
from .networks.conv import (
    conv as conv,
    conv_by_data as conv_by_data,
    conv_by_weight as conv_by_weight,
    conv_then as conv_then,
)
from .networks.recurrence import (
    recurrence as recurrence,
    recurrence_backward as recurrence_backward,
)
from .order import argsort as argsort, searchsorted as searchsorted
from .random import random as random, random_from as random_from
from .recorded import waiting
from .reduce import arg_reduce as arg_reduce, reduce as reduce, scan as scan
from .run import run as run, run_each as run_each

gather, scatter, mix = waiting(index.gather), waiting(index.scatter), waiting(index.mix)
offers = Offers(sequence=partial(Sequence, True), epilogues=False)
