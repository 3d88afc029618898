// Packing operands into tiles of bfloat16, and what tiles cannot take.
//
// A float has 24 significant bits, a bfloat16 8, so that
//
//     x = x1 + x2 + x3,   x1 = bf16(x),  x2 = bf16(x - x1),  x3 = x - x1 - x2     exactly,
//
// with |x2| <= 2^-8 |x| and |x3| <= 2^-16 |x|. Rounding is half away from zero: two instructions.
//
// A tile sums over k in any order, so long as both operands keep it: the k-th and the (k + 16)-th
// float make a pair, and no number changes its lane. bfloat16 are pairs where they lie.
#pragma once

#include "amx_tiles.h"
#include "kernels/loops.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kPanel = 2 * kSide;  // rows of A or columns of B in a panel: two tiles
constexpr int64_t kPanelStep = 2 * kTileSize;
constexpr int kMostTerms = 3;

using Terms = bf16_t* [kMostTerms];  // where each term of a tile goes

#if defined(__AVX512F__)
NEEDLE_INLINE Bits smaller_of(Bits a, Bits b) {
  return reinterpret_cast<Bits>(
      _mm512_min_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
NEEDLE_INLINE Bits larger_of(Bits a, Bits b) {
  return reinterpret_cast<Bits>(
      _mm512_max_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
#endif

// The smallest and largest magnitudes of a set of numbers, as twice the bits of floats, which
// leaves out the sign; zeros do not count.
struct Range {
  Bits low = ~Bits{}, high = {};

  NEEDLE_INLINE void add(Vec<float> x) {
    const Bits size = reinterpret_cast<Bits>(x) << 1;
    high = larger_of(high, size);
    low = smaller_of(low, size - 1);
  }
};

// Exponents of the smallest and the largest number; no numbers but zeros give 0, 0.
struct Exponents {
  int low = 0, high = 0;

  void add(const Exponents& other) {
    low = low < other.low ? low : other.low;
    high = high > other.high ? high : other.high;
  }
};

inline Exponents exponents_of(const Range& range) {
  uint32_t low = ~0u, high = 0;
  for (int i = 0; i < kSide; ++i) {
    low = range.low[i] < low ? range.low[i] : low;
    high = range.high[i] > high ? range.high[i] : high;
  }
  if (high == 0) return {};
  return {static_cast<int>((low + 1) >> 24) - 127, static_cast<int>(high >> 24) - 127};
}

// Term t of each number, in the upper half, which is taken from it.
template <int kTerms>
NEEDLE_INLINE Bits take_term(Vec<float>& x, int t) {
  const Bits bits = reinterpret_cast<Bits>(x);
  if (t == 2) return bits;  // what is left of 24 bits
  const Bits term = (bits + 0x8000) & 0xffff0000;
  if (t + 1 < kTerms) x -= reinterpret_cast<Vec<float>>(term);
  return term;
}

// The terms of 16 pairs.
template <int kTerms>
NEEDLE_INLINE void split_pairs(Vec<float> first, Vec<float> second, const Terms& to, int64_t at,
                               Range& range) {
  range.add(first);
  range.add(second);
#pragma GCC unroll 3
  for (int t = 0; t < kTerms; ++t) {
    const Bits low = take_term<kTerms>(first, t), high = take_term<kTerms>(second, t);
    const Bits pairs = (low >> 16) | high;
    __builtin_memcpy(to[t] + at, &pairs, sizeof pairs);
  }
}

// 16 x 16 pairs, transposed: blocks of 1, 2, 4 and 8 of them change places.
inline void transpose_pairs(bf16_t* to, const bf16_t* from) {
  Bits row[kSide];
  for (int i = 0; i < kSide; ++i)
    row[i] = load(reinterpret_cast<const uint32_t*>(from) + i * kSide);
  const auto exchange = [&](auto block) {
    constexpr int kBlock = decltype(block)::value;
    Bits upper, lower;
    for (uint32_t l = 0; l < kSide; ++l) {
      const bool is_second = (l & kBlock) != 0;
      upper[l] = is_second ? kSide + l - kBlock : l;
      lower[l] = is_second ? kSide + l : l + kBlock;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) {
      if ((i & kBlock) != 0) continue;
      const Bits a = row[i], b = row[i + kBlock];
      row[i] = __builtin_shuffle(a, b, upper);
      row[i + kBlock] = __builtin_shuffle(a, b, lower);
    }
  };
  exchange(std::integral_constant<int, 1>());
  exchange(std::integral_constant<int, 2>());
  exchange(std::integral_constant<int, 4>());
  exchange(std::integral_constant<int, 8>());
  for (int i = 0; i < kSide; ++i) store(reinterpret_cast<uint32_t*>(to) + i * kSide, row[i]);
}

// Packs an operand of E, float or bf16_t, as kTerms bfloat16 each: lines are rows of A or columns
// of B. Tiles hold a line's pairs in a row (A), or in a column (B).
template <class E, int kTerms>
class Packer {
 public:
  // Strides in bytes.
  Packer(const char* data, int64_t line_stride, int64_t k_stride, bool by_columns)
      : data_(data), line_stride_(line_stride), k_stride_(k_stride), by_columns_(by_columns) {}

  // `count` lines, up to kPanel, from k0 on: for each kStep and term two tiles, zeros beyond.
  Exponents pack(bf16_t* to, int64_t line, int64_t count, int64_t k0, int64_t depth) const {
    Range range;
    for (int64_t k = 0; k < depth; k += kStep, to += kTerms * kPanelStep) {
      for (int64_t half = 0; half < kPanel; half += kSide) {
        Terms tiles;
        for (int t = 0; t < kTerms; ++t) tiles[t] = to + t * kPanelStep + half * kStep;
        pack_tile(tiles, at(line + half, k0 + k), max_of(0, min_of(kSide, count - half)),
                  min_of(kStep, depth - k), range);
      }
    }
    return exponents_of(range);
  }

  // Brings what pack will read nearer, to the second-level cache.
  void prefetch(int64_t line, int64_t count, int64_t k0, int64_t depth) const {
    constexpr int64_t kCacheLine = 64 / kSize;
    const bool along_k = length_of(k_stride_) <= length_of(line_stride_);
    const int64_t i_step = along_k ? 1 : kCacheLine, k_step = along_k ? kCacheLine : 1;
    for (int64_t i = 0; i < count; i += i_step) {
      for (int64_t k = 0; k < depth; k += k_step) __builtin_prefetch(at(line + i, k0 + k), 0, 2);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(E);

  const char* at(int64_t line, int64_t k) const {
    return data_ + line * line_stride_ + k * k_stride_;
  }

  void pack_tile(const Terms& tiles, const char* from, int64_t lines, int64_t depth,
                 Range& range) const {
    const bool is_whole = lines == kSide && depth == kStep;
    if (is_whole && k_stride_ == kSize) return pack_lines(tiles, from, line_stride_, range);
    if (is_whole && line_stride_ == kSize) return pack_across(tiles, from, range);
    E block[kSide][kStep] = {};
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t k = 0; k < depth; ++k) {
        __builtin_memcpy(&block[i][k], from + i * line_stride_ + k * k_stride_, kSize);
      }
    }
    pack_lines(tiles, reinterpret_cast<const char*>(block), kStep * kSize, range);
  }

  // From lines whose k are contiguous.
  void pack_lines(const Terms& tiles, const char* from, int64_t line_stride, Range& range) const {
    alignas(64) bf16_t buffer[kTerms][kTileSize];
    Terms to;
    for (int t = 0; t < kTerms; ++t) to[t] = by_columns_ ? buffer[t] : tiles[t];
    Range seen = range;
    for (int64_t i = 0; i < kSide; ++i, from += line_stride) {
      if constexpr (is_same<E, float>) {
        const float* const line = reinterpret_cast<const float*>(from);
        split_pairs<kTerms>(load(line), load(line + kSide), to, i * kStep, seen);
      } else {
        __builtin_memcpy(to[0] + i * kStep, from, kStep * kSize);
      }
    }
    range = seen;
    if (by_columns_) transpose_all(tiles, to);
  }

  // From lines that are contiguous for each k.
  void pack_across(const Terms& tiles, const char* from, Range& range) const {
    alignas(64) bf16_t buffer[kTerms][kTileSize];
    Terms to;
    for (int t = 0; t < kTerms; ++t) to[t] = by_columns_ ? tiles[t] : buffer[t];
    Range seen = range;
    for (int64_t p = 0; p < kSide; ++p) {
      if constexpr (is_same<E, float>) {
        const char* const first = from + p * k_stride_;
        const char* const second = first + kSide * k_stride_;
        split_pairs<kTerms>(load(reinterpret_cast<const float*>(first)),
                            load(reinterpret_cast<const float*>(second)), to, p * kStep, seen);
      } else {
        const Bits pairs = widened_bits(from + 2 * p * k_stride_) |
                           widened_bits(from + (2 * p + 1) * k_stride_) << 16;
        __builtin_memcpy(to[0] + p * kStep, &pairs, sizeof pairs);
      }
    }
    range = seen;
    if (!by_columns_) transpose_all(tiles, to);
  }

  // 16 numbers of 16 bits.
  NEEDLE_INLINE static Bits widened_bits(const char* from) {
    typedef uint16_t Halves __attribute__((vector_size(32)));
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof halves);
    return __builtin_convertvector(halves, Bits);
  }

  static void transpose_all(const Terms& tiles, const Terms& from) {
    for (int t = 0; t < kTerms; ++t) transpose_pairs(tiles[t], from[t]);
  }

  const char* data_;
  int64_t line_stride_, k_stride_;
  bool by_columns_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
