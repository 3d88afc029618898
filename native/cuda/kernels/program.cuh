// What tile programs are made of, beside the functions of one element (backend/gpu/programs.py).
#pragma once

#include "philox.cuh"
#include "reductions.cuh"

namespace needle {

// Rows of elements: operands on the axes of rows, then on those along a row.
template <int N, int O, int I>
struct Rows {
  Operands<N, O> rows;
  Operands<N, I> elements;
};

// Where element `e` of a row lies in every operand.
template <int N, int O, int I>
ELEMENT Places<N> places_in_row(const Rows<N, O, I>& p, const Places<N>& row, u32 e) {
  Places<N> at = places_of(p.elements, e);
  for (int n = 0; n < N; ++n) at.at[n] += row[n];
  return at;
}

// Number `element` of a stream that begins at `offset`, in [0, 1).
ELEMENT f32 random_at(i64 seed, i64 offset, u64 element) {
  const u64 word = static_cast<u64>(offset) + element;
  return uniform<f32>(philox(static_cast<u64>(seed), word / 4).word(word % 4), 0);
}

// A row reduction, and its result for the whole team.
template <ReduceOp op, class T>
using RowTotal = typename TotalOf<Reduction<op>::kKind, T>::Type;
template <ReduceOp op, u32 SIZE, class T, class Total>
ELEMENT T of_row(Total total) {
  total = combined<SIZE>(total, [](Total x, Total y) { return Reduction<op>::step(x, y); });
  return static_cast<T>(from_member<SIZE>(total, threadIdx.x / SIZE * SIZE));
}

}  // namespace needle
