// out = number: -DDTYPE=f32.
#include "operand.cuh"

using namespace needle;

struct Fill {
  Operands<1, RANK> x;
  Number number;
};

extern "C" __global__ void fill(const __grid_constant__ Fill p) {
  const DTYPE number = p.number.stored_as<DTYPE>();
  for_each_element(p.x, [&](Places<1> at) { *p.x.at<DTYPE>(0, at[0]) = number; });
}
