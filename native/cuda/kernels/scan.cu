// out = the running total OP of a along one axis: -DOP=sum -DDTYPE=f32 -DOUT=f32. A team goes along
// its line, TEAM elements at a time.
#include "reductions.cuh"

using namespace needle;

using R = Reduction<ReduceOp::OP>;
using Total = typename TotalOf<R::kKind, OUT>::Type;

struct Scan {
  Operands<2, KEPT> kept;  // out and a, on the other axes
  i64 strides[2];          // along the axis
  u32 count;
};

// The total of this thread's value and those of all threads before it in the block. Between two
// calls there is a barrier.
ELEMENT Total of_threads_up_to_this(Total x) {
  __shared__ Total of_warps[THREADS / WARP];
  const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (u32 distance = 1; distance < WARP; distance *= 2) {
    const Total before = __shfl_up_sync(0xffffffffu, x, distance);
    if (lane >= distance) x = R::step(before, x);
  }
  if (lane == WARP - 1) of_warps[warp] = x;
  __syncthreads();
  Total before = R::nothing<Total>();
  for (u32 w = 0; w < warp; ++w) before = R::step(before, of_warps[w]);
  return R::step(before, x);
}

extern "C" __global__ void scan(const __grid_constant__ Scan p) {
  const u32 member = threadIdx.x % TEAM;
  const u32 i = blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM;
  const bool is_one = i < p.kept.size;
  const Places<2> at = places_of(p.kept, is_one ? i : 0);
  OUT* const out = p.kept.at<OUT>(0, at[0]);
  const DTYPE* const a = p.kept.at<DTYPE>(1, at[1]);

  Total total = R::nothing<Total>();
  for (u32 begin = 0; begin < p.count; begin += TEAM) {
    const u32 e = begin + member;
    const bool is_element = is_one && e < p.count;
    Total x = is_element ? as_total<Total>(a[e * p.strides[1]]) : R::nothing<Total>();
    if constexpr (TEAM > 1) {
      __shared__ Total last;
      x = R::step(total, of_threads_up_to_this(x));
      if (member == TEAM - 1) last = x;
      __syncthreads();
      total = last;
    } else {
      total = x = R::step(total, x);
    }
    if (is_element) out[e * p.strides[0]] = stored<OUT>(x);
  }
}
