// The adjoints of attention, with scores made again: of queries (attention_by_query.cu) and of keys
// and values (attention_by_key.cu). A tile is seen by its rows: of queries, or turned, of keys.
//
//   p = e^(score - lse),  ds = p (g vᵀ - shift)
#pragma once

#include "attention.cuh"

namespace needle {

template <int R>
struct AttentionBackward {
  Operands<10, R> x;  // three outputs, q, k, v, mask, lse, shift, g over the axes in front
  Face outs[3], q, k, v, mask, lse, shift, g;
  Sizes sizes;
};

enum { Q = 3, K, V, MASK_AT, LSE, SHIFT, G };

// Of a pair: what a query sees of a key, and the adjoint of the score.
template <class S>
struct Pair {
  S p, ds;
};

template <class S, int kMask, int R>
ELEMENT Pair<S> pair_of(const AttentionBackward<R>& b, const Places<10>& at, u32 query, u32 key,
                        S product, S adjoint) {
  constexpr i64 mask_item = kMask == BOOL_MASK ? 1 : sizeof(S);
  const void* const mask = b.x.data[MASK_AT] + at[MASK_AT] * mask_item;
  const S s = score<S, kMask>(product, b.sizes, mask, b.mask, query, key);
  if (query >= b.sizes.queries || key >= b.sizes.keys) return {0, 0};
  const S lse = *b.x.template at<S>(LSE, at[LSE] + query * b.lse.row);
  const S shift = *b.x.template at<S>(SHIFT, at[SHIFT] + query * b.shift.row);
  const S p = Exp::apply(s - level_of(lse));
  return {p, p * (adjoint - shift)};
}

// out = sums * factor, for what is inside.
template <class T, class Tile, class S>
ELEMENT void write_tile(T* data, const Face& face, const Tile& tile, S factor, u32 row, u32 column,
                        u32 rows, u32 columns) {
#pragma unroll
  for (int i = 0; i < Tile::EACH; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::EACH; ++j) {
      const u32 r = row + Tile::row(i), c = column + Tile::column(j);
      if (r < rows && c < columns) {
        data[r * face.row + c * face.column] = stored<T>(tile.sums[i][j] * factor);
      }
    }
  }
}

}  // namespace needle
