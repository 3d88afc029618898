// dk = dsᵀ q scale and dv = pᵀ g: -DDTYPE=f32 -DMASK=NO_MASK -DRANK=2. A block makes SIDE rows and
// columns of both, and goes over the queries. Its tiles are turned: keys down, queries across.
#include "attention_backward.cuh"

using namespace needle;

using S = Computed<DTYPE>;
using Tile = Product<S, 16, 1, 16>;
constexpr int EACH = Tile::EACH, SIDE = Tile::SIDE;

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_by_key(const __grid_constant__ AttentionBackward<RANK> b) {  // outs: dk, dv
  __shared__ Tile::Shared shared;
  __shared__ Tile::Panel panel;
  const Sizes& sizes = b.sizes;
  const u32 across = max(1, (max(sizes.size, sizes.width) + SIDE - 1) / SIDE);
  const u32 down = (sizes.keys + SIDE - 1) / SIDE;
  const u32 column = blockIdx.x % across * SIDE, row = blockIdx.x / across % down * SIDE;
  const Places<10> at = places_of(b.x, blockIdx.x / across / down);
  const auto q = rows_of<S>(b.x.at<DTYPE>(Q, at[Q]), b.q, sizes.queries, sizes.size);
  const auto g = rows_of<S>(b.x.at<DTYPE>(G, at[G]), b.g, sizes.queries, sizes.width);
  const auto k = rows_of<S>(b.x.at<DTYPE>(K, at[K]), b.k, sizes.keys, sizes.size);
  const auto v = rows_of<S>(b.x.at<DTYPE>(V, at[V]), b.v, sizes.keys, sizes.width);
  const auto q_columns = columns_of<S>(b.x.at<DTYPE>(Q, at[Q]), b.q, sizes.queries, sizes.size);
  const auto g_columns = columns_of<S>(b.x.at<DTYPE>(G, at[G]), b.g, sizes.queries, sizes.width);
  const u32 first = sizes.is_causal != 0 ? row / SIDE * SIDE : 0;  // earlier queries see none

  Tile dk, dv;
  for (u32 query = first; query < sizes.queries; query += SIDE) {
    Tile scores, adjoints;
    __syncthreads();
    scores.add(shared, k, q, row, query, 0, sizes.size);
    __syncthreads();
    adjoints.add(shared, v, g, row, query, 0, sizes.width);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        const u32 key = row + Tile::row(i), there = query + Tile::column(j);
        const Pair<S> pair =
            pair_of<S, MASK>(b, at, there, key, scores.sums[i][j], adjoints.sums[i][j]);
        scores.sums[i][j] = pair.p;
        adjoints.sums[i][j] = pair.ds;
      }
    }
    scores.put_into(panel);
    __syncthreads();
    dv.add_panel(panel, shared, g_columns, column, query);
    __syncthreads();
    adjoints.put_into(panel);
    dk.add_panel(panel, shared, q_columns, column, query);
  }
  write_tile(b.x.at<DTYPE>(0, at[0]), b.outs[0], dk, sizes.scale_as<S>(), row, column, sizes.keys,
             sizes.size);
  write_tile(b.x.at<DTYPE>(1, at[1]), b.outs[1], dv, S(1), row, column, sizes.keys, sizes.width);
}
