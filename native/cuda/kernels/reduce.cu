// out = the reduction OP of a over some axes: -DOP=sum -DDTYPE=f32 -DOUT=f32, in pieces of the
// elements if they are many, each of which has a result of its own.
#include "reductions.cuh"

using namespace needle;

using R = Reduction<ReduceOp::OP>;
using Total = typename TotalOf<R::kKind, OUT>::Type;

struct Reduce {
  Operands<2, KEPT> kept;         // out and a, on the axes that stay
  Operands<1, REDUCED> elements;  // a, on those that are reduced
  i64 piece_stride;               // of out
  u32 piece;                      // elements in each
};

extern "C" __global__ void reduce(const __grid_constant__ Reduce p) {
  const u32 member = threadIdx.x % TEAM;
  const u32 i = blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM;
  const bool is_one = i < p.kept.size;
  const Places<2> at = places_of(p.kept, is_one ? i : 0);
  const DTYPE* const a = p.kept.at<DTYPE>(1, at[1]);

  const u32 begin = blockIdx.y * p.piece, left = p.elements.size - begin;
  const u32 end = begin + (p.piece < left ? p.piece : left);
  Total total = R::nothing<Total>();
#pragma unroll 4
  for (u32 e = begin + member; e < end; e += TEAM) {
    total = R::step(total, as_total<Total>(a[places_of(p.elements, e)[0]]));
  }
  total = combined<TEAM>(total, [](Total x, Total y) { return R::step(x, y); });
  if (is_one && member == 0)
    *p.kept.at<OUT>(0, at[0] + blockIdx.y * p.piece_stride) = stored<OUT>(total);
}
