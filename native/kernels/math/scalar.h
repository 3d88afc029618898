// The functions of elementwise.def's formulas, for one element of a compute type: float, double,
// int32_t, int64_t, bool_t. NumPy's meaning; integers wrap around (the kernels are built with
// -fwrapv). Those for float are in math.h, some for double in math_double.h.
#pragma once

#include "math_double.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
concept Integer = is_same<T, int32_t> || is_same<T, int64_t>;
template <class T>
concept Floating = is_floating<T>;
template <class T>
concept Whole = Integer<T> || is_same<T, bool_t>;

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
  const T divisor = (y == 0) | (y == -1) ? 1 : y;  // neither may reach the machine's division
  const T quotient = x / divisor;
  // & for &&: signs are hard to predict (100,000 of int64: 378 -> 134 us).
  const bool rounds_up = (quotient * divisor != x) & ((x < 0) != (divisor < 0));
  return y == 0 ? 0 : y == -1 ? -x : quotient - rounds_up;
}

template <Integer T>
NEEDLE_INLINE T remainder(T x, T y) {
  const T divisor = (y == 0) | (y == -1) ? 1 : y;
  const T rest = x % divisor;
  return rest + (divisor & -T((rest != 0) & ((rest < 0) != (divisor < 0))));
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

template <Whole T>
NEEDLE_INLINE T floor(T x) {
  return x;
}
template <Whole T>
NEEDLE_INLINE T ceil(T x) {
  return x;
}
template <Whole T>
NEEDLE_INLINE T round_half_even(T x) {
  return x;
}
template <Whole T>
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
NEEDLE_LIBM_DOUBLE(tan)
NEEDLE_LIBM_DOUBLE(asin)
NEEDLE_LIBM_DOUBLE(acos)
NEEDLE_LIBM_DOUBLE(atan)
NEEDLE_LIBM_DOUBLE(sinh)
NEEDLE_LIBM_DOUBLE(cosh)
NEEDLE_LIBM_DOUBLE(erf)

#undef NEEDLE_LIBM
#undef NEEDLE_LIBM_DOUBLE

NEEDLE_INLINE float mod(float x, float y) { return __builtin_fmodf(x, y); }
NEEDLE_INLINE double mod(double x, double y) { return __builtin_fmod(x, y); }
NEEDLE_INLINE float copy_sign(float x, float y) { return __builtin_copysignf(x, y); }
NEEDLE_INLINE double copy_sign(double x, double y) { return __builtin_copysign(x, y); }
NEEDLE_INLINE double power(double x, double y) { return __builtin_pow(x, y); }
NEEDLE_INLINE double atan2(double y, double x) { return __builtin_atan2(y, x); }

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

NEEDLE_INLINE double normal_below(double x) {
  return 0.5 * __builtin_erfc(x * -0.70710678118654752);
}
NEEDLE_INLINE double gelu(double x) { return x * normal_below(x); }
NEEDLE_INLINE double gelu_slope(double x) {
  return normal_below(x) + x * (exp(-0.5 * x * x) * 0.39894228040143268);
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
