// out[places[j] + r] += a[j, r], in order of j, rounded once: -DDTYPE=f32 -DRANK=2.
#include "scatter.cuh"

using namespace needle;

using Add = Formula<BinaryOp::add>;
using C = Computed<DTYPE>;

extern "C" __global__ void scatter_add(const __grid_constant__ Scatter<RANK> p) {
  for_each_element(p.x, [&](Places<4> at) {
    const i64 first = at[1], place = p.place(first);
    if (first > 0 && p.place(first - 1) == place) return;
    DTYPE* const to = p.x.at<DTYPE>(0, at[0] + place);
    C total = loaded(*to);
    for (i64 j = first; j < p.count && p.place(j) == place; ++j) {
      total = Add::apply(total, loaded(*p.x.at<DTYPE>(3, at[3] + p.order(j) * p.step)));
    }
    *to = stored<DTYPE>(total);
  });
}
