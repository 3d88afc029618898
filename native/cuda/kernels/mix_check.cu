// Is a sparse matrix well formed? If a number is less than the one before (-DSTARTS) or not in
// [0, limit], `outside` becomes 1.
#include "operand.cuh"

using namespace needle;

struct MixCheck {
  Operands<2, 1> x;  // outside (one number), and the numbers
  i64 limit;
};

extern "C" __global__ void mix_check(const __grid_constant__ MixCheck p) {
  for_each_element(p.x, [&](Places<2> at) {
    const i64 number = *p.x.at<i64>(1, at[1]);
    bool is_outside = number < 0 || number > p.limit;
#ifdef STARTS
    if (at[1] != 0) is_outside |= number < *p.x.at<i64>(1, at[1] - p.x.strides[1][0]);
#endif
    if (is_outside) atomicOr(p.x.at<u32>(0, 0), 1u);
  });
}
