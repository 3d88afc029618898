// shift (..., T, 1) = Σ g y - g_log, what attention's adjoint subtracts from every query's scores':
// -DDTYPE=f32 -DRANK=2. A warp sums up a row.
#include "attention.cuh"

using namespace needle;

using S = Computed<DTYPE>;

struct AttentionShift {
  Operands<4, RANK> x;  // shift, g, y, g_log over all axes but the last
  i64 g_step, y_step;
  u32 width;
};

extern "C" __global__ void attention_shift(const __grid_constant__ AttentionShift p) {
  const u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= p.x.size) return;
  const Places<4> at = places_of(p.x, row);
  S sum = 0;
  for (u32 e = lane; e < p.width; e += 32) {
    const S g = loaded(*p.x.at<DTYPE>(1, at[1] + e * p.g_step));
    const S y = loaded(*p.x.at<DTYPE>(2, at[2] + e * p.y_step));
    sum = multiply_add(g, y, sum);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane == 0) *p.x.at<S>(0, at[0]) = sum - *p.x.at<S>(3, at[3]);
}
