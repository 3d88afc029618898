// float32 functions of our own: at most 2 ulp from the true value for every argument, NumPy's
// results for NaN, infinities, zeros and subnormals, and the same bits on every instruction set;
// tests/native/test_accuracy.py holds them to it. Those in templates are of a number or of a vector
// of them, F. No branches, so that loops over numbers vectorise.
//
// The coefficients are weighted minimax fits over the interval that each comment names.
#pragma once

#include "kernels/simd/floats.h"

namespace needle::NEEDLE_ISA {
namespace {

NEEDLE_INLINE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
NEEDLE_INLINE double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }

// x y + z, rounded once.
NEEDLE_INLINE float fma(float x, float y, float z) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(x, y, z);
#else
  // The product is exact in double. The sum is rounded to odd there (cut off, and the last bit set
  // if anything was lost), so that rounding it to float is the only rounding that counts.
  const double product = static_cast<double>(x) * static_cast<double>(y);
  const double sum = product + static_cast<double>(z);
  const double added = sum - product;
  const double lost = (product - (sum - added)) + (static_cast<double>(z) - added);
  const bool is_above = lost * sum < 0, is_inexact = (lost > 0) | (lost < 0);
  const double cut = is_above ? double_of(bits_of(sum) - 1) : sum;
  return static_cast<float>(is_inexact ? double_of(bits_of(cut) | 1) : cut);
#endif
}

NEEDLE_INLINE Floats fma(Floats x, Floats y, Floats z) {
  if constexpr (kFusesVectors) return multiply_add(x.lanes, y.lanes, z.lanes);
  for (int i = 0; i < kLanes<float>; ++i) z.lanes[i] = fma(x.lanes[i], y.lanes[i], z.lanes[i]);
  return z;
}

// c0 + c1 x + c2 x^2 + ...
template <class T>
NEEDLE_INLINE T step(T x, T high, T low) {
  if constexpr (is_same<T, double>) {
    return high * x + low;
  } else {
    return fma(high, x, low);
  }
}
template <class T, class Constant>
NEEDLE_INLINE T polynomial(T, Constant c) {
  return c;
}
template <class T, class Constant, class... Rest>
NEEDLE_INLINE T polynomial(T x, Constant c, Rest... rest) {
  return step<T>(x, polynomial(x, rest...), c);
}

// The same with even and odd powers side by side: the next step waits for half as many.
template <Single F, class Constant>
NEEDLE_INLINE F even_powers(F, Constant c) {
  return c;
}
template <Single F, class Constant, class Odd, class... Rest>
NEEDLE_INLINE F even_powers(F squared, Constant c, Odd, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return c;
  } else {
    return fma(even_powers(squared, rest...), squared, c);
  }
}
template <Single F, class Constant, class... Rest>
NEEDLE_INLINE F polynomial_by_parity(F x, F squared, Constant c, Rest... rest) {
  return fma(even_powers(squared, rest...), x, even_powers(squared, c, rest...));
}

constexpr float kRoundFloat = 12582912.0f;         // 1.5 * 2^23: adding it rounds to a whole number
constexpr double kRoundDouble = 6755399441055744;  // 1.5 * 2^52

// x = n ln(2) + r, n whole and |r| <= ln(2) / 2; `whole` is n as an integer.
template <Single F>
struct Reduced {
  F n, r;
  decltype(as_signed(bits_of(F()))) whole;
};

template <Single F>
NEEDLE_INLINE Reduced<F> by_log2(F x) {
  const F shifted = fma(x, 1.44269504f, kRoundFloat);
  const F n = shifted - kRoundFloat;
  const F high = fma(n, -0.693359375f, x);
  return {n, fma(n, 2.12194440e-4f, high), as_signed(bits_of(shifted) - bits_of(kRoundFloat))};
}

template <class Int>  // int32_t, or a vector of them
NEEDLE_INLINE auto power_of_two(Int n) {
  return float_of(as_bits(n + 127) << 23);
}

template <Single F>
NEEDLE_INLINE F clamped(F x, float least, float most) {  // NaN stays NaN
  return at_least(at_most(x, most), least);
}

// (e^r - 1) for |r| <= ln(2) / 2, off by at most 0.06 ulp of e^r.
template <Single F>
NEEDLE_INLINE F exp_near_0(F r) {
  const F squared = r * r;
  const F p = polynomial_by_parity(r, squared, 4.9999994e-1f, 1.66665211e-1f, 4.1668389e-2f,
                                   8.36874545e-3f, 1.38145383e-3f);
  return fma(p, squared, r);
}

template <Single F>
NEEDLE_INLINE F exp_of_any(F x) {
  const Reduced<F> a = by_log2(clamped(x, -105.0f, 89.0f));
  const F e = exp_near_0(a.r) + 1.0f;
  // 2^n in two factors, since the result may be subnormal or infinite while e is neither.
  const auto half = a.whole >> 1;
  return e * power_of_two(half) * power_of_two(a.whole - half);
}

// The same bits where the result is neither: for |x| <= kLargestPower.
constexpr float kLargestPower = 87.0f;
template <Single F>
NEEDLE_INLINE F exp_of_moderate(F x) {
  const Reduced<F> a = by_log2(x);
  const F power = power_of_two(a.whole);
  return fma(exp_near_0(a.r), power, power);
}

NEEDLE_INLINE float exp(float x) { return exp_of_any(x); }
[[gnu::noinline, gnu::cold]] inline Floats exp_with_large(Floats x) { return exp_of_any(x); }
NEEDLE_INLINE Floats exp(Floats x) {
  if (is_any_beyond(x, kLargestPower)) [[unlikely]]
    return exp_with_large(x);
  return exp_of_moderate(x);
}

// 2^n (e^r - 1) + (2^n - 1)
template <Single F>
NEEDLE_INLINE F expm1(F x) {
  const Reduced<F> a = by_log2(clamped(x, -30.0f, 89.0f));
  const F p = polynomial(a.r, 5.000000000e-01f, 1.666666716e-01f, 4.166635126e-02f,
                         8.333273232e-03f, 1.394122024e-03f, 1.991385361e-04f);
  const F e = fma(p * a.r, a.r, a.r);
  const F half = power_of_two(a.whole - 1);  // 2^128 is no float
  const F y = fma(e, half, half - 0.5f) * 2.0f;
  return choose(magnitude_of(x) < 1e-7f, x, choose(a.whole == 0, e, y));
}

// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
template <Single F>
NEEDLE_INLINE F log_of(F n, F f) {
  const F z = f * f;
  const F p = polynomial(f, 3.333331347e-01f, -2.500000894e-01f, 2.000211924e-01f,
                         -1.666799635e-01f, 1.421955079e-01f, -1.240559146e-01f, 1.188817471e-01f,
                         -1.167564094e-01f, 6.746601313e-02f);
  const F tail = fma(n, -2.12194440e-4f, fma(p * f, z, -0.5f * z));
  return fma(n, 0.693359375f, f + tail);
}

// log and log1p outside of (0, inf).
template <Single F>
NEEDLE_INLINE F log_or_edge(F x, F inside) {
  constexpr float kInfinity = __builtin_inff();
  const F edge = choose(x == 0.0f, F(-kInfinity), choose(x < 0.0f, F(__builtin_nanf("")), x));
  return choose((x > 0.0f) & (x < kInfinity), inside, edge);
}

template <Single F>
NEEDLE_INLINE F log(F x) {
  const auto is_subnormal = x < 1.17549435e-38f;
  const F normal = choose(is_subnormal, x * 8388608.0f, x);  // times 2^23
  const auto exponent = as_signed(bits_of(normal) - bits_of(0.70710678f)) >> 23;
  const F n = as_float(exponent) - choose(is_subnormal, F(23.0f), F(0.0f));
  const F f = float_of(bits_of(normal) - (as_bits(exponent) << 23)) - 1.0f;
  return log_or_edge(x, log_of(n, f));
}

// ln(u + c) where u = 1 + x was rounded and c is what the rounding lost.
template <Single F>
NEEDLE_INLINE F log1p(F x) {
  const F u = 1.0f + x;
  const F c = choose(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f));
  const auto exponent = as_signed(bits_of(u) - bits_of(0.70710678f)) >> 23;
  const auto scale = as_bits(exponent) << 23;
  const F f = float_of(bits_of(u) - scale) - 1.0f;
  const F correction = choose(exponent > 60, F(0.0f), c * float_of(bits_of(1.0f) - scale));
  const F y = log_of(as_float(exponent), f + correction);
  return choose(x == 0.0f, x, log_or_edge(u, y));
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
template <Single F>
NEEDLE_INLINE F tanh(F x) {
  const F a = magnitude_of(x), z = x * x;
  const F p = polynomial(z, -3.333328068e-01f, 1.333138347e-01f, -5.373400077e-02f,
                         2.061812207e-02f, -5.679303780e-03f);
  const F near = fma(p * z, x, x);
  const F twice = at_most(a + a, 40.0f);  // from 18 on, far is 1
  const F far = 1.0f - 2.0f / (exp_of_moderate(twice) + 1.0f);
  return with_sign(choose(a < 0.625f, near, far), x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
template <Single F>
NEEDLE_INLINE F sigmoid_by(F x, F e) {
  const F sum = 1.0f + e;
  const F lost = e - (sum - 1.0f);
  const F y = choose(x < 0.0f, e, F(1.0f)) / sum;
  return fma(-y, lost * fma(e, -0.5f, 1.0f), y);
}
template <Single F>
NEEDLE_INLINE F sigmoid(F x) {
  return sigmoid_by(x, exp(-magnitude_of(x)));
}

// Near 0 an odd polynomial, elsewhere 1 - e^-q with q(|x|) = -ln(1 - erf|x|); above 3.93 it is 1.
template <Single F>
NEEDLE_INLINE F erf(F x) {
  const F a = magnitude_of(x), z = x * x;
  const F p = polynomial(z, 1.283791512e-01f, -3.761247993e-01f, 1.128168255e-01f,
                         -2.676171996e-02f, 4.985940177e-03f, -5.953739164e-04f);
  const F b = at_most(a, 4.0f);
  const F q = polynomial(b, 1.286484897e-01f, 6.351513267e-01f, 1.062368900e-01f, -2.376207523e-02f,
                         3.642465221e-03f, -3.228054265e-04f, 1.123147013e-05f);
  const Reduced<F> r = by_log2(-fma(q, b, b));
  const F scale = power_of_two(r.whole);
  const F far = 1.0f - fma(exp_near_0(r.r), scale, scale);
  return choose(a < 0.92f, fma(p, x, x), choose(x != x, x, with_sign(far, x)));
}

// The normal distribution at x: its density but for the factor 1 / sqrt(2 pi), e^(-x^2 / 2), and
// the probability below x. That above |x| is the density times Mills' ratio, which is smooth and
// positive. Above 13.1 both are less than 1e-37: 0.
template <Single F>
struct Normal {
  F density, below;
};

template <Single F>
NEEDLE_INLINE Normal<F> normal_at(F x) {
  const F a = magnitude_of(x), b = at_most(a, 13.1f);
  const F squared = b * b;
  const F above = polynomial_by_parity(b, squared, 5.000000000e-01f, 4.352176189e-01f,
                                       1.809616536e-01f, 3.986837342e-02f, 4.003128037e-03f);
  const F under =
      polynomial_by_parity(b, squared, 1.000000000e+00f, 1.668320179e+00f, 1.193046212e+00f,
                           4.634695947e-01f, 9.994275123e-02f, 1.003420539e-02f);
  const F density = choose(a > 13.1f, F(0.0f), exp_of_moderate(-0.5f * squared));
  const F tail = density * (above / under);
  return {density, choose(x < 0.0f, tail, 1.0f - tail)};
}

template <Single F>
NEEDLE_INLINE F gelu(F x) {
  return x * normal_at(x).below;
}

template <Single F>
NEEDLE_INLINE F gelu_slope(F x) {
  const Normal<F> normal = normal_at(x);
  return fma(x, normal.density * 0.398942280f, normal.below);
}

// In double: their errors vanish when the result is rounded to float.

// e^x for |x| <= 700, 1e-12 off at most.
NEEDLE_INLINE double exp_in_double(double x) {
  const double shifted = x * 1.4426950408889634 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double r = (x - n * 0.69314718036912382) - n * 1.9082149292705877e-10;
  const double p =
      polynomial(r, 4.99999999995121180e-01, 1.66666667880204011e-01, 4.16666670587029844e-02,
                 8.33328086901073684e-03, 1.38887957080963825e-03, 1.99095056653254967e-04,
                 2.48879432698707248e-05);
  const double e = 1.0 + (r + r * r * p);
  return double_of(bits_of(e) + (bits_of(shifted) << 52));
}

NEEDLE_INLINE float sinh(float x) {
  const double a = static_cast<double>(clamped(x, -100.0f, 100.0f));
  const double e = exp_in_double(a);
  const double near = a + a * a * a * (1.0 / 6);
  return static_cast<float>(magnitude_of(x) < 1e-3f ? near : 0.5 * (e - 1.0 / e));
}

NEEDLE_INLINE float cosh(float x) {
  const double e = exp_in_double(static_cast<double>(clamped(x, -100.0f, 100.0f)));
  return static_cast<float>(0.5 * (e + 1.0 / e));
}

// Arguments of sin, cos and tan above this are left to the C library (see tile_ops.cc): the product
// of n and the first part of pi / 2 would not be exact.
constexpr float kLargestAngle = 1 << 20;

struct Angle {
  double sine, cosine;  // of x - n pi / 2
  uint64_t quadrant;    // n
};

NEEDLE_INLINE Angle by_quadrant(float x) {
  const double a = static_cast<double>(x);
  const double shifted = a * 0.63661977236758134 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double r = (a - n * 1.5707963267341256) - n * 6.0771005065061922e-11;
  const double z = r * r;
  const double s =
      polynomial(z, -1.66666666666297730e-01, 8.33333332494241852e-03, -1.98412636404830605e-04,
                 2.75553184752839242e-06, -2.47587704622004151e-08);
  const double c =
      polynomial(z, 4.16666666665938962e-02, -1.38888888772084476e-03, 2.48015805128166451e-05,
                 -2.75554858539381312e-07, 2.06426434655014379e-09);
  return {r + r * z * s, 1.0 - 0.5 * z + z * z * c, bits_of(shifted)};
}

NEEDLE_INLINE float sin(float x) {
  const Angle a = by_quadrant(x);
  const double y = (a.quadrant & 1) != 0 ? a.cosine : a.sine;
  const float result = static_cast<float>((a.quadrant & 2) != 0 ? -y : y);
  return x == 0 ? x : result;
}

NEEDLE_INLINE float cos(float x) {
  const Angle a = by_quadrant(x);
  const double y = (a.quadrant & 1) != 0 ? a.sine : a.cosine;
  return static_cast<float>(((a.quadrant + 1) & 2) != 0 ? -y : y);
}

NEEDLE_INLINE float tan(float x) {
  const Angle a = by_quadrant(x);
  const bool is_odd = (a.quadrant & 1) != 0;
  const double y = (is_odd ? -a.cosine : a.sine) / (is_odd ? a.sine : a.cosine);
  return x == 0 ? x : static_cast<float>(y);
}

// The angle whose tangent is x >= 0: pi / 4 or pi / 2 less is one up to pi / 8.
NEEDLE_INLINE double atan_in_double(double x) {
  constexpr double kEighth = 0.41421356237309503, kThreeEighths = 2.4142135623730951;  // of pi
  const bool is_steep = x > kThreeEighths, is_flat = x <= kEighth;
  const double near = is_steep ? 1.5707963267948966 : is_flat ? 0.0 : 0.78539816339744828;
  const double z = (is_steep  ? -1.0
                    : is_flat ? x
                              : x - 1.0) /
                   (is_steep  ? x
                    : is_flat ? 1.0
                              : x + 1.0);
  const double s = z * z;
  const double p =
      polynomial(s, -3.33333325145988405e-01, 1.99999051862810676e-01, -1.42820420624307409e-01,
                 1.10450934206461156e-01, -8.47840562999932319e-02, 4.74827423640415302e-02);
  return near + (z + z * s * p);
}

NEEDLE_INLINE float atan(float x) {
  const double y = atan_in_double(static_cast<double>(magnitude_of(x)));
  return with_sign(static_cast<float>(y), x);
}

NEEDLE_INLINE float asin(float x) {
  const double a = static_cast<double>(magnitude_of(x));
  const double y = atan_in_double(a / __builtin_sqrt((1.0 - a) * (1.0 + a)));
  return with_sign(static_cast<float>(y), x);
}

NEEDLE_INLINE float acos(float x) {
  const double a = static_cast<double>(x);
  return static_cast<float>(2.0 * atan_in_double(__builtin_sqrt((1.0 - a) / (1.0 + a))));
}

// The angle of the point (x, y), in (-pi, pi].
NEEDLE_INLINE float atan2(float y, float x) {
  const double a = static_cast<double>(magnitude_of(y)), b = static_cast<double>(magnitude_of(x));
  const double ratio = a != b ? a / b : a == 0 ? 0.0 : 1.0;  // of zeros, and of infinities
  const double angle = atan_in_double((a != a) | (b != b) ? a + b : ratio);
  return with_sign(static_cast<float>(with_sign(1.0f, x) < 0 ? 3.1415926535897931 - angle : angle),
                   y);
}

// log2 x for x in (0, inf).
NEEDLE_INLINE double log2_in_double(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kBias = 1023;
  const uint64_t exponent = (bits_of(x) - kRootHalf + (kBias << 52)) >> 52;
  const double m = double_of(bits_of(x) - ((exponent - kBias) << 52));
  const double s = (m - 1.0) / (m + 1.0), u = s * s;
  const double p =
      polynomial(u, 3.33333333332936854e-01, 2.00000000264842936e-01, 1.42857084768866910e-01,
                 1.11116932001621552e-01, 9.06156609167168142e-02, 8.41307921614014159e-02);
  const double n = static_cast<double>(static_cast<int32_t>(exponent) - 1023);
  return n + (s + s * u * p) * 2.8853900817779268;  // 2 / ln 2
}

// 2^(y log2|x|); then the rules for signs and edges of C's pow.
NEEDLE_INLINE float power(float x, float y) {
  constexpr float kInfinity = __builtin_inff();
  const float a = magnitude_of(x);
  const double far = a == 0 ? -1e300 : 1e300;
  const double logarithm = (a > 0) & (a < kInfinity) ? log2_in_double(static_cast<double>(a)) : far;
  const double product = static_cast<double>(y) * logarithm;
  const double above = product > 300 ? 300.0 : product;
  const double t = above < -300 ? -300.0 : above;
  const float e = static_cast<float>(exp_in_double(t * 0.69314718055994531));
  const float half = 0.5f * y;
  const bool is_whole = __builtin_floorf(y) == y;
  const bool is_odd = is_whole & (__builtin_floorf(half) != half);
  const bool is_undefined = (x < 0) & (a < kInfinity) & !is_whole;
  const float numeric = is_undefined ? __builtin_nanf("") : is_odd ? with_sign(e, x) : e;
  const float result = (x != x) | (y != y) ? x + y : numeric;
  const bool is_one = (y == 0) | (x == 1) | ((a == 1) & (magnitude_of(y) == kInfinity));
  return is_one ? 1.0f : result;
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
