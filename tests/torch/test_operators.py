"""PyTorch's own samples of its operators: values, dtypes, shapes and gradients are the same.

How many samples pass is printed; the counts below may only grow. What is named in MISSING waits for
complex numbers, or for functions that are not here yet.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("torch")

from . import op_samples

ELSEWHERE = ("linalg", "fft", "special", "_", "masked", "signal", "nn.", "sparse", "jiterator",
             "ops.", "torch.", "view_as_c", "native_", "max_pool", "grid_sampler")  # fmt: skip
MISSING = frozenset(
    """
cdouble cfloat chalf complex polar stft istft view_as_real to_sparse segment_reduce cholesky
cholesky_inverse cholesky_solve geqrf ormqr lu lu_solve lu_unpack logdet matrix_exp qr svd
svd_lowrank pca_lowrank pinverse triangular_solve hash_tensor histogramdd constant_pad_nd slice
""".split()
)
SAMPLES = 6  # of each operator and dtype
PASSING = 4_187  # samples, of these operators
COMPLETE = 359  # operators of which all samples pass


def passed(op: Any) -> tuple[int, int, Counter[str]]:
    """Samples that pass, all samples, and why others do not."""
    real = op_samples.torch()
    good = total = 0
    why: Counter[str] = Counter()
    for dtype in (real.float64, real.int64, real.bool):
        if dtype not in op.dtypes:
            continue
        for sample in op_samples.samples_of(op, dtype, SAMPLES):
            try:
                outcome = op_samples.check(op, sample, dtype is real.float64)
            except op_samples.Unsupported:
                continue
            total += 1
            good += outcome.ok
            if not outcome.ok:
                why[f"{dtype}: {outcome.why}"] += 1
    return good, total, why


@pytest.mark.slow
def test_samples() -> None:
    good = every = complete = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_samples.op_database():
            if op.name.startswith(ELSEWHERE) or op.name in MISSING:
                continue
            ok, total, why = passed(op)
            good, every = good + ok, every + total
            complete += ok == total > 0
            if ok < total:
                print(f"{op.name} {op.variant_test_name}: {ok} of {total}: {why.most_common(1)}")
    print(f"{good} of {every} samples pass; of {complete} operators, all do")
    assert good >= PASSING and complete >= COMPLETE
