"""Sparse tensors are PyTorch's: values, products, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import needle.torch as ours

theirs = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
PLACES = [[0, 1, 1, 2, 1], [2, 0, 2, 1, 0]]


def matrix(torch: Any, **options: Any) -> Any:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], **options)
    return torch.sparse_coo_tensor(torch.tensor(PLACES), values, (3, 4)), values


def test_values() -> None:
    (a, _), (b, _) = matrix(ours), matrix(theirs)
    assert np.array_equal(a.to_dense().numpy(), b.to_dense().numpy())
    for name in ("indices", "values"):
        assert getattr(a.coalesce(), name)().tolist() == getattr(b.coalesce(), name)().tolist()
        with pytest.raises(RuntimeError, match="uncoalesced"):
            getattr(a, name)()
    assert a.t().to_dense().tolist() == b.t().to_dense().tolist()
    assert (a + a).to_dense().tolist() == (b + b).to_dense().tolist()
    assert a._nnz() == b._nnz()
    assert a.is_sparse and not a.to_dense().is_sparse
    assert (a.to_dense().to_sparse()._nnz(), tuple(a.shape)) == (4, (3, 4))


@pytest.mark.parametrize("name", ["mm", "spmm", "matmul", "sparse.mm", "@"])
def test_products_and_gradients(name: str) -> None:
    found = []
    for torch in (ours, theirs):
        sparse, values = matrix(torch, requires_grad=True)
        dense = torch.arange(8.0).reshape(4, 2).requires_grad_()
        if name == "@":
            product = sparse @ dense
        elif name == "sparse.mm":
            product = torch.sparse.mm(sparse, dense)
        else:
            product = getattr(torch, name)(sparse, dense)
        product.pow(2).sum().backward()
        found.append([product.tolist(), values.grad.tolist(), dense.grad.tolist()])
    assert found[0] == found[1]


def test_softmax_and_sum() -> None:
    (a, _), (b, _) = matrix(ours), matrix(theirs)
    for dim in (0, 1):
        mine = ours.sparse.softmax(a, dim).to_dense().numpy()
        assert mine == pytest.approx(theirs.sparse.softmax(b, dim).to_dense().numpy())
        sums = [t.sparse.sum(m, dim).to_dense().tolist() for t, m in ((ours, a), (theirs, b))]
        assert sums[0] == sums[1]
    assert ours.sparse.sum(a).item() == theirs.sparse.sum(b).item()


def test_places_outside_and_sizes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="places outside"):
        ours.sparse_coo_tensor(ours.tensor([[0], [4]]), ours.ones(1), (2, 2))
    for torch in (ours, theirs):
        with pytest.raises(RuntimeError):
            torch.sparse.mm(matrix(torch)[0], torch.ones(3, 2))
