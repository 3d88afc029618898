// Sort chunks of lines, of CHUNK elements, by keys: -DDTYPE=f32 -DRANK=1. A block merges runs of 1,
// 2, 4, ... in shared memory: every number finds its place in the union of two runs by a search in
// the other one. What is left are the keys and places of each chunk, for sort_merge.cu; or, if one
// chunk is a whole line, its order.
#include "order.cuh"

using namespace needle;

constexpr u32 CHUNK = 1024;

struct SortChunks {
  char* keys;           // u64, a line after the other
  char* indices;        // u32
  Operands<2, RANK> x;  // the first of out (i64) and of a for every line
  i64 out_step, a_step;
  u32 length, wanted;  // of lines, and of out's
  u32 descending;
};

extern "C" __global__ void sort_chunks(const __grid_constant__ SortChunks p) {
  __shared__ u64 keys[2][CHUNK];
  __shared__ u32 indices[2][CHUNK];
  const u32 chunks = (p.length + CHUNK - 1) / CHUNK;
  const u32 line = blockIdx.x / chunks, first = blockIdx.x % chunks * CHUNK;
  const u32 n = min(CHUNK, p.length - first);
  const Places<2> at = places_of(p.x, line);
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
    const u64 key = key_of(loaded(*p.x.at<DTYPE>(1, at[1] + (first + i) * p.a_step)));
    keys[0][i] = p.descending != 0 ? ~key : key;
    indices[0][i] = first + i;
  }
  int now = 0;
  for (u32 length = 1; length < n; length *= 2, now ^= 1) {
    __syncthreads();
    const auto sorted = [&](u32 i) { return keys[now][i]; };
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
      const u64 key = keys[now][i];
      const u32 to = merged_place(sorted, n, length, i, key);
      keys[now ^ 1][to] = key;
      indices[now ^ 1][to] = indices[now][i];
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
    if (chunks > 1) {
      const u64 to = u64{line} * p.length + first + i;
      reinterpret_cast<u64*>(p.keys)[to] = keys[now][i];
      reinterpret_cast<u32*>(p.indices)[to] = indices[now][i];
    } else if (i < p.wanted) {
      *p.x.at<i64>(0, at[0] + i * p.out_step) = indices[now][i];
    }
  }
}
