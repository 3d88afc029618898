"""PyTorch's paths: `utils.data` is `needle.data`, `utils.checkpoint` has `checkpoint`."""

from ... import data as data
from ...transforms import checkpoint as checkpoint
