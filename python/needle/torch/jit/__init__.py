"""`torch.jit`: functions and modules as they are.

A script or a trace of PyTorch computes what the function computes; here it is the function.
"""

from .compiling import (
    export as export,
    fork as fork,
    freeze as freeze,
    ignore as ignore,
    interface as interface,
    is_scripting as is_scripting,
    is_tracing as is_tracing,
    load as load,
    optimize_for_inference as optimize_for_inference,
    save as save,
    script as script,
    script_if_tracing as script_if_tracing,
    trace as trace,
    unused as unused,
    wait as wait,
)
