// out = the place of the largest (-DIS_LARGEST=1) or smallest element of a along one axis: the
// first one, where NaN counts as the best. -DDTYPE=f32.
#include "reductions.cuh"

using namespace needle;

using C = Computed<DTYPE>;

struct ArgReduce {
  Operands<2, KEPT> kept;  // out and a, on the other axes
  i64 stride;              // of a, along the axis
  u32 count;
};

namespace needle {

struct Best {
  C value;
  u32 place;
};

ELEMENT Best better(Best x, Best y) {
  bool is_y = IS_LARGEST ? y.value > x.value : y.value < x.value;
  bool is_x = IS_LARGEST ? x.value > y.value : x.value < y.value;
  if constexpr (is_same<C, f32> || is_same<C, f64>) {
    const bool is_nan_x = x.value != x.value, is_nan_y = y.value != y.value;
    is_y = (is_y || is_nan_y) && !is_nan_x;
    is_x = (is_x || is_nan_x) && !is_nan_y;
  }
  return is_y || (!is_x && y.place < x.place) ? y : x;
}

ELEMENT Best from_lane(Best x, u32 distance) {
  return {from_lane(x.value, distance), from_lane(x.place, distance)};
}

}  // namespace needle

extern "C" __global__ void arg_reduce(const __grid_constant__ ArgReduce p) {
  const u32 member = threadIdx.x % TEAM;
  const u32 i = blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM;
  const bool is_one = i < p.kept.size;
  const Places<2> at = places_of(p.kept, is_one ? i : 0);
  const DTYPE* const a = p.kept.at<DTYPE>(1, at[1]);

  Best best = {loaded(a[0]), 0};
  for (u32 e = member; e < p.count; e += TEAM) {
    best = better(best, {loaded(a[e * p.stride]), e});
  }
  best = combined<TEAM>(best, better);
  if (is_one && member == 0) *p.kept.at<i64>(0, at[0]) = best.place;
}
