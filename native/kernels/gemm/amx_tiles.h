// The tile registers of AMX: eight tiles of 16 rows of 64 bytes, of floats or of pairs of bfloat16.
// Where vectors are only made as wide as AVX-512's (NEEDLE_WIDE), so are these, from memory and
// loops: what is built on tiles is tested on any machine.
#pragma once

#include <cstdint>

#include "kernels/simd/vec.h"

#if !defined(NEEDLE_WIDE)
#include <immintrin.h>
#endif

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kSide = 16;                 // rows of a tile, and its floats or pairs in a row
constexpr int64_t kStep = 2 * kSide;          // k in a product of tiles
constexpr int64_t kTileSize = kSide * kStep;  // in bfloat16

using Bits = Vec<uint32_t>;

#if defined(NEEDLE_WIDE)

struct Tile {
  Bits rows[kSide];
};
thread_local Tile tiles[8];

struct TileConfiguration {
  TileConfiguration() {}
};

template <int kTile>
void tile_zero() {
  tiles[kTile] = {};
}

template <int kTile>
void tile_load(const void* from, int64_t stride) {
  for (int64_t i = 0; i < kSide; ++i) {
    __builtin_memcpy(&tiles[kTile].rows[i], static_cast<const char*>(from) + i * stride, 64);
  }
}

template <int kTile>
void tile_store(void* to, int64_t stride) {
  for (int64_t i = 0; i < kSide; ++i) {
    __builtin_memcpy(static_cast<char*>(to) + i * stride, &tiles[kTile].rows[i], 64);
  }
}

// Numbers below 2^-126 are zeros for tiles.
inline Vec<float> flushed(Vec<float> x) {
  return (x > -0x1p-126f) & (x < 0x1p-126f) ? Vec<float>{} : x;
}
inline Vec<float> lower_half(Bits pairs) { return reinterpret_cast<Vec<float>>(pairs << 16); }
inline Vec<float> upper_half(Bits pairs) {
  return reinterpret_cast<Vec<float>>(pairs & 0xffff0000);
}

// As the instruction adds: products of even and of odd k apart, their sum to the tile.
template <int kSum, int kA, int kB>
void tile_multiply() {
  Vec<float> lower[kSide], upper[kSide];
  for (int64_t p = 0; p < kSide; ++p) {
    lower[p] = flushed(lower_half(tiles[kB].rows[p]));
    upper[p] = flushed(upper_half(tiles[kB].rows[p]));
  }
  for (int64_t i = 0; i < kSide; ++i) {
    const Vec<float> a_lower = flushed(lower_half(tiles[kA].rows[i]));
    const Vec<float> a_upper = flushed(upper_half(tiles[kA].rows[i]));
    Vec<float> even = {}, odd = {};
    for (int64_t p = 0; p < kSide; ++p) {
      even = flushed(even + a_lower[p] * lower[p]);  // the product is exact: 16 bits
      odd = flushed(odd + a_upper[p] * upper[p]);
    }
    const Vec<float> before = reinterpret_cast<Vec<float>>(tiles[kSum].rows[i]);
    tiles[kSum].rows[i] = reinterpret_cast<Bits>(flushed(before + flushed(even + odd)));
  }
}

#else

// The shapes of the tiles, as the instructions take them.
struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Not a local: GCC takes the instruction to read its first eight bytes only.
constexpr TileShapes kShapes = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#pragma GCC push_options
#pragma GCC target("amx-tile")

// All eight tiles have 16 rows of 64 bytes, in this thread, for as long as this lives. Shapes that
// another library has set are put back: it may rely on them.
class TileConfiguration {
 public:
  TileConfiguration() {
    _tile_storeconfig(&before_);
    _tile_loadconfig(&kShapes);
  }
  ~TileConfiguration() { before_.palette == 0 ? _tile_release() : _tile_loadconfig(&before_); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;

 private:
  TileShapes before_;
};

#pragma GCC pop_options

// Instructions, as the intrinsics take literals only, not a template's numbers.
template <int kTile>
NEEDLE_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// Rows lie `stride` bytes apart.
template <int kTile>
NEEDLE_INLINE void tile_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
NEEDLE_INLINE void tile_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

// sum (16 x 16 floats) += a (16 x 32) b (32 x 16), in 16 cycles. Row p of b holds pairs, k = 2 p
// and 2 p + 1.
template <int kSum, int kA, int kB>
NEEDLE_INLINE void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

#endif

}  // namespace
}  // namespace needle::NEEDLE_ISA
