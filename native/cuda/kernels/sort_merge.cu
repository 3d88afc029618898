// Merge sorted runs of lines two by two: -DRANK=1. The last merge writes the order itself.
#include "order.cuh"

using namespace needle;

struct SortMerge {
  char *from_keys, *from_indices, *to_keys, *to_indices;  // u64 and u32, a line after the other
  Operands<1, RANK> x;                                    // the first of out (i64) for every line
  i64 out_step;
  u32 lines, length, wanted, run, is_last;
};

extern "C" __global__ void sort_merge(const __grid_constant__ SortMerge p) {
  const u32 blocks = (p.length + blockDim.x - 1) / blockDim.x;
  const u32 line = blockIdx.x / blocks, i = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  if (i >= p.length) return;
  const u64* const keys = reinterpret_cast<const u64*>(p.from_keys) + u64{line} * p.length;
  const u64 key = keys[i];
  const u32 index = reinterpret_cast<const u32*>(p.from_indices)[u64{line} * p.length + i];
  const auto sorted = [&](u32 j) { return keys[j]; };
  const u32 to = merged_place(sorted, p.length, p.run, i, key);
  if (p.is_last != 0) {
    if (to < p.wanted) *p.x.at<i64>(0, places_of(p.x, line)[0] + to * p.out_step) = index;
  } else {
    reinterpret_cast<u64*>(p.to_keys)[u64{line} * p.length + to] = key;
    reinterpret_cast<u32*>(p.to_indices)[u64{line} * p.length + to] = index;
  }
}
