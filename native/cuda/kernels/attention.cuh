// What attention and its adjoints share: tiles of scores, masks, operands with axes in front.
//
// A block of 16 x 16 threads works on SIDE queries (or keys) and goes over the keys (or queries),
// SIDE at a time. Scores are made in registers, a tile at a time, and never stored.
#pragma once

#include "product.cuh"

namespace needle {

using Exp = Formula<UnaryOp::exp>;
using Log = Formula<UnaryOp::log>;

enum Mask { NO_MASK, BOOL_MASK, NUMBER_MASK };

// Strides of the last two axes of an operand.
struct Face {
  i64 row, column;
};

// The last two axes of an operand (rows, columns) as a factor: its rows are the side, or (turned)
// its columns.
template <class S, class T>
ELEMENT Strided<S, T> rows_of(const T* data, const Face& face, u32 rows, u32 columns) {
  return Strided<S, T>(data, face.row, face.column, rows, columns);
}
template <class S, class T>
ELEMENT Strided<S, T> columns_of(const T* data, const Face& face, u32 rows, u32 columns) {
  return Strided<S, T>(data, face.column, face.row, columns, rows);
}

// Sizes: queries T, keys S, of vectors of queries and keys D, of values E.
struct Sizes {
  u32 queries, keys, size, width;
  u32 is_causal;
  f32 scale;
  f64 scale_f64;

  template <class S>
  ELEMENT S scale_as() const {
    if constexpr (is_same<S, f32>) return scale;
    return scale_f64;
  }
};

// The score of a query and a key, given their product.
template <class S, int kMask>
ELEMENT S score(S product, const Sizes& sizes, const void* mask, const Face& face, u32 query,
                u32 key) {
  const S nothing = -static_cast<S>(INFINITY);
  if (query >= sizes.queries || key >= sizes.keys || (sizes.is_causal != 0 && key > query)) {
    return nothing;
  }
  S s = product * sizes.scale_as<S>();
  const i64 at = query * face.row + key * face.column;
  if constexpr (kMask == BOOL_MASK) {
    if (static_cast<const bool_t*>(mask)[at].byte == 0) s = nothing;
  } else if constexpr (kMask == NUMBER_MASK) {
    s += static_cast<const S*>(mask)[at];
  }
  return s;
}

// What is subtracted from scores before exp: 0 for a query that sees nothing.
template <class S>
ELEMENT S level_of(S highest) {
  return highest == -static_cast<S>(INFINITY) ? S(0) : highest;
}

// Threads that share a row are neighbours in a warp.
template <class S, class Join>
ELEMENT S over_row(S x, Join join) {
#pragma unroll
  for (int step = 1; step < 16; step *= 2) x = join(x, __shfl_xor_sync(0xffffffff, x, step));
  return x;
}

}  // namespace needle
