// out = a where cond else b: -DDTYPE=f32.
#include "operand.cuh"

using namespace needle;

extern "C" __global__ void where(const __grid_constant__ Operands<4, RANK> x) {
  for_each_element(x, [&](Places<4> at) {
    const bool condition = x.at<bool_t>(1, at[1])->byte != 0;
    *x.at<DTYPE>(0, at[0]) = condition ? *x.at<DTYPE>(2, at[2]) : *x.at<DTYPE>(3, at[3]);
  });
}
