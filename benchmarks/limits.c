// What the machine can do at most: multiply-adds in registers, AMX tiles, memory traffic. Every
// function returns work done; limits.py divides by the time, and compiles this for its vectors.

#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__AVX512F__)
enum { kBytes = 64, kChains = 24 };
#else
enum { kBytes = 32, kChains = 12 };  // AVX2: of 16 registers
#endif
enum { kLanes = kBytes / 4 };
typedef float Vec __attribute__((vector_size(kBytes), aligned(4)));

static int is_number(Vec v) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += v[lane];
  return sum == sum;
}

// Floating-point operations of `rounds` rounds of independent chains of multiply-adds.
double fma_work(int64_t rounds) {
  Vec chain[kChains], sum = {0};
  for (int c = 0; c < kChains; ++c) chain[c] = (float)c - (Vec){0};
  const Vec factor = 0.5f - (Vec){0};
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) chain[c] = chain[c] * factor + factor;
  }
  for (int c = 0; c < kChains; ++c) sum += chain[c];
  return is_number(sum) * 2.0 * kLanes * kChains * rounds;
}

// The same of `rounds` rounds of 4 products of bfloat16 tiles, (16 x 32) @ (32 x 16).
__attribute__((target("amx-tile,amx-bf16"))) double amx_work(int64_t rounds) {
  const long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return 0;
  volatile struct {  // volatile: GCC does not see that loading the configuration reads it
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_per_row[16];
    uint8_t rows[16];
  } config = {.palette = 1};
  for (int t = 0; t < 8; ++t) {
    config.bytes_per_row[t] = 64;
    config.rows[t] = 16;
  }
  _tile_loadconfig((const void*)&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4 * 2.0 * 16 * 16 * 32 * rounds;
}

// Bytes moved by y = x + y over n floats: two reads and one write.
double add_work(float* y, const float* x, int64_t n, int64_t rounds) {
  for (int64_t r = 0; r < rounds; ++r) {
    for (int64_t i = 0; i + kLanes <= n; i += kLanes) *(Vec*)(y + i) += *(const Vec*)(x + i);
  }
  return 12.0 * n * rounds;
}

// Bytes read by the sum of n floats.
double sum_work(const float* x, int64_t n, int64_t rounds) {
  Vec sums[8] = {{0}};
  for (int64_t r = 0; r < rounds; ++r) {
    for (int64_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
#pragma GCC unroll 8
      for (int s = 0; s < 8; ++s) sums[s] += *(const Vec*)(x + i + kLanes * s);
    }
  }
  for (int s = 1; s < 8; ++s) sums[0] += sums[s];
  return is_number(sums[0]) * 4.0 * n * rounds;
}
