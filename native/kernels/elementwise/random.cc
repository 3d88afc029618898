// Random numbers from Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011). A word depends on the seed and its position only, so any piece can be computed alone.
#include "core/parallel.h"
#include "kernels/entries.h"
#include "kernels/math/elements.h"
#include "kernels/simd/convert.h"
#include "kernels/simd/vec.h"
#include "kernels/tile/tile.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace needle::NEEDLE_ISA {
namespace {

constexpr int kWords = 512;        // computed at a time
constexpr int64_t kPiece = 16384;  // elements in one piece of parallel_for

// Lanes of 64 bits, of which the lower half is a word; the upper half is anything.
typedef uint64_t Lanes64 __attribute__((vector_size(kVecBytes)));
constexpr int kLanes64 = kVecBytes / 8;

// Products of words, in 64 bits. Compilers make three multiplications of what they are told to.
NEEDLE_INLINE Lanes64 product(Lanes64 words, uint32_t factor) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes64>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(words), _mm512_set1_epi64(factor)));
#elif defined(__AVX2__) && !defined(NEEDLE_WIDE)
  return reinterpret_cast<Lanes64>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(words), _mm256_set1_epi64x(factor)));
#elif defined(__SSE2__) && !defined(NEEDLE_WIDE)
  return reinterpret_cast<Lanes64>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(words), _mm_set1_epi64x(factor)));
#else
  return (words & 0xFFFFFFFF) * uint64_t{factor};
#endif
}

// The order of counters in lanes that lets words end up side by side: 0, n/2, 1, n/2 + 1, ...
constexpr int place_of_lane(int lane) { return lane / 2 + lane % 2 * (kLanes64 / 2); }

// The words of kVecs vectors of counters, whose lanes are in that order. Several at once, as rounds
// wait for each other: with four vectors of AVX-512 0.36 ns a word, with two 0.48, with one 0.58.
template <int kVecs>
NEEDLE_INLINE void philox_rounds(uint64_t seed, const Lanes64* counters, uint32_t* words) {
  Lanes64 x0[kVecs], x1[kVecs], x2[kVecs] = {}, x3[kVecs] = {}, even, odd;
  for (int v = 0; v < kVecs; ++v) {
    x0[v] = counters[v];
    x1[v] = counters[v] >> 32;
  }
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    for (int v = 0; v < kVecs; ++v) {
      const Lanes64 p0 = product(x0[v], 0xD2511F53), p1 = product(x2[v], 0xCD9E8D57);
      x0[v] = (p1 >> 32) ^ x1[v] ^ static_cast<uint64_t>(key0);
      x1[v] = p1;
      x2[v] = (p0 >> 32) ^ x3[v] ^ static_cast<uint64_t>(key1);
      x3[v] = p0;
    }
  }
  for (int k = 0; k < kLanes64; ++k) {
    even[k] = static_cast<uint64_t>(k / 2 * 2 + k % 2 * kLanes64);
    odd[k] = even[k] + 1;
  }
  for (int v = 0; v < kVecs; ++v, words += 4 * kLanes64) {
    const Lanes64 low = (x0[v] & 0xFFFFFFFF) | x1[v] << 32;
    const Lanes64 high = (x2[v] & 0xFFFFFFFF) | x3[v] << 32;
    const Lanes64 both[2] = {__builtin_shuffle(low, high, even), __builtin_shuffle(low, high, odd)};
    __builtin_memcpy(words, both, sizeof both);
  }
}

// The words of n counters from `first` on, and some more up to a whole vector: word w of the stream
// is word w % 4 of counter w / 4.
void philox(uint64_t seed, uint64_t first, int64_t n, uint32_t* words) {
  constexpr int kVecs = 4;
  Lanes64 counters[kVecs];
  for (int v = 0; v < kVecs; ++v) {
    for (int k = 0; k < kLanes64; ++k) {
      counters[v][k] = first + static_cast<uint64_t>(v * kLanes64 + place_of_lane(k));
    }
  }
  int64_t i = 0;
  for (; i + kVecs * kLanes64 <= n; i += kVecs * kLanes64) {
    philox_rounds<kVecs>(seed, counters, words + 4 * i);
    for (int v = 0; v < kVecs; ++v) counters[v] += kVecs * kLanes64;
  }
  for (; i < n; i += kLanes64) {
    philox_rounds<1>(seed, counters, words + 4 * i);
    counters[0] += kLanes64;
  }
}

constexpr float kTwoToMinus24 = 1.0f / (1 << 24);

// In [0, 1). Halves drop the bits below their mantissa, since rounding could reach 1.
template <class T>
NEEDLE_INLINE T uniform(const uint32_t* word) {
  if constexpr (is_same<T, double>) {
    const uint64_t bits = (uint64_t{word[0]} << 32 | word[1]) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
  }
  const float x = static_cast<float>(static_cast<int32_t>(word[0] >> 8)) * kTwoToMinus24;
  if constexpr (is_same<T, bf16_t>) {
    return {static_cast<uint16_t>(bits_f32(x) >> 16)};
  } else if constexpr (is_same<T, f16_t>) {
    const f16_t nearest = narrow<f16_t>(x);
    return {static_cast<uint16_t>(nearest.bits - (widen(nearest) > x ? 1 : 0))};
  } else {
    return static_cast<T>(x);
  }
}

// Box and Muller's: sqrt(-2 ln u1) cos(2 pi u2), u1 in (0, 1], u2 in [0, 1).
NEEDLE_INLINE double first_uniform(const uint32_t* word) {
  return static_cast<double>(static_cast<int32_t>((word[0] >> 8) + 1)) * 0x1p-24;
}

NEEDLE_INLINE double second_uniform(const uint32_t* word) {
  return static_cast<double>(static_cast<int32_t>(word[1] >> 8)) * 0x1p-24;
}

NEEDLE_INLINE void normals(double* out, int64_t n, const uint32_t* words) {
  constexpr double kTwoPi = 6.283185307179586;
  for (int64_t i = 0; i < n; ++i) {
    const double u1 = first_uniform(words + 2 * i), u2 = second_uniform(words + 2 * i);
    out[i] = __builtin_sqrt(-2 * __builtin_log(u1)) * __builtin_cos(kTwoPi * u2);
  }
}

// The same to 1e-11, in vectors: what is left after rounding to float is one bit in thousands. With
// s = 1/4 - |u2 - 1/2|, which is exact, cos(2 pi u2) = -sin(2 pi s), and |2 pi s| <= pi / 2.
template <class T>
NEEDLE_INLINE void normals(T* out, int64_t n, const uint32_t* words) {
  constexpr double kTwoPi = 6.283185307179586, kLn2 = 0.69314718055994531;
  for (int64_t i = 0; i < n; ++i) {
    const double u1 = first_uniform(words + 2 * i), u2 = second_uniform(words + 2 * i);
    const double x = kTwoPi * (0.25 - __builtin_fabs(u2 - 0.5)), z = x * x;
    const double p = POLY7(f64, z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                           1.0 / 6227020800.0, -1.0 / 1307674368000.0);
    const double sine = x + x * z * p;
    const float y = static_cast<float>(-sine * __builtin_sqrt(-2 * kLn2 * log2_in_f64(u1)));
    out[i] = cast<T>(y);
  }
}

template <RandomOp op, class T>
void fill_random(T* out, int64_t n, uint64_t seed, uint64_t offset) {
  constexpr int kPerElement = op == RandomOp::normal || is_same<T, double> ? 2 : 1;
  alignas(64) uint32_t words[kWords];
  while (n > 0) {
    const uint64_t first = offset * kPerElement;
    const int skip = static_cast<int>(first % 4);
    const int64_t available = (kWords - skip) / kPerElement;
    const int64_t count = n < available ? n : available;
    philox(seed, first / 4, (skip + count * kPerElement + 3) / 4, words);
    if constexpr (op == RandomOp::normal) {
      normals(out, count, words + skip);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = uniform<T>(words + skip + i * kPerElement);
    }
    out += count;
    offset += static_cast<uint64_t>(count);
    n -= count;
  }
}

template <class T>
void fill_parallel(RandomOp op, const View& out, uint64_t seed, uint64_t offset) {
  parallel_for(out.size(), kPiece, [&](int64_t begin, int64_t end) {
    T* const to = reinterpret_cast<T*>(out.data) + begin;
    const uint64_t start = offset + static_cast<uint64_t>(begin);
    if (op == RandomOp::uniform) {
      fill_random<RandomOp::uniform>(to, end - begin, seed, start);
    } else {
      fill_random<RandomOp::normal>(to, end - begin, seed, start);
    }
  });
}

}  // namespace

void draw_uniforms(float* out, int64_t n, uint64_t seed, uint64_t first, int64_t step) {
  if (step == 1) return fill_random<RandomOp::uniform>(out, n, seed, first);
  uint32_t words[4 * kLanes64];
  for (int64_t i = 0; i < n; i += kLanes64) {  // a counter for each
    Lanes64 counters;
    const auto word = [&](int k) { return first + static_cast<uint64_t>((i + k) * step); };
    for (int k = 0; k < kLanes64; ++k) counters[k] = word(place_of_lane(k)) / 4;
    philox_rounds<1>(seed, &counters, words);
    for (int k = 0; k < kLanes64 && i + k < n; ++k) {
      out[i + k] = uniform<float>(words + 4 * k + word(k) % 4);
    }
  }
}

void random(RandomOp op, const View& out, uint64_t seed, uint64_t offset) {
  switch (out.dtype) {
    case DType::f32: return fill_parallel<float>(op, out, seed, offset);
    case DType::f64: return fill_parallel<double>(op, out, seed, offset);
    case DType::f16: return fill_parallel<f16_t>(op, out, seed, offset);
    case DType::bf16: return fill_parallel<bf16_t>(op, out, seed, offset);
    default: return;  // the bindings let floating dtypes pass only
  }
}

}  // namespace needle::NEEDLE_ISA
