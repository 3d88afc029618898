// out = the sums of a product that was made in parts, added up in their order:
// -DOUT=f32 -DLEFT=f32 -DRANK=1. matmul.cu and the convolutions leave the parts.
#include "product.cuh"

using namespace needle;

using S = Sum<LEFT>;

struct ProductParts {
  Operands<2, RANK> x;  // out, the first part
  i64 part_stride;
  u32 parts;
};

extern "C" __global__ void product_parts(const __grid_constant__ ProductParts p) {
  for_each_element(p.x, [&](Places<2> at) {
    const S* part = p.x.at<S>(1, at[1]);
    S sum = 0;
    for (u32 i = 0; i < p.parts; ++i) sum += part[i * p.part_stride];
    *p.x.at<OUT>(0, at[0]) = stored<OUT>(sum);
  });
}
