"""What PyTorch keeps in `nn.utils`."""

from ...transforms.clipping import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
)
from . import rnn as rnn
