// out[places[j] + r] = a[j, r], where of several the last one wins: -DITEM=u32 -DRANK=2.
#include "scatter.cuh"

using namespace needle;

extern "C" __global__ void scatter_set(const __grid_constant__ Scatter<RANK> p) {
  for_each_element(p.x, [&](Places<4> at) {
    const i64 j = at[1], place = p.place(j);
    if (j + 1 < p.count && p.place(j + 1) == place) return;
    *p.x.at<ITEM>(0, at[0] + place) = *p.x.at<ITEM>(3, at[3] + p.order(j) * p.step);
  });
}
