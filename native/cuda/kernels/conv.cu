// A convolution, or its adjoint in the data, as a product of windows by filters: one row of out for
// each position, one column for each channel that is made, in groups:
// -DOUT=f32 -DDTYPE=f32 -DAXES=2 -DTHREADS=16 -DGROUPS=2.
#include "windows.cuh"

using namespace needle;

using S = Sum<DTYPE>;
using Tile = Product<S, THREADS, GROUPS>;

extern "C" __global__ void __launch_bounds__(THREADS* THREADS)
    conv(const __grid_constant__ Convolution<AXES> p) {
  __shared__ Tile::Shared shared;
  const Task<Tile> task(p.geometry.rows(), p.columns, p.parts);
  const Places<3> at = places_of(p.x, task.group);
  const Windows<S, DTYPE, AXES, false> windows(p.x.at<DTYPE>(1, at[1]), p.geometry);
  const Filters<S, DTYPE> filters(p.x.at<DTYPE>(2, at[2]), p.tap_stride, p.depth_stride,
                                  p.side_stride, p.columns, windows.depth, p.geometry.channels);
  const u32 begin = task.part * p.part, end = min(windows.depth, begin + p.part);
  Tile tile;
  tile.add(shared, windows, filters, task.row, task.column, begin, end);
  const Target<S, OUT> out(p.x.at<OUT>(0, at[0] + task.part * p.part_stride), p.out_row,
                           p.out_column, windows.sides, p.columns);
  tile.for_each_word(
      [&](u32 i, u32 j, const S(&word)[WORD<S>]) { out.put(task.row + i, task.column + j, word); });
}
