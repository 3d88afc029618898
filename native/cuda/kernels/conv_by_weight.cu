// The adjoint of a convolution in the filters, as a product of turned windows by what outputs got:
// one row of out for each cell (tap, channel), summed over all positions, in groups:
// -DOUT=f32 -DDTYPE=f32 -DAXES=2 -DTHREADS=16 -DGROUPS=2.
#include "windows.cuh"

using namespace needle;

using S = Sum<DTYPE>;
using Tile = Product<S, THREADS, GROUPS>;

extern "C" __global__ void __launch_bounds__(THREADS* THREADS)
    conv_by_weight(const __grid_constant__ Convolution<AXES> p) {
  __shared__ Tile::Shared shared;
  const Task<Tile> task(p.geometry.cells(), p.columns, p.parts);
  const Places<3> at = places_of(p.x, task.group);
  const Windows<S, DTYPE, AXES, true> windows(p.x.at<DTYPE>(1, at[1]), p.geometry);
  const Strided<S, DTYPE> adjoints(p.x.at<DTYPE>(2, at[2]), p.side_stride, p.depth_stride,
                                   p.columns, windows.depth);
  const u32 begin = task.part * p.part, end = min(windows.depth, begin + p.part);
  Tile tile;
  tile.add(shared, windows, adjoints, task.row, task.column, begin, end);
  const Target<S, OUT> out(p.x.at<OUT>(0, at[0] + task.part * p.part_stride), p.out_row,
                           p.out_column, windows.sides, p.columns);
  tile.for_each_word(
      [&](u32 i, u32 j, const S(&word)[WORD<S>]) { out.put(task.row + i, task.column + j, word); });
}
