// out = a, cast: -DOUT=f32 -DDTYPE=f16_t.
#include "operand.cuh"

using namespace needle;

extern "C" __global__ void copy(const __grid_constant__ Operands<2, RANK> x) {
  for_each_element(x, [&](auto at) {  // a template, which drops the other branch
    const DTYPE a = *x.at<DTYPE>(1, at[1]);
    if constexpr (is_same<OUT, DTYPE>) {
      *x.at<OUT>(0, at[0]) = a;
    } else {
      *x.at<OUT>(0, at[0]) = stored<OUT>(loaded(a));
    }
  });
}
