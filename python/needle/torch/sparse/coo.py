"""Sparse tensors as lists of places and values (COO), with gradients to the values.

A product with a dense matrix gathers rows and adds them up: (A X)_i = Σ_k v_k X_{j_k}, i_k = i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import torch

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = [
    "DoubleTensor", "FloatTensor", "SparseTensor", "addmm", "mm", "softmax", "sparse_coo_tensor",
    "spmm", "sum", "to_sparse",
]  # fmt: skip


class SparseTensor:
    """Values at places, zero elsewhere; a place that comes twice counts twice."""

    is_sparse = True
    layout = "torch.sparse_coo"

    def __init__(self, places: Any, values: Any, shape: Any, coalesced: bool = False) -> None:
        self._places, self._entries, self._coalesced = places, values, coalesced
        self.shape = torch.Size(shape)

    # What it is ------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        return self._entries.dtype

    @property
    def device(self) -> Any:
        return self._entries.device

    @property
    def requires_grad(self) -> bool:
        return bool(self._entries.requires_grad)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def sparse_dim(self) -> int:
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        return self.ndim - self.sparse_dim()

    def numel(self) -> int:
        return int(self.shape.numel())

    def _nnz(self) -> int:
        return int(self._places.shape[1])

    def _indices(self) -> Any:
        return self._places

    def _values(self) -> Any:
        return self._entries

    def is_coalesced(self) -> bool:
        """Are the places in order, each once?"""
        return self._coalesced

    def _only_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def indices(self) -> Any:
        """The places: one column for each value."""
        self._only_coalesced("indices")
        return self._places

    def values(self) -> Any:
        """The values."""
        self._only_coalesced("values")
        return self._entries

    # The same in other forms -----------------------------------------------------------------

    def _flat(self) -> Any:
        """Where a value lies if the sparse axes are one."""
        found = torch.zeros(self._nnz(), dtype=torch.int64)
        for row, size in zip(self._places, self.shape, strict=False):
            found = found * size + row
        return found

    def coalesce(self) -> SparseTensor:
        """The places in order, each once."""
        if self._coalesced:
            return self
        places, which = torch.unique(self._flat(), return_inverse=True)
        added = torch.zeros((len(places), *self._entries.shape[1:]), dtype=self.dtype)
        values = added.index_add(0, which, self._entries)
        sizes = tuple(self.shape[: self.sparse_dim()])
        where = torch.stack(torch.unravel_index(places, sizes))
        return SparseTensor(where, values, self.shape, True)

    def to_dense(self) -> Any:
        """All elements."""
        sizes = self.shape[: self.sparse_dim()]
        rest = tuple(self.shape[self.sparse_dim() :])
        flat = torch.zeros((sizes.numel(), *rest), dtype=self.dtype)
        return flat.index_add(0, self._flat(), self._entries).reshape(self.shape)

    def t(self) -> SparseTensor:
        """The transpose."""
        if self.ndim != 2 or self.sparse_dim() != 2:
            raise RuntimeError(f"t() expects a matrix, but got a sparse tensor of {self.ndim} axes")
        return SparseTensor(self._places.flip(0), self._entries, self.shape[::-1])

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The transpose of a matrix."""
        return self if dim0 % self.ndim == dim1 % self.ndim else self.t()

    def _with(self, values: Any) -> SparseTensor:
        return SparseTensor(self._places, values, self.shape, self._coalesced)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Of another type."""
        return self._with(self._entries.to(*args, **kwargs))

    def float(self) -> SparseTensor:
        return self._with(self._entries.float())

    def double(self) -> SparseTensor:
        return self._with(self._entries.double())

    def detach(self) -> SparseTensor:
        return self._with(self._entries.detach())

    def clone(self) -> SparseTensor:
        return self._with(self._entries.clone())

    def cpu(self) -> SparseTensor:
        return self

    def cuda(self, device: object = None) -> SparseTensor:
        """An error, as of dense tensors: there is no GPU."""
        return self._with(self._entries.cuda(device))

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Let the values have gradients."""
        self._entries.requires_grad_(requires_grad)
        return self

    # Arithmetic ------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        return mm(self, other)

    mm = matmul = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        return mm(self.t(), other.t()).t()

    def __mul__(self, other: Any) -> SparseTensor:
        """Times a number, or a dense tensor's elements at these places."""
        if isinstance(other, torch.Tensor) and other.dim():
            other = other.expand(self.shape)[tuple(self._places)]
        return self._with(self._entries * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with(self._entries / other)

    def __neg__(self) -> SparseTensor:
        return self._with(-self._entries)

    def __add__(self, other: Any) -> Any:
        """With a sparse tensor sparse, with a dense one dense."""
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        places = torch.cat([self._places, other._places], 1)
        values = torch.cat([self._entries, other._entries])
        return SparseTensor(places, values, self.shape).coalesce()

    __radd__ = __add__

    def sum(self, dim: int | None = None) -> Any:
        """The sum of all values, or a sparse sum along an axis."""
        return sum(self, dim)

    def __repr__(self) -> str:
        return (
            f"tensor(indices={self._places},\n       values={self._entries},\n       "
            f"size={tuple(self.shape)}, nnz={self._nnz()}, layout=torch.sparse_coo)"
        )


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """Values at places; without a size, just large enough."""
    places = torch.as_tensor(indices, dtype=torch.int64)
    entries = torch.as_tensor(values, dtype=dtype, device=device)
    if size is None:
        size = (*(int(n) + 1 for n in places.amax(1)), *entries.shape[1:])
    sizes = torch.tensor([*size][: len(places)])[:, None]
    if places.numel() and (bool((places < 0).any()) or bool((places >= sizes).any())):
        raise RuntimeError(f"size is inconsistent with indices: places outside of {tuple(size)}")
    found = SparseTensor(places, entries, size, bool(is_coalesced))
    return found.requires_grad_() if requires_grad else found


def FloatTensor(indices: Any, values: Any, size: Any = None) -> SparseTensor:
    """The former name: values of float32."""
    return sparse_coo_tensor(indices, values, size, dtype=torch.float32)


def DoubleTensor(indices: Any, values: Any, size: Any = None) -> SparseTensor:
    """The former name: values of float64."""
    return sparse_coo_tensor(indices, values, size, dtype=torch.float64)


def to_sparse(input: Tensor) -> SparseTensor:
    """A dense tensor's elements that are not zero."""
    places = torch.nonzero(input).t()
    return SparseTensor(places, input[tuple(places)], input.shape, True)


def mm(sparse: Any, dense: Any) -> Any:
    """The product with a dense matrix or vector."""
    if not isinstance(sparse, SparseTensor):
        return sparse @ (dense.to_dense() if isinstance(dense, SparseTensor) else dense)
    if isinstance(dense, SparseTensor):
        return to_sparse(mm(sparse, dense.to_dense()))
    if sparse.ndim != 2 or sparse.shape[1] != dense.shape[0]:
        raise RuntimeError(
            f"mm: cannot multiply {tuple(sparse.shape)} and {tuple(dense.shape)}: the inner sizes "
            "must agree"
        )
    rows, columns = sparse._indices()
    values = sparse._values().reshape(-1, *(1 for _ in dense.shape[1:]))
    zeros = torch.zeros((sparse.shape[0], *dense.shape[1:]), dtype=dense.dtype)
    return zeros.index_add(0, rows, values * dense.index_select(0, columns))


spmm = mm


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """β mat + α mat1 mat2"""
    return beta * mat + alpha * mm(mat1, mat2)


def sum(input: SparseTensor, dim: int | None = None) -> Any:
    """The sum of all values, or a sparse sum along an axis."""
    if dim is None:
        return input._values().sum()
    keep = [i for i in range(input.ndim) if i != dim % input.ndim]
    shape = [input.shape[i] for i in keep]
    return SparseTensor(input._indices()[keep], input._values(), shape).coalesce()


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Softmax of the values of each row (dim 1) or column (dim 0); what is not stored is -∞."""
    input = input.coalesce()
    groups = input.indices()[1 - dim % 2]
    values = input.values() if dtype is None else input.values().to(dtype)
    count = input.shape[1 - dim % 2]
    lowest = torch.full((count,), float("-inf"), dtype=values.dtype)
    top = lowest.scatter_reduce(0, groups, values.detach(), "amax")
    powers = (values - top[groups]).exp()
    totals = torch.zeros(count, dtype=values.dtype).index_add(0, groups, powers)
    return SparseTensor(input.indices(), powers / totals[groups], input.shape, True)
