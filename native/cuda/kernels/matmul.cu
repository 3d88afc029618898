// out (M, N) = a (M, K) @ b (K, N) for every place of the axes in front, all strided:
// -DOUT=f32 -DLEFT=f32 -DRIGHT=f32 -DTHREADS=16 -DGROUPS=2 -DRANK=1.
//
// With -DADD the product is added to what out holds. A block makes a tile of one product, and with
// `parts` > 1 only the sum over a part of K: out then is room for the sums themselves
// (product_parts.cu adds them up), and `part` the length of parts.
#include "product.cuh"

using namespace needle;

using S = Sum<LEFT>;
using Tile = Product<S, THREADS, GROUPS>;

#ifdef ADD
constexpr bool ADDS = true;
#else
constexpr bool ADDS = false;
#endif

struct Matmul {
  Operands<3, RANK> x;  // out, a, b over the axes in front
  i64 out_row, out_column, a_row, a_depth, b_depth, b_column;
  i64 part_stride;  // of out
  u32 rows, columns, depth, parts, part;
};

extern "C" __global__ void __launch_bounds__(THREADS* THREADS, 512 / (THREADS * THREADS))
    matmul(const __grid_constant__ Matmul p) {
  __shared__ Tile::Shared shared;
  const Task<Tile> task(p.rows, p.columns, p.parts);
  const Places<3> at = places_of(p.x, task.group);
  const Strided<S, LEFT> a(p.x.at<LEFT>(1, at[1]), p.a_row, p.a_depth, p.rows, p.depth);
  const Strided<S, RIGHT> b(p.x.at<RIGHT>(2, at[2]), p.b_column, p.b_depth, p.columns, p.depth);
  const u32 begin = task.part * p.part;
  Tile tile;
  tile.add(shared, a, b, task.row, task.column, begin, min(p.depth, begin + p.part));
  const Target<S, OUT, ADDS> out(p.x.at<OUT>(0, at[0] + task.part * p.part_stride), p.out_row,
                                 p.out_column, p.rows, p.columns);
  tile.for_each_word(
      [&](u32 i, u32 j, const S(&word)[WORD<S>]) { out.put(task.row + i, task.column + j, word); });
}
