"""PyTorch, which the benchmarks compare with, set up before it is loaded."""

import os
import sys

# Its bfloat16 kernels for AMX raise SIGILL on some virtual machines; those for float32 stay.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

try:
    import torch as torch
except ImportError:
    print("nothing to compare with: PyTorch is not installed (pip install torch==2.13.0)")
    sys.exit(0)
