// dq = ds k scale, and ds if it is wanted: -DDTYPE=f32 -DMASK=NO_MASK -DRANK=2, -DSCORES for ds.
// A block makes SIDE rows and columns of dq, and goes over the keys.
#include "attention_backward.cuh"

using namespace needle;

using S = Computed<DTYPE>;
using Tile = Product<S, 16, 1, 16>;
constexpr int EACH = Tile::EACH, SIDE = Tile::SIDE;

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_by_query(const __grid_constant__ AttentionBackward<RANK> b) {  // outs: dq, ds
  __shared__ Tile::Shared shared;
  __shared__ Tile::Panel panel;
  const Sizes& sizes = b.sizes;
  const u32 across = max(1, (sizes.size + SIDE - 1) / SIDE);
  const u32 down = (sizes.queries + SIDE - 1) / SIDE;
  const u32 column = blockIdx.x % across * SIDE, row = blockIdx.x / across % down * SIDE;
  const Places<10> at = places_of(b.x, blockIdx.x / across / down);
  const auto q = rows_of<S>(b.x.at<DTYPE>(Q, at[Q]), b.q, sizes.queries, sizes.size);
  const auto g = rows_of<S>(b.x.at<DTYPE>(G, at[G]), b.g, sizes.queries, sizes.width);
  const auto k = rows_of<S>(b.x.at<DTYPE>(K, at[K]), b.k, sizes.keys, sizes.size);
  const auto v = rows_of<S>(b.x.at<DTYPE>(V, at[V]), b.v, sizes.keys, sizes.width);
  const auto k_columns = columns_of<S>(b.x.at<DTYPE>(K, at[K]), b.k, sizes.keys, sizes.size);
#ifdef SCORES
  const u32 seen = sizes.keys;  // what is not seen has an adjoint, too: 0
#else
  const u32 seen = sizes.is_causal != 0 ? min(sizes.keys, row + SIDE) : sizes.keys;
#endif

  Tile dq;
  for (u32 key = 0; key < seen; key += SIDE) {
    Tile scores, adjoints;
    __syncthreads();
    scores.add(shared, q, k, row, key, 0, sizes.size);
    __syncthreads();
    adjoints.add(shared, g, v, row, key, 0, sizes.width);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        const u32 query = row + Tile::row(i), there = key + Tile::column(j);
        const Pair<S> pair =
            pair_of<S, MASK>(b, at, query, there, scores.sums[i][j], adjoints.sums[i][j]);
        adjoints.sums[i][j] = pair.ds;
      }
    }
#ifdef SCORES
    if (column == 0) {
      write_tile(b.x.at<S>(1, at[1]), b.outs[1], adjoints, S(1), row, key, sizes.queries,
                 sizes.keys);
    }
#endif
    adjoints.put_into(panel);
    __syncthreads();
    dq.add_panel(panel, shared, k_columns, column, key);
  }
  write_tile(b.x.at<DTYPE>(0, at[0]), b.outs[0], dq, sizes.scale_as<S>(), row, column,
             sizes.queries, sizes.size);
}
