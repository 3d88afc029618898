// A vector of float32 that reads like one: the functions of math.h take either. What a number
// decides with ?:, a vector decides lane by lane with choose().
#pragma once

#include "convert.h"
#include "vec.h"

namespace needle::NEEDLE_ISA {
namespace {

struct Floats {
  Vec<float> lanes;

  Floats() = default;
  NEEDLE_INLINE Floats(float x) : lanes(splat(x)) {}
  NEEDLE_INLINE Floats(Vec<float> x) : lanes(x) {}
};

using Ints = Vec<int32_t>;
using Bits = Vec<uint32_t>;

template <class F>
concept Single = is_same<F, float> || is_same<F, Floats>;

// Are products and sums fused in vectors? Elsewhere fma() takes a detour for every number.
#if defined(__FMA__) || defined(__aarch64__)
constexpr bool kFusesVectors = true;
#else
constexpr bool kFusesVectors = false;
#endif

NEEDLE_INLINE Floats operator-(Floats x) { return -x.lanes; }
NEEDLE_INLINE Floats operator+(Floats x, Floats y) { return x.lanes + y.lanes; }
NEEDLE_INLINE Floats operator-(Floats x, Floats y) { return x.lanes - y.lanes; }
NEEDLE_INLINE Floats operator*(Floats x, Floats y) { return x.lanes * y.lanes; }
NEEDLE_INLINE Floats operator/(Floats x, Floats y) { return x.lanes / y.lanes; }
NEEDLE_INLINE Ints operator<(Floats x, Floats y) { return x.lanes < y.lanes; }
NEEDLE_INLINE Ints operator>(Floats x, Floats y) { return x.lanes > y.lanes; }
NEEDLE_INLINE Ints operator==(Floats x, Floats y) { return x.lanes == y.lanes; }
NEEDLE_INLINE Ints operator!=(Floats x, Floats y) { return x.lanes != y.lanes; }

NEEDLE_INLINE Floats choose(Ints condition, Floats x, Floats y) {
  return condition ? x.lanes : y.lanes;
}
template <class T>
NEEDLE_INLINE T choose(bool condition, T x, std::type_identity_t<T> y) {
  return condition ? x : y;
}

// NaN stays NaN.
NEEDLE_INLINE float at_most(float x, float limit) { return x > limit ? limit : x; }
NEEDLE_INLINE float at_least(float x, float limit) { return x < limit ? limit : x; }
NEEDLE_INLINE Floats at_most(Floats x, float limit) { return smaller_of(splat(limit), x.lanes); }
NEEDLE_INLINE Floats at_least(Floats x, float limit) { return larger_of(splat(limit), x.lanes); }

NEEDLE_INLINE Bits bits_of(Floats x) { return reinterpret_cast<Bits>(x.lanes); }
NEEDLE_INLINE Floats float_of(Bits bits) { return reinterpret_cast<Vec<float>>(bits); }
NEEDLE_INLINE int32_t as_signed(uint32_t bits) { return static_cast<int32_t>(bits); }
NEEDLE_INLINE Ints as_signed(Bits bits) { return reinterpret_cast<Ints>(bits); }
NEEDLE_INLINE uint32_t as_bits(int32_t n) { return static_cast<uint32_t>(n); }
NEEDLE_INLINE Bits as_bits(Ints n) { return reinterpret_cast<Bits>(n); }
NEEDLE_INLINE float as_float(int32_t n) { return static_cast<float>(n); }
NEEDLE_INLINE Floats as_float(Ints n) { return __builtin_convertvector(n, Vec<float>); }

NEEDLE_INLINE float magnitude_of(float x) { return __builtin_fabsf(x); }
NEEDLE_INLINE Floats magnitude_of(Floats x) { return float_of(bits_of(x) & 0x7fffffffu); }
NEEDLE_INLINE float with_sign(float x, float sign) { return __builtin_copysignf(x, sign); }
NEEDLE_INLINE Floats with_sign(Floats x, Floats sign) {
  return float_of((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

NEEDLE_INLINE Floats sqrt(Floats x) {
  for (int i = 0; i < kLanes<float>; ++i) x.lanes[i] = __builtin_sqrtf(x.lanes[i]);
  return x;
}

// x, and more in one of its lanes. Found by comparing numbers of lanes, as an index that is no
// constant would keep x in memory.
NEEDLE_INLINE Floats added_at(Floats x, int32_t lane, float more) {
  Ints numbers = {};
  for (int i = 0; i < kLanes<int32_t>; ++i) numbers[i] = i;
  return choose(numbers == lane, x + more, x);
}

// Is the magnitude of any lane above the limit? NaN is not.
NEEDLE_INLINE bool is_any_beyond(Floats x, float limit) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(magnitude_of(x).lanes, splat(limit), _CMP_GT_OQ) != 0;
#else
  const Ints found = magnitude_of(x) > limit;
#if defined(__AVX2__)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(found)) != 0;
#elif defined(__ARM_NEON)
  return vmaxvq_u32(reinterpret_cast<uint32x4_t>(found)) != 0;
#else
  int32_t any = 0;
  for (int i = 0; i < kLanes<int32_t>; ++i) any |= found[i];
  return any != 0;
#endif
#endif
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
