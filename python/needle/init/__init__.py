"""New tensors: creation functions and starting values of weights.

Stands on: ops.
"""

from .basic import (
    arange as arange,
    as_tensor as as_tensor,
    asarray as asarray,
    bernoulli as bernoulli,
    constant as constant,
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
from .initializers import (
    kaiming_normal as kaiming_normal,
    kaiming_uniform as kaiming_uniform,
    xavier_normal as xavier_normal,
    xavier_uniform as xavier_uniform,
)
