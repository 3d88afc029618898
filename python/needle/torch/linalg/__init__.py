"""`torch.linalg`: real matrices, by NumPy's LAPACK, with gradients."""

from ..functions.linear import cross as cross, matmul as matmul, matrix_power as matrix_power
from .functions import (
    LinAlgError as LinAlgError,
    cholesky as cholesky,
    det as det,
    eigh as eigh,
    eigvalsh as eigvalsh,
    inv as inv,
    matrix_norm as matrix_norm,
    norm as norm,
    pinv as pinv,
    qr as qr,
    slogdet as slogdet,
    solve as solve,
    svd as svd,
    svdvals as svdvals,
    vector_norm as vector_norm,
)
