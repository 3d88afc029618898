// out[..., j, ...] = the sum of weights[e] a[..., places[e], ...] over starts[j] <= e <
// starts[j+1], a product with a sparse matrix by rows: -DDTYPE=f32 -DRANK=2. Added in order, each
// product rounded.
#include "operand.cuh"

using namespace needle;

struct Mix {
  Operands<5, RANK> x;  // out, a but for its axis, starts at j, places, weights
  i64 a_step, start_step, place_step, weight_step;
};

extern "C" __global__ void mix(const __grid_constant__ Mix p) {
  for_each_element(p.x, [&](Places<5> at) {
    const i64 begin = *p.x.at<i64>(2, at[2]), end = *p.x.at<i64>(2, at[2] + p.start_step);
    DTYPE sum = 0;
    for (i64 e = begin; e < end; ++e) {
      const i64 place = *p.x.at<i64>(3, e * p.place_step);
      const DTYPE weight = *p.x.at<DTYPE>(4, e * p.weight_step);
      const DTYPE term = weight * *p.x.at<DTYPE>(1, at[1] + place * p.a_step);
      sum = e == begin ? term : sum + term;
    }
    *p.x.at<DTYPE>(0, at[0]) = sum;
  });
}
