"""The native core with this process's settings: import `kernels` from here."""

from .. import _native as kernels, config

if config.CPU is not None:
    kernels.use_instruction_set(config.CPU)
if config.NUM_THREADS is not None:
    kernels.set_num_threads(config.NUM_THREADS)

__all__ = ["kernels"]
