// Random numbers from Philox 4x32-10, the same bits as on the CPU (kernels/elementwise/random.cc):
// -DDTYPE=f32 -DNAME=uniform, or normal. With -DCOUNTER, seed and offset are read from memory.
#include "operand.cuh"
#include "philox.cuh"

using namespace needle;

struct Random {
  char* out;      // compact
  char* counter;  // two i64: seed and offset
  u64 seed, offset;
  u32 size;
};

constexpr bool IS_NORMAL = RandomKind::NAME == RandomKind::normal;
constexpr u32 WORDS = IS_NORMAL || is_same<DTYPE, f64> ? 2 : 1;  // of an element

extern "C" __global__ void random(const __grid_constant__ Random p) {
#ifdef COUNTER
  const u64* const counter = reinterpret_cast<const u64*>(p.counter);
  const u64 seed = counter[0], offset = counter[1];
#else
  const u64 seed = p.seed, offset = p.offset;
#endif
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.size) return;
  const u64 first = (offset + i) * WORDS;
  const Philox block = philox(seed, first / 4);
  const u32 lane = first % 4;
  const u32 word = block.word(lane), second = WORDS == 2 ? block.word(lane | 1) : 0;
  reinterpret_cast<DTYPE*>(p.out)[i] =
      IS_NORMAL ? normal<DTYPE>(word, second) : uniform<DTYPE>(word, second);
}
