// exp, tanh and sigmoid of vectors, for kernels that compute them between products.
//
// They use fused multiply-adds, and results below the smallest normal number may be 0: at most 2.5
// ulp from the true value. The elementwise functions of the same names, in scalar.h, hold for every
// argument and give the same bits on every instruction set.
#pragma once

#include "kernels/simd/vec.h"
#include "scalar.h"

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
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const Vec<float> shifted = multiply_add(x, splat(1.44269504f), splat(kRound));
  const Vec<float> n = shifted - kRound;
  Vec<float> r = multiply_add(n, splat(-0.693359375f), x);  // ln(2) in two parts
  r = multiply_add(n, splat(2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2, off by at most 0.06 ulp of e^r
  Vec<float> p = splat(1.38145383e-3f);
  p = multiply_add(p, r, splat(8.36874545e-3f));
  p = multiply_add(p, r, splat(4.1668389e-2f));
  p = multiply_add(p, r, splat(1.66665211e-1f));
  p = multiply_add(p, r, splat(4.9999994e-1f));
  constexpr int32_t kBias = 127 - __builtin_bit_cast(int32_t, kRound);
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

// float64: one element at a time, by the scalar functions.
template <class F>
NEEDLE_INLINE Vec<double> each_of(Vec<double> x, const F& function) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = function(x[i]);
  return x;
}
NEEDLE_INLINE Vec<double> exp_below_0(Vec<double> x) {
  return each_of(x, [](double y) { return exp(y); });
}
NEEDLE_INLINE Vec<double> sigmoid(Vec<double> x) {
  return each_of(x, [](double y) { return sigmoid(y); });
}
NEEDLE_INLINE Vec<double> tanh(Vec<double> x) {
  return each_of(x, [](double y) { return tanh(y); });
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
