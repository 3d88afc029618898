// out[j, r] = a[places[j] + r] for parts r of a, any number of axes each: -DITEM=u32, which moves
// elements of any dtype of its size. index_places.cu makes the places.
#include "operand.cuh"

using namespace needle;

extern "C" __global__ void gather(const __grid_constant__ Operands<3, RANK> x) {  // out, places, a
  for_each_element(x, [&](Places<3> at) {
    const i64 place = *x.at<i64>(1, at[1]);
    *x.at<ITEM>(0, at[0]) = *x.at<ITEM>(2, at[2] + place);
  });
}
