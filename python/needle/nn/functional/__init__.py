"""Functions of networks under PyTorch's names, argument orders and defaults.

Deprecated arguments (`size_average`, `reduce`, `inplace`) are left out; what follows them in
PyTorch's order is given by name.
"""

from typing import Any

from ...absent import no_attribute
from .activation import (
    elu as elu,
    gelu as gelu,
    glu as glu,
    gumbel_softmax as gumbel_softmax,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    logsigmoid as logsigmoid,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softplus as softplus,
    softsign as softsign,
    tanh as tanh,
)
from .attention import (
    apply_rotary as apply_rotary,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from .conv import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool2d as adaptive_max_pool2d,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    fold as fold,
    interpolate as interpolate,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    pad as pad,
    pixel_shuffle as pixel_shuffle,
    unfold as unfold,
)
from .linear import (
    dropout as dropout,
    embedding as embedding,
    linear as linear,
    one_hot as one_hot,
)
from .loss import (
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cosine_embedding_loss as cosine_embedding_loss,
    cosine_similarity as cosine_similarity,
    cross_entropy as cross_entropy,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    mse_loss as mse_loss,
    nll_loss as nll_loss,
    smooth_l1_loss as smooth_l1_loss,
    triplet_margin_loss as triplet_margin_loss,
)
from .norm import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    normalize as normalize,
    rms_norm as rms_norm,
)


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
