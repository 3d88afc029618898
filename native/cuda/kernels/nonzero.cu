// The places of true elements, counted in C order: -DDTYPE=f32 -DRANK=1. A block looks at as many
// elements as it has threads. Without -DSTARTS it counts; with it, which says where its places
// begin, it writes them.
#include "operand.cuh"

using namespace needle;

struct Nonzero {
  char* found;          // i64: for each block its count, or the places
  char* starts;         // i64: the counts, added up
  Operands<1, RANK> x;  // a
};

extern "C" __global__ void nonzero(const __grid_constant__ Nonzero p) {
  __shared__ u32 of_warp[32];
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool is_true =
      i < p.x.size && loaded(*p.x.at<DTYPE>(0, places_of(p.x, min(i, p.x.size - 1))[0])) != 0;
  const u32 trues = __ballot_sync(0xffffffff, is_true);
  if (lane == 0) of_warp[warp] = __popc(trues);
  __syncthreads();
  u32 before = __popc(trues & ((1u << lane) - 1)), all = 0;
  for (u32 w = 0; w < blockDim.x / 32; ++w) {
    before += w < warp ? of_warp[w] : 0;
    all += of_warp[w];
  }
  i64* const found = reinterpret_cast<i64*>(p.found);
#ifdef STARTS
  const i64 end = reinterpret_cast<const i64*>(p.starts)[blockIdx.x];
  if (is_true) found[end - all + before] = i;
#else
  if (threadIdx.x == 0) found[blockIdx.x] = all;
#endif
}
