// out = where values would go into sorted numbers: -DDTYPE=f32 -DRANK=1.
#include "order.cuh"

using namespace needle;

struct SearchSorted {
  Operands<3, RANK> x;  // out (i64), the sorted numbers (for all values), values
  i64 step;
  u32 count, right;
};

extern "C" __global__ void searchsorted(const __grid_constant__ SearchSorted p) {
  const auto sorted = [&](u32 i) { return key_of(loaded(*p.x.at<DTYPE>(1, i * p.step))); };
  for_each_element(p.x, [&](Places<3> at) {
    const u64 key = key_of(loaded(*p.x.at<DTYPE>(2, at[2])));
    *p.x.at<i64>(0, at[0]) = keys_before(sorted, p.count, key, p.right != 0);
  });
}
