// What the machine can do at most: multiply-adds in AVX-512 registers, AMX tiles, memory traffic.
// Every function returns work done; limits.py divides by the time. Compiled when it is needed.

#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Floating-point operations of `rounds` rounds of 24 independent chains of multiply-adds.
__attribute__((target("avx512f"))) double fma_work(int64_t rounds) {
  enum { kChains = 24 };
  __m512 chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = _mm512_set1_ps((float)c);
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) chain[c] = _mm512_fmadd_ps(chain[c], factor, factor);
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += _mm512_reduce_add_ps(chain[c]);
  return (sum == sum) * 2.0 * 16 * kChains * rounds;
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
__attribute__((target("avx512f"))) double add_work(float* y, const float* x, int64_t n,
                                                   int64_t rounds) {
  for (int64_t r = 0; r < rounds; ++r) {
    for (int64_t i = 0; i + 16 <= n; i += 16) {
      _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    }
  }
  return 12.0 * n * rounds;
}

// Bytes read by the sum of n floats.
__attribute__((target("avx512f"))) double sum_work(const float* x, int64_t n, int64_t rounds) {
  __m512 sums[8];
  for (int s = 0; s < 8; ++s) sums[s] = _mm512_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r) {
    for (int64_t i = 0; i + 128 <= n; i += 128) {
#pragma GCC unroll 8
      for (int s = 0; s < 8; ++s) sums[s] = _mm512_add_ps(sums[s], _mm512_loadu_ps(x + i + 16 * s));
    }
  }
  float sum = 0;
  for (int s = 0; s < 8; ++s) sum += _mm512_reduce_add_ps(sums[s]);
  return (sum == sum) * 4.0 * n * rounds;
}
