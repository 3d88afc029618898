// The functions of elementwise.def's formulas, for one element of a compute type: float, double,
// int32_t, int64_t, bool_t. NumPy's meaning; integers wrap around (the kernels are built with
// -fwrapv). Those for float are free of branches, so that loops over them vectorise.
#pragma once

#include "convert.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

template <class T>
concept Integer = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
template <class T>
concept Floating = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
concept Bool = std::is_same_v<T, bool_t>;

// bool: + is or, * is and, - is not; there is no subtraction.

NEEDLE_INLINE bool_t make_bool(int byte) { return {static_cast<uint8_t>(byte)}; }

NEEDLE_INLINE bool_t operator|(bool_t x, bool_t y) { return make_bool(x.byte | y.byte); }
NEEDLE_INLINE bool_t operator&(bool_t x, bool_t y) { return make_bool(x.byte & y.byte); }
NEEDLE_INLINE bool_t operator^(bool_t x, bool_t y) { return make_bool(x.byte ^ y.byte); }
NEEDLE_INLINE bool_t operator~(bool_t x) { return make_bool(x.byte ^ 1); }
NEEDLE_INLINE bool_t operator+(bool_t x, bool_t y) { return x | y; }
NEEDLE_INLINE bool_t operator*(bool_t x, bool_t y) { return x & y; }
NEEDLE_INLINE bool_t operator-(bool_t x) { return ~x; }
NEEDLE_INLINE bool operator==(bool_t x, bool_t y) { return x.byte == y.byte; }
NEEDLE_INLINE bool operator!=(bool_t x, bool_t y) { return x.byte != y.byte; }
NEEDLE_INLINE bool operator<(bool_t x, bool_t y) { return x.byte < y.byte; }
NEEDLE_INLINE bool operator<=(bool_t x, bool_t y) { return x.byte <= y.byte; }
NEEDLE_INLINE bool operator>(bool_t x, bool_t y) { return x.byte > y.byte; }
NEEDLE_INLINE bool operator>=(bool_t x, bool_t y) { return x.byte >= y.byte; }

NEEDLE_INLINE bool_t abs(bool_t x) { return x; }
NEEDLE_INLINE bool_t sign(bool_t x) { return x; }
NEEDLE_INLINE bool_t floor_divide(bool_t x, bool_t y) { return x & y; }
NEEDLE_INLINE bool_t remainder(bool_t, bool_t) { return {0}; }
NEEDLE_INLINE bool_t power(bool_t x, bool_t y) { return x | ~y; }
NEEDLE_INLINE bool_t shift_left(bool_t x, bool_t) { return x; }
NEEDLE_INLINE bool_t shift_right(bool_t x, bool_t y) { return x & ~y; }

// Integers.

template <Integer T>
NEEDLE_INLINE T abs(T x) {
  return x < 0 ? -x : x;
}

template <Integer T>
NEEDLE_INLINE T sign(T x) {
  return (x > 0) - (x < 0);
}

// Rounds down; x / 0 is 0.
template <Integer T>
NEEDLE_INLINE T floor_divide(T x, T y) {
  const T divisor = y == 0 || y == -1 ? 1 : y;  // neither may reach the machine's division
  const T quotient = x / divisor;
  const bool rounds_up = quotient * divisor != x && (x < 0) != (divisor < 0);
  return y == 0 ? 0 : y == -1 ? -x : quotient - rounds_up;
}

template <Integer T>
NEEDLE_INLINE T remainder(T x, T y) {
  const T divisor = y == 0 || y == -1 ? 1 : y;
  const T rest = x % divisor;
  return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

// By squaring. Negative exponents, which callers refuse, give the truncated value.
template <Integer T>
inline T power(T x, T y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
  T result = 1;
  for (; y > 0; y >>= 1, x *= x) {
    if (y & 1) result *= x;
  }
  return result;
}

// A shift by the width or more, or by a negative number, shifts everything out.
template <Integer T>
NEEDLE_INLINE T shift_left(T x, T y) {
  constexpr T width = 8 * sizeof(T);
  return y >= 0 && y < width ? static_cast<T>(x << (y & (width - 1))) : 0;
}

template <Integer T>
NEEDLE_INLINE T shift_right(T x, T y) {
  constexpr T width = 8 * sizeof(T);
  return x >> (y >= 0 && y < width ? y : width - 1);
}

template <class T>
  requires Integer<T> || Bool<T>
NEEDLE_INLINE T floor(T x) {
  return x;
}

template <class T>
  requires Integer<T> || Bool<T>
NEEDLE_INLINE T ceil(T x) {
  return x;
}

template <class T>
  requires Integer<T> || Bool<T>
NEEDLE_INLINE T round_half_even(T x) {
  return x;
}

template <class T>
  requires Integer<T> || Bool<T>
NEEDLE_INLINE bool is_infinite(T) {
  return false;
}

// Floating: what the C library has.

#define NEEDLE_LIBM(name, function)                                        \
  NEEDLE_INLINE float name(float x) { return __builtin_##function##f(x); } \
  NEEDLE_INLINE double name(double x) { return __builtin_##function(x); }
#define NEEDLE_LIBM_DOUBLE(name) \
  NEEDLE_INLINE double name(double x) { return __builtin_##name(x); }

NEEDLE_LIBM(abs, fabs)
NEEDLE_LIBM(floor, floor)
NEEDLE_LIBM(ceil, ceil)
NEEDLE_LIBM(round_half_even, rint)
NEEDLE_LIBM(sqrt, sqrt)
NEEDLE_LIBM(log1p, log1p)
NEEDLE_LIBM(expm1, expm1)
NEEDLE_LIBM(sin, sin)
NEEDLE_LIBM(cos, cos)
NEEDLE_LIBM(tan, tan)
NEEDLE_LIBM(sinh, sinh)
NEEDLE_LIBM(cosh, cosh)
NEEDLE_LIBM(erf, erf)
NEEDLE_LIBM_DOUBLE(exp)
NEEDLE_LIBM_DOUBLE(log)
NEEDLE_LIBM_DOUBLE(tanh)

#undef NEEDLE_LIBM
#undef NEEDLE_LIBM_DOUBLE

NEEDLE_INLINE float mod(float x, float y) { return __builtin_fmodf(x, y); }
NEEDLE_INLINE double mod(double x, double y) { return __builtin_fmod(x, y); }
NEEDLE_INLINE float copy_sign(float x, float y) { return __builtin_copysignf(x, y); }
NEEDLE_INLINE double copy_sign(double x, double y) { return __builtin_copysign(x, y); }
NEEDLE_INLINE float power(float x, float y) { return __builtin_powf(x, y); }
NEEDLE_INLINE double power(double x, double y) { return __builtin_pow(x, y); }

template <Floating T>
NEEDLE_INLINE bool is_infinite(T x) {
  return abs(x) == static_cast<T>(__builtin_inf());
}

template <Floating T>
NEEDLE_INLINE T sign(T x) {
  return x != x ? x : static_cast<T>((x > 0) - (x < 0));
}

// Python's rule: the remainder has the sign of the divisor.
template <Floating T>
NEEDLE_INLINE T remainder(T x, T y) {
  const T rest = mod(x, y);
  if (y == 0) return rest;  // NaN
  if (rest == 0) return copy_sign(T(0), y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

template <Floating T>
NEEDLE_INLINE T floor_divide(T x, T y) {
  if (y == 0) return x / y;
  const T rest = mod(x, y);
  T quotient = (x - rest) / y;  // a whole number, up to rounding
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return copy_sign(T(0), x / y);
  const T down = floor(quotient);
  return quotient - down > T(0.5) ? down + 1 : down;
}

NEEDLE_INLINE double sigmoid(double x) {
  const double e = exp(-abs(x));  // never overflows
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

// Floating: our own float32 functions. At most 2 ulp from the true value, infinities, NaN and
// subnormals included; tests/native/test_accuracy.py holds them to it.

// exp(x) = 2^n e^r with n whole and |r| <= ln(2) / 2.
NEEDLE_INLINE float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -105.0f ? -105.0f : clamped;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  // ln(2) in two parts; n times the first is exact, and `lost` is what r had to round away.
  const float high = clamped - n * 0.693359375f, low = n * 2.12194440e-4f;
  const float r = high + low;
  const float lost = low - (r - high);
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float sum = 1.0f + r;
  const float e = sum + ((r - (sum - 1.0f)) + ((p * r) * r + lost));
  const int32_t k = static_cast<int32_t>(bits_of(shifted) - bits_of(kRound));
  // 2^k in two factors, since the result may be subnormal or infinite while e is neither.
  const int32_t half = k >> 1;
  const float scale1 = float_of(static_cast<uint32_t>(half + 127) << 23);
  const float scale2 = float_of(static_cast<uint32_t>(k - half + 127) << 23);
  return e * scale1 * scale2;
}

// log(x) = n ln(2) + log(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
NEEDLE_INLINE float log(float x) {
  constexpr float kInfinity = __builtin_inff();
  const bool is_subnormal = x < 1.17549435e-38f;
  const float normal = is_subnormal ? x * 8388608.0f : x;  // times 2^23
  const uint32_t from_sqrt_half = bits_of(normal) - bits_of(0.70710678f);
  const int32_t exponent = static_cast<int32_t>(from_sqrt_half) >> 23;
  const float n = static_cast<float>(exponent - (is_subnormal ? 23 : 0));
  const float f = float_of(bits_of(normal) - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float z = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float tail = p * f * z - n * 2.12194440e-4f - 0.5f * z;
  const float finite = f + tail + n * 0.693359375f;
  const float at_edges = x == 0 ? -kInfinity : x < 0 ? __builtin_nanf("") : x;
  return (x > 0) & (x < kInfinity) ? finite : at_edges;
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
NEEDLE_INLINE float tanh(float x) {
  const float a = abs(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float far = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return a < 0.625f ? near : copy_sign(far, x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
NEEDLE_INLINE float sigmoid(float x) {
  const float e = exp(-abs(x));  // never overflows
  const float sum = 1.0f + e;
  const float lost = e - (sum - 1.0f);
  const float y = (x < 0 ? e : 1.0f) / sum;
  return y - y * (lost * (1.0f - 0.5f * e));
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
