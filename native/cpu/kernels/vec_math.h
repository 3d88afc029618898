// exp, tanh and sigmoid of vectors, for kernels that compute them between products.
//
// They use fused multiply-adds, and results below the smallest normal number are 0: at most 2.5 ulp
// from the true value. The elementwise functions of the same names, in scalar.h, hold for every
// argument and give the same bits on every instruction set.
#pragma once

#include "scalar.h"
#include "vec.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

template <class T>
NEEDLE_INLINE Vec<T> greater_of(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}

// e^x for x <= 0: 2^n e^r with n whole and |r| <= ln(2) / 2. NaN stays NaN.
NEEDLE_INLINE Vec<float> exp_below_0(Vec<float> x) {
  typedef int32_t Ints __attribute__((vector_size(kVecBytes)));
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  constexpr float kLowest = -87.33654f;  // ln of the smallest normal number
  const Vec<float> clamped = x < kLowest ? splat(kLowest) : x;
  const Vec<float> shifted = multiply_add(clamped, splat(1.44269504f), splat(kRound));
  const Vec<float> n = shifted - kRound;
  Vec<float> r = multiply_add(n, splat(-0.693359375f), clamped);  // ln(2) in two parts
  r = multiply_add(n, splat(2.12194440e-4f), r);
  Vec<float> p = splat(1.9875691500e-4f);
  p = multiply_add(p, r, splat(1.3981999507e-3f));
  p = multiply_add(p, r, splat(8.3334519073e-3f));
  p = multiply_add(p, r, splat(4.1665795894e-2f));
  p = multiply_add(p, r, splat(1.6666665459e-1f));
  p = multiply_add(p, r, splat(5.0000001201e-1f));
  const Vec<float> e = multiply_add(p, r * r, r) + 1.0f;
  constexpr int32_t kBias = 127 - __builtin_bit_cast(int32_t, kRound);
  const Vec<float> power =
      reinterpret_cast<Vec<float>>((reinterpret_cast<Ints>(shifted) + kBias) << 23);
  return x < kLowest ? Vec<float>{} : e * power;
}

NEEDLE_INLINE Vec<float> magnitude_of(Vec<float> x) { return x < 0.0f ? -x : x; }

// e / (1 + e) or 1 / (1 + e).
NEEDLE_INLINE Vec<float> sigmoid(Vec<float> x) {
  const Vec<float> e = exp_below_0(-magnitude_of(x));
  return (x < 0.0f ? e : splat(1.0f)) / (1.0f + e);
}

// Near 0 an odd polynomial, elsewhere (1 - e) / (1 + e) with e = e^(-2|x|).
NEEDLE_INLINE Vec<float> tanh(Vec<float> x) {
  const Vec<float> a = magnitude_of(x), z = x * x;
  Vec<float> p = splat(-5.70498872745e-3f);
  p = multiply_add(p, z, splat(2.06390887954e-2f));
  p = multiply_add(p, z, splat(-5.37397155531e-2f));
  p = multiply_add(p, z, splat(1.33314422036e-1f));
  p = multiply_add(p, z, splat(-3.33332819422e-1f));
  const Vec<float> near = multiply_add(p * z, x, x);
  const Vec<float> e = exp_below_0(-2.0f * a);
  const Vec<float> far = (1.0f - e) / (1.0f + e);
  return a < 0.625f ? near : x < 0.0f ? -far : far;
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

// Loads and stores of whole vectors, with the interface of Lanes.
template <class T>
struct WholeVec {
  NEEDLE_INLINE Vec<T> load(const T* p) const { return needle::NEEDLE_ISA::load(p); }
  NEEDLE_INLINE void store(T* p, Vec<T> v) const { needle::NEEDLE_ISA::store(p, v); }
};

// Calls body(j, lanes) for the vectors that cover [0, n): whole ones, then what is left.
template <class T, class F>
NEEDLE_INLINE void for_each_vec(int64_t n, const F& body) {
  int64_t j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) body(j, WholeVec<T>{});
  if (j < n) body(j, Lanes<T>(static_cast<int>(n - j)));
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
