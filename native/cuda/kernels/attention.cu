// out = softmax(q kᵀ scale + mask) v and lse, with the softmax online (Milakov and Gimelshein,
// 2018; Dao et al., 2022): -DDTYPE=f32 -DMASK=NO_MASK -DRANK=2.
//
// A block makes SIDE rows and SIDE columns of out. While it goes over the keys, it knows the
// highest score and the total of each row so far; when a higher score comes, both the total and the
// sums shrink by the same factor.
#include "attention.cuh"

using namespace needle;

using S = Computed<DTYPE>;
using Tile = Product<S, 16, 1, 16>;
constexpr int EACH = Tile::EACH, SIDE = Tile::SIDE;
constexpr int BLOCKS = sizeof(DTYPE) == 2 ? 1 : 2;  // of a multiprocessor: widening takes registers

struct Attention {
  Operands<6, RANK> x;  // out, lse, q, k, v, mask over the axes in front
  Face out, lse, q, k, v, mask;
  Sizes sizes;
};

struct Rows {  // of a thread
  S level[EACH], total[EACH];
};

// Scores become e^(score - level); what has been summed up follows the level.
ELEMENT void soften(Tile& scores, Tile& out, Rows& rows) {
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    S highest = rows.level[i];
#pragma unroll
    for (int j = 0; j < EACH; ++j) highest = maximum(highest, scores.sums[i][j]);
    highest = over_row(highest, [](S x, S y) { return maximum(x, y); });
    const S level = level_of(highest), shrink = Exp::apply(rows.level[i] - level);
    S total = 0;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      scores.sums[i][j] = Exp::apply(scores.sums[i][j] - level);
      total += scores.sums[i][j];
      out.sums[i][j] *= shrink;
    }
    total = over_row(total, [](S x, S y) { return x + y; });
    rows.total[i] = rows.total[i] * shrink + total;
    rows.level[i] = highest;
  }
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    attention(const __grid_constant__ Attention p) {
  __shared__ Tile::Shared shared;
  __shared__ Tile::Panel panel;
  const Sizes& sizes = p.sizes;
  const u32 across = max(1, (sizes.width + SIDE - 1) / SIDE);
  const u32 down = (sizes.queries + SIDE - 1) / SIDE;
  const u32 column = blockIdx.x % across * SIDE, row = blockIdx.x / across % down * SIDE;
  const Places<6> at = places_of(p.x, blockIdx.x / across / down);
  const auto q = rows_of<S>(p.x.at<DTYPE>(2, at[2]), p.q, sizes.queries, sizes.size);
  const auto k = rows_of<S>(p.x.at<DTYPE>(3, at[3]), p.k, sizes.keys, sizes.size);
  const auto v = columns_of<S>(p.x.at<DTYPE>(4, at[4]), p.v, sizes.keys, sizes.width);
  const u32 seen = sizes.is_causal != 0 ? min(sizes.keys, row + SIDE) : sizes.keys;
  const u32 mask_item = MASK == BOOL_MASK ? 1 : sizeof(S);
  const void* const mask = p.x.data[5] + at[5] * mask_item;

  Tile out;
  Rows rows;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    rows.level[i] = -static_cast<S>(INFINITY);
    rows.total[i] = 0;
  }
  for (u32 key = 0; key < seen; key += SIDE) {
    Tile scores;
    __syncthreads();  // shared and the panel are still read
    scores.add(shared, q, k, row, key, 0, sizes.size);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        S& sum = scores.sums[i][j];
        sum = score<S, MASK>(sum, sizes, mask, p.mask, row + Tile::row(i), key + Tile::column(j));
      }
    }
    soften(scores, out, rows);
    scores.put_into(panel);
    __syncthreads();
    out.add_panel(panel, shared, v, column, key);
  }

#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const u32 query = row + Tile::row(i);
    if (query >= sizes.queries) continue;
    const S total = rows.total[i];
    if (column == 0 && Tile::thread_column() == 0) {
      *p.x.at<S>(1, at[1] + query * p.lse.row) = Log::apply(total) + level_of(rows.level[i]);
    }
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const u32 e = column + Tile::column(j);
      const S mean = out.sums[i][j] / (total == 0 ? S(1) : total);
      DTYPE* const to = p.x.at<DTYPE>(0, at[0] + query * p.out.row + e * p.out.column);
      if (e < sizes.width) *to = stored<DTYPE>(mean);
    }
  }
}
