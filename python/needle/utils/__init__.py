"""PyTorch's paths: `utils.data` is `needle.data`, `utils.checkpoint` has `checkpoint`."""

from .. import data as data, recompute as checkpoint  # noqa: F401
