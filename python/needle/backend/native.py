"""The native core with this process's settings, and what it offers to compiled functions."""

from .. import _native as kernels, config
from .protocol import Offers

offers = Offers(
    sequence=kernels.Sequence,
    concurrency=True,
    c_functions=True,
    prologues=lambda: not kernels.instruction_set().endswith("amx"),  # tiles read from memory
    prepacking=True,
    has_built_in=kernels.is_builtin,
)

if config.CPU is not None:
    kernels.use_instruction_set(config.CPU)
if config.NUM_THREADS is not None:
    kernels.set_num_threads(config.NUM_THREADS)

__all__ = ["kernels", "offers"]
