// out = a, cast: -DOUT=f32 -DDTYPE=f16_t.
#include "operand.cuh"

using namespace needle;

extern "C" __global__ void copy(const __grid_constant__ Operands<2, RANK> x) {
  for_each_element(
      x, [&](Places<2> at) { *x.at<OUT>(0, at[0]) = copied<OUT>(*x.at<DTYPE>(1, at[1])); });
}
