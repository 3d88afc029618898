// places[j] = i1[j] stride1 + i2[j] stride2 + ..., where index arrays point to in an array, in
// elements: -DINDICES=2 -DRANK=1. Negative indices count from the end. If one has no place on its
// axis, `outside` becomes 1.
#include "operand.cuh"

using namespace needle;

struct IndexPlaces {
  Operands<INDICES + 2, RANK> x;  // places, outside (one number), and the indices
  i64 strides[INDICES], sizes[INDICES];
};

extern "C" __global__ void index_places(const __grid_constant__ IndexPlaces p) {
  for_each_element(p.x, [&](Places<INDICES + 2> at) {
    i64 place = 0;
    bool is_outside = false;
#pragma unroll
    for (int k = 0; k < INDICES; ++k) {
      const i64 index = *p.x.at<i64>(2 + k, at[2 + k]), size = p.sizes[k];
      is_outside |= index < -size || index >= size;
      place += (index < 0 ? index + size : index) * p.strides[k];
    }
    *p.x.at<i64>(0, at[0]) = place;
    if (is_outside) atomicOr(p.x.at<u32>(1, 0), 1u);
  });
}
