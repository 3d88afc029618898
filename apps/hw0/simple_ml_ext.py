"""The C++ epoch through ctypes. `make` in this folder builds the library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

LIBRARY = Path(__file__).with_name("libsimple_ml.so")


def softmax_regression_epoch_cpp(
    X: np.ndarray, y: np.ndarray, theta: np.ndarray, lr: float = 0.1, batch: int = 100
) -> None:
    """One pass of SGD over logits = X theta; theta (float32, C order) changes in place."""
    if not LIBRARY.exists():
        raise ImportError(f"[simple_ml_ext] {LIBRARY} is not built; run make in {LIBRARY.parent}.")
    if theta.dtype != np.float32 or not theta.flags.c_contiguous:
        raise TypeError("[simple_ml_ext] expected theta as float32 in C order.")
    (m, n), k = X.shape, theta.shape[1]
    if theta.shape[0] != n or len(y) != m or (m and int(y.max()) >= k):
        raise ValueError(
            f"[simple_ml_ext] shapes differ: X {X.shape}, y {y.shape}, theta {theta.shape}."
        )
    if batch < 1:
        raise ValueError(f"[simple_ml_ext] expected batch >= 1, got {batch}.")
    inputs = np.ascontiguousarray(X, np.float32)
    labels = np.ascontiguousarray(y, np.uint8)
    function = ctypes.CDLL(str(LIBRARY)).softmax_regression_epoch
    sizes = (ctypes.c_size_t(v) for v in (m, n, k))
    function(
        inputs.ctypes.data_as(ctypes.c_void_p),
        labels.ctypes.data_as(ctypes.c_void_p),
        theta.ctypes.data_as(ctypes.c_void_p),
        *sizes,
        ctypes.c_float(lr),
        ctypes.c_size_t(batch),
    )
