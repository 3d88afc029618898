"""Einstein summation: subscripts in, matrix products out.

An operand is a tensor with one label per axis. The axes under `...` have negative labels, counted
from the right, so that they broadcast as NumPy's do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from ..autograd import Tensor
from ..dtype import dtype_of, promote
from .common import check_tensor, numpy_options
from .elementwise import astype
from .shape.movement import reshape

__all__ = ["einsum"]

Labels = tuple[str | int, ...]  # letters, and negative numbers for the axes under "..."


class Term(NamedTuple):
    """An operand: a tensor and the labels of its axes, all different."""

    tensor: Tensor
    labels: Labels

    def size(self, label: str | int) -> int:
        return self.tensor.shape[self.labels.index(label)]

    def sum(self, labels: Sequence[str | int]) -> Term:
        """Without these labels: summed over."""
        if not labels:
            return self
        axes = tuple(self.labels.index(i) for i in labels)
        return Term(self.tensor.sum(axes), tuple(i for i in self.labels if i not in labels))

    def arrange(self, labels: Sequence[str | int]) -> Tensor:
        """The tensor with its axes in this order."""
        order = tuple(self.labels.index(i) for i in labels)
        return self.tensor if order == tuple(range(len(order))) else self.tensor.permute(order)


class Contracted(TypedDict, total=False):
    """NumPy's keywords of einsum, of which dtype is the type to compute in."""

    dtype: Any
    optimize: bool | Literal["greedy"]
    out: None
    order: Literal["K"]
    casting: Literal["safe"]


def einsum(subscripts: str, *operands: Tensor, **numpy: Unpack[Contracted]) -> Tensor:
    """Products of the operands, summed over the labels that the output does not have.

    einsum("ij,jk->ik", a, b) is a @ b; "ii->i" a diagonal; "...i,...i" a batched dot product.
    Without "->" the output has the labels that appear once, alphabetically, after those of "...".
    Of several operands, the two with the smallest product come first, for each value of optimize
    (True, False or "greedy"). dtype is the type to compute in.
    """
    given = numpy_options("einsum", numpy, "dtype", "optimize", casting="safe")
    if given.get("optimize", False) not in (True, False, "greedy"):
        raise TypeError(
            f"[einsum] optimize must be True, False or 'greedy', got {given['optimize']!r:.60}."
        )
    if not isinstance(subscripts, str):
        got = type(subscripts).__name__
        raise TypeError(f"[einsum] expected subscripts like 'ij,jk->ik' first, got {got}.")
    if not operands:
        raise ValueError(f"[einsum] expected operands for {subscripts!r}, got none.")
    shapes = [check_tensor("einsum", x).shape for x in operands]
    if given.get("dtype") is not None:
        return einsum(subscripts, *(astype(x, given["dtype"]) for x in operands))
    inputs, output = parse(subscripts, shapes)
    dtype = dtype_of(operands[0].dtype)
    for x in operands[1:]:
        dtype = promote(dtype, dtype_of(x.dtype))
    terms = [_distinct(x, labels) for x, labels in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _cheapest_pair(terms, output)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = set(output).union(*(t.labels for t in rest))
        terms = [_contract(terms[i], terms[j], kept), *rest]
    (last,) = terms
    last = last.sum([i for i in last.labels if i not in output])
    result = astype(last.arrange(output), dtype)
    # With nothing to do, the result is still a value of its own.
    return reshape(result, result.shape) if result is operands[0] else result


# Subscripts -------------------------------------------------------------------------------------


def parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the output, checked against the shapes.

    >>> parse("...ij,jk", [(7, 2, 3), (3, 4)])
    ([(-1, 'i', 'j'), ('j', 'k')], (-1, 'i', 'k'))
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    specs = left.split(",")
    if len(specs) != len(shapes):
        raise ValueError(
            f"[einsum] {subscripts!r} has {len(specs)} operands, got {len(shapes)} tensors."
        )
    inputs = [_labels(subscripts, s, len(shape)) for s, shape in zip(specs, shapes, strict=True)]
    _check_sizes(subscripts, inputs, shapes)
    every = list(itertools.chain(*inputs))
    hidden = sorted({i for i in every if isinstance(i, int)})
    if arrow:
        letters = _letters(subscripts, right)
        output: Labels = tuple(itertools.chain(*(hidden if i == "..." else (i,) for i in letters)))
        if hidden and "..." not in letters:
            raise ValueError(
                f"[einsum] the axes under '...' need '...' in the output, {subscripts!r}."
            )
    else:
        once = sorted(i for i in every if isinstance(i, str) and every.count(i) == 1)
        output = (*hidden, *once)
    for i in output:
        if i not in every or output.count(i) > 1:
            what = "is in no operand" if i not in every else "appears twice in the output"
            raise ValueError(f"[einsum] label {i!r} {what} of {subscripts!r}.")
    return inputs, output


def _letters(subscripts: str, spec: str) -> list[str]:
    """The labels of one operand as written, "..." as one of them."""
    before, dots, after = spec.partition("...")
    for letter in before + after:
        if not (letter.isascii() and letter.isalpha()):
            raise ValueError(
                f"[einsum] expected letters, ',', '->' and one '...' per operand, got {letter!r} "
                f"in {subscripts!r}."
            )
    return [*before, *(["..."] if dots else []), *after]


def _labels(subscripts: str, spec: str, ndim: int) -> Labels:
    letters = _letters(subscripts, spec)
    named = len(letters) - ("..." in letters)
    if named > ndim or (named < ndim and "..." not in letters):
        raise ValueError(
            f"[einsum] {spec!r} of {subscripts!r} names {named} axes, the tensor has {ndim}."
        )
    hidden = range(named - ndim, 0)
    return tuple(itertools.chain(*(hidden if i == "..." else (i,) for i in letters)))


def _check_sizes(
    subscripts: str, inputs: Sequence[Labels], shapes: Sequence[tuple[int, ...]]
) -> None:
    sizes: dict[Any, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        own: dict[Any, int] = {}
        for i, n in zip(labels, shape, strict=True):
            known, here = sizes.get(i, 1), own.setdefault(i, n)
            if here != n or (known != n and 1 not in (known, n)):
                other = here if here != n else known
                raise ValueError(
                    f"[einsum] label {i!r} of {subscripts!r} has sizes {other} and {n}; sizes must "
                    "be equal, or 1 in one of two operands."
                )
            sizes[i] = n if known == 1 else known


# Contraction ------------------------------------------------------------------------------------


def _distinct(x: Tensor, labels: Labels) -> Term:
    """Repeated labels become the diagonal of their axes."""
    while len(set(labels)) < len(labels):
        repeated = next(i for i in labels if labels.count(i) > 1)
        first = labels.index(repeated)
        second = labels.index(repeated, first + 1)
        x = x.diagonal(0, first, second)
        rest = (i for k, i in enumerate(labels) if k not in (first, second))
        labels = (*rest, repeated)
    return Term(x, labels)


def _cheapest_pair(terms: Sequence[Term], output: Labels) -> tuple[int, int]:
    """The two whose product adds the fewest elements; the first two of equals."""

    def growth(pair: tuple[int, int]) -> int:
        a, b = (terms[k] for k in pair)
        rest = (t.labels for k, t in enumerate(terms) if k not in pair)
        kept = set(output).union(*rest)
        size = math.prod(
            max(t.size(i) for t in (a, b) if i in t.labels)
            for i in kept.intersection((*a.labels, *b.labels))
        )
        return size - a.tensor.size - b.tensor.size

    return min(itertools.combinations(range(len(terms)), 2), key=growth)


def _contract(a: Term, b: Term, kept: set[str | int]) -> Term:
    """The product of two, summed over the labels that nobody else needs."""
    a, b = _sum_alone(a, b, kept), _sum_alone(b, a, kept)
    batch = [i for i in a.labels if i in b.labels and i in kept]
    inner = [i for i in a.labels if i in b.labels and i not in kept]
    rows = [i for i in a.labels if i not in b.labels]
    columns = [i for i in b.labels if i not in a.labels]
    left = a.arrange([*batch, *rows, *inner])
    right = b.arrange([*batch, *inner, *columns])
    lead, sizes = len(batch), (left.shape[len(batch) :], right.shape[len(batch) :])
    row_sizes, column_sizes = sizes[0][: len(rows)], sizes[1][len(inner) :]
    m, n = math.prod(row_sizes), math.prod(column_sizes)
    if inner:
        k = math.prod(sizes[1][: len(inner)])
        product = left.reshape(*left.shape[:lead], m, k) @ right.reshape(*right.shape[:lead], k, n)
    else:
        product = left.reshape(*left.shape[:lead], m, 1) * right.reshape(*right.shape[:lead], 1, n)
    result = product.reshape(*product.shape[:lead], *row_sizes, *column_sizes)
    return Term(result, (*batch, *rows, *columns))


def _sum_alone(a: Term, b: Term, kept: set[str | int]) -> Term:
    """Sum what the partner has not, or only with size 1, and what nobody else needs."""
    gone = [i for i in a.labels if i not in kept and i not in b.labels]
    a = a.sum(gone)
    stretched = [k for k, i in enumerate(a.labels) if i not in kept and b.size(i) == 1 != a.size(i)]
    return Term(a.tensor.sum(stretched, keepdims=True), a.labels) if stretched else a
