// exp, tanh and sigmoid of vectors, for kernels that compute them between products.
//
// They use fused multiply-adds, and results below the smallest normal number may be 0: at most 2.5
// ulp from the true value. The elementwise functions of the same names hold for every argument and
// give the same bits on every instruction set.
#pragma once

#include "elements.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

// e^x = power (1 + tail), power = 2^n with n whole, tail = e^r - 1 with |r| <= ln(2) / 2. For x
// from kExpIsZero, where power is 0, to kExpIsInfinite. NaN stays NaN, in `tail`.
struct ExpParts {
  Vec<float> power, tail;
};

constexpr float kExpIsZero = -88.0f, kExpIsInfinite = 88.8f;  // n = -127 and 128

NEEDLE_INLINE ExpParts exp_parts(Vec<float> x) {
  typedef int32_t Ints __attribute__((vector_size(kVecBytes)));
  const Vec<float> shifted = multiply_add(x, splat(LOG2_E_F32), splat(ROUND_F32));
  const Vec<float> n = shifted - ROUND_F32;
  Vec<float> r = multiply_add(n, splat(-LN2_HIGH_F32), x);
  r = multiply_add(n, splat(-LN2_LOW_F32), r);
  Vec<float> p = splat(EXP_6_F32);  // (e^r - 1 - r) / r^2
  p = multiply_add(p, r, splat(EXP_5_F32));
  p = multiply_add(p, r, splat(EXP_4_F32));
  p = multiply_add(p, r, splat(EXP_3_F32));
  p = multiply_add(p, r, splat(EXP_2_F32));
  constexpr int32_t kBias = 127 - __builtin_bit_cast(int32_t, ROUND_F32);
  const Ints bits = (reinterpret_cast<Ints>(shifted) + kBias) << 23;
  return {reinterpret_cast<Vec<float>>(bits), multiply_add(p, r * r, r)};
}

// e^x for x <= 0.
NEEDLE_INLINE Vec<float> exp_below_0(Vec<float> x) {
  const ExpParts e = exp_parts(larger_of(splat(kExpIsZero), x));
  return (1.0f + e.tail) * e.power;
}

NEEDLE_INLINE Vec<float> sigmoid(Vec<float> x) {
  const Vec<float> y = larger_of(splat(kExpIsZero), smaller_of(splat(kExpIsInfinite), -x));
  const ExpParts e = exp_parts(y);
  return 1.0f / ((1.0f + e.tail) * e.power + 1.0f);
}

// -m / (m + 2) with m = e^(-2|x|) - 1, exact near 0 where power is 1; then x's sign.
NEEDLE_INLINE Vec<float> tanh(Vec<float> x) {
  typedef int32_t Ints __attribute__((vector_size(kVecBytes)));
  const Ints sign = reinterpret_cast<Ints>(x) & INT32_MIN;
  const Vec<float> below = reinterpret_cast<Vec<float>>(reinterpret_cast<Ints>(x) | INT32_MIN);
  const ExpParts e = exp_parts(larger_of(splat(kExpIsZero), below + below));
  const Vec<float> m = multiply_add(e.power, e.tail, e.power - 1.0f);
  return reinterpret_cast<Vec<float>>(reinterpret_cast<Ints>(m / (-2.0f - m)) ^ sign);
}

// Of numbers, in the words of kernels for both types.
NEEDLE_INLINE float log(float x) { return log_f32(x); }
NEEDLE_INLINE double log(double x) { return log_f64(x); }

// float64: one element at a time.
template <class F>
NEEDLE_INLINE Vec<double> each_of(Vec<double> x, const F& function) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = function(x[i]);
  return x;
}
NEEDLE_INLINE Vec<double> exp_below_0(Vec<double> x) {
  return each_of(x, [](double y) { return exp_f64(y); });
}
NEEDLE_INLINE Vec<double> sigmoid(Vec<double> x) {
  return each_of(x, [](double y) { return sigmoid_f64(y); });
}
NEEDLE_INLINE Vec<double> tanh(Vec<double> x) {
  return each_of(x, [](double y) { return tanh_f64(y); });
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
