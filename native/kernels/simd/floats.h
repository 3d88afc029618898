// A vector of float32 that reads like one: the functions of common/elements/float.h take either.
// What a number decides with ?:, a vector decides lane by lane with choose().
#pragma once

#include "convert.h"
#include "kernels/math/elements.h"
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

// What float.h is written with.

NEEDLE_INLINE Bits bits_f32(Floats x) { return reinterpret_cast<Bits>(x.lanes); }
NEEDLE_INLINE Floats of_bits_f32(Bits bits) { return reinterpret_cast<Vec<float>>(bits); }
NEEDLE_INLINE Floats of_int_f32(Ints n) { return __builtin_convertvector(n, Vec<float>); }

NEEDLE_INLINE Floats fma_f32(Floats x, Floats y, Floats z) {
  if constexpr (kFusesVectors) return multiply_add(x.lanes, y.lanes, z.lanes);
  for (int i = 0; i < kLanes<float>; ++i) z.lanes[i] = fma_f32(x.lanes[i], y.lanes[i], z.lanes[i]);
  return z;
}

NEEDLE_INLINE Floats at_most_f32(Floats x, float limit) {
  return smaller_of(splat(limit), x.lanes);
}
NEEDLE_INLINE Floats at_least_f32(Floats x, float limit) {
  return larger_of(splat(limit), x.lanes);
}

NEEDLE_INLINE Floats abs_f32(Floats x) { return of_bits_f32(bits_f32(x) & 0x7fffffffu); }
NEEDLE_INLINE Floats copysign_f32(Floats x, Floats sign) {
  return of_bits_f32((bits_f32(x) & 0x7fffffffu) | (bits_f32(sign) & 0x80000000u));
}

NEEDLE_INLINE Floats sqrt_f32(Floats x) {
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
  return _mm512_cmp_ps_mask(abs_f32(x).lanes, splat(limit), _CMP_GT_OQ) != 0;
#else
  const Ints found = abs_f32(x) > limit;
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

NEEDLE_INLINE Floats exp_f32(Floats x);

#define F Floats
#define I Ints
#define U Bits
#define RARE [[gnu::noinline, gnu::cold]] inline
#define EXP_OF_ANY exp_of_any_f32
#include "common/elements/float.h"

Floats exp_f32(Floats x) {
  if (is_any_beyond(x, LARGEST_POWER)) [[unlikely]]
    return exp_of_any_f32(x);
  return exp_of_moderate_f32(x);
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
