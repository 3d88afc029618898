"""All records, by operator."""

from __future__ import annotations

from . import (
    conv,
    creation,
    elementwise,
    indexing,
    joining,
    matmul,
    movement,
    order,
    reduce,
    torch_math,
    torch_names,
)

RECORDS = (
    *elementwise.RECORDS, *reduce.RECORDS, *movement.RECORDS, *joining.RECORDS, *matmul.RECORDS,
    *indexing.RECORDS, *order.RECORDS, *conv.RECORDS, *torch_names.RECORDS, *torch_math.RECORDS,
)  # fmt: skip

CREATION = creation.RECORDS
