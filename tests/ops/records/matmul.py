"""Records of products of matrices and vectors."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import Call, OpRecord, Raises
from .elementwise import needs_tensor

EINSUMS = (
    Call("ij,jk->ik", (2, 3), (3, 4)), Call("ij,jk", (2, 3), (3, 4)), Call("ii->i", (3, 3)),
    Call("ii", (3, 3)), Call("ij->ji", (2, 3)), Call("ij->", (2, 3)), Call("i,j->ij", (2,), (3,)),
    Call("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), Call("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    Call("i,i->", (4,), (4,)), Call("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    Call("...i,...i", (2, 3, 4), (3, 4)), Call("ijk,ik->j", (2, 3, 4), (2, 4)),
    Call("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), Call("ij,ij->ij", (2, 3), (2, 3)),
    Call("a,b,c->cab", (2,), (3,), (4,)),
)  # fmt: skip


def tensors(*shapes):
    return [ndl.Tensor(np.zeros(s)) for s in shapes]


RECORDS = (
    OpRecord(
        "matmul", np.matmul,
        (Call((2, 3), (3, 4)), Call((5, 2, 3), (3, 4)), Call((2, 3), (5, 3, 4)), Call((3,), (3,)),
         Call((2, 1, 3, 4), (5, 4, 2)), Call((3,), (3, 4)), Call((2, 3), (3,)),
         Call((4, 2, 3), (3,)),
         Call((3,), (4, 3, 2)), Call((0, 3), (3, 2)), Call((2, 0), (0, 3)),
         Call((6, 6, 5, 4), (4, 3)),
         Call((1, 1), (1, 1))),
        dtypes=DTYPES,
        errors=(
            Raises(lambda f: f(*tensors((3, 4), (5, 6))), ValueError,
                   r"\[matmul\] inner dimensions differ: \(3, 4\) @ \(5, 6\); expected "
                   r"a\.shape\[-1\] == b\.shape\[-2\], got 4 and 5"),
            Raises(lambda f: f(*tensors((), (2,))), ValueError,
                   r"\[matmul\] expected at least 1 axis, got shapes \(\) and \(2,\); use \*"),
            Raises(lambda f: f(*tensors((2, 3, 4), (3, 4, 5))), ValueError,
                   r"\[matmul\] shapes .* do not broadcast"),
            Raises(lambda f: f(1.0, 2.0), TypeError, r"\[matmul\] expected at least one Tensor"),
        ),
    ),
    OpRecord(
        "dot", np.dot,
        (Call((3,), (3,)), Call((2, 3), (3, 4)), Call((2, 3), (3,)), Call((), (3,)), Call((2,), ()),
         Call((2, 3), (4, 3, 2)), Call((5, 2, 3), (3, 4)), Call((3,), (2, 3, 2))),
        errors=(
            Raises(lambda f: f(*tensors((3,), (4,))), ValueError,
                   r"\[matmul\] inner dimensions differ: \(3,\) @ \(4,\)"),
            Raises(lambda f: f(1.0, 2.0), TypeError, r"\[dot\] expected at least one Tensor"),
        ),
    ),
    OpRecord(
        "outer", np.outer, (Call((3,), (4,)), Call((2, 2), (3,)), Call((), (2,)), Call((0,), (3,))),
        errors=(
            Raises(lambda f: f(1.0, 2.0), TypeError, r"\[outer\] expected at least one Tensor"),
        ),
    ),
    OpRecord(
        "einsum", np.einsum, EINSUMS,
        errors=(
            Raises(lambda f: f("ij,jk"), ValueError, r"\[einsum\] expected operands for 'ij,jk'"),
            Raises(lambda f: f("ij,jk", *tensors((2, 3))), ValueError,
                   r"\[einsum\] 'ij,jk' has 2 operands, got 1 tensors"),
            Raises(lambda f: f("ij,jk", *tensors((2, 3), (4, 5))), ValueError,
                   r"\[einsum\] label 'j' of 'ij,jk' has sizes 3 and 4"),
            Raises(lambda f: f("ijk->i", *tensors((2, 3))), ValueError,
                   r"\[einsum\] 'ijk' of 'ijk->i' names 3 axes, the tensor has 2"),
            Raises(lambda f: f("ij->k", *tensors((2, 3))), ValueError,
                   r"\[einsum\] label 'k' is in no operand of 'ij->k'"),
            Raises(lambda f: f("ij->ii", *tensors((2, 3))), ValueError,
                   r"\[einsum\] label 'i' appears twice in the output"),
            Raises(lambda f: f("i1", *tensors((2, 3))), ValueError,
                   r"\[einsum\] expected letters, .*got '1' in 'i1'"),
            Raises(lambda f: f("i", [1.0]), TypeError, needs_tensor("einsum").match),
        ),
    ),
)  # fmt: skip
