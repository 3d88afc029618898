// float64 functions of our own, in the style of math.h: at most 2 ulp from the true value, NumPy's
// results at the edges, no branches. They are written without fma(), since half of the instruction
// sets would have to compute it by hand; so they have the same bits everywhere as they are.
//
// The coefficients are weighted minimax fits over the interval that each comment names.
#pragma once

#include "math.h"

namespace needle::NEEDLE_ISA {
namespace {

// 2^n where the low 12 bits of `whole` are n, as in the sum of n and kRoundDouble.
NEEDLE_INLINE double power_of_two_by(uint64_t whole) { return double_of((whole + 1023) << 52); }

// x = n ln(2) + r + lost, n whole and |r| <= ln(2) / 2; the low bits of `whole` are n.
struct ReducedDouble {
  double n, r, lost;
  uint64_t whole;
};

NEEDLE_INLINE ReducedDouble by_log2(double x) {
  const double shifted = x * 1.4426950408889634 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double high = x - n * 0.69314718036912382;  // exact: the constant has 32 bits
  const double low = n * 1.9082149292705877e-10;
  const double r = high - low;
  return {n, r, (high - r) - low, bits_of(shifted)};
}

// (e^r - 1 - r) for |r| <= ln(2) / 2.
NEEDLE_INLINE double exp_beyond_linear(double r) {
  const double p =
      polynomial(r, 5.00000000000000000e-01, 1.66666666666666768e-01, 4.16666666666666990e-02,
                 8.33333333332153189e-03, 1.38888888888666654e-03, 1.98412698864014779e-04,
                 2.48015873608983002e-05, 2.75572439113293272e-06, 2.75572424678651986e-07,
                 2.51091474955704469e-08, 2.09245332962335106e-09);
  return r * r * p;
}

NEEDLE_INLINE double clamped(double x, double least, double most) {  // NaN stays NaN
  const double below = x > most ? most : x;
  return below < least ? least : below;
}

NEEDLE_INLINE double exp(double x) {
  const ReducedDouble a = by_log2(clamped(x, -746.0, 710.0));
  const double e = 1.0 + (a.r + exp_beyond_linear(a.r));
  // 2^n in two factors, since the result may be subnormal or infinite while e is neither.
  const uint64_t half = bits_of(a.n * 0.5 + kRoundDouble);
  return e * power_of_two_by(half) * power_of_two_by(a.whole - half);
}

// 2^n (e^r - 1) + (2^n - 1), by halves: 2^1024 is no double.
NEEDLE_INLINE double expm1(double x) {
  const ReducedDouble a = by_log2(clamped(x, -50.0, 710.0));
  const double beyond = exp_beyond_linear(a.r) + a.lost;
  const double half = power_of_two_by(a.whole - 1);
  const double y = (((half - 0.5) + half * a.r) + half * beyond) * 2.0;
  return x == 0 ? x : a.n == 0 ? a.r + beyond : y;
}

// x = 2^n m, m in [sqrt(1/2), sqrt(2)), for x in [2^-1022, inf).
struct Scaled {
  double n, m;
};

NEEDLE_INLINE Scaled by_exponent(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kBias = 1023;
  constexpr double kTop = 4503599627370496.0;  // 2^52: the last bits of 2^52 + n are n
  const uint64_t exponent = (bits_of(x) - kRootHalf + (kBias << 52)) >> 52;
  const double n = double_of(exponent | bits_of(kTop)) - (kTop + static_cast<double>(kBias));
  return {n, double_of(bits_of(x) - ((exponent - kBias) << 52))};
}

// ln(2^n (1 + f)) + more, for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f),
// ln(1 + f) = 2 artanh(s) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 / 3 + 2 s^4 / 5 + ...).
NEEDLE_INLINE double log_of(double n, double f, double more) {
  const double s = f / (2.0 + f), z = s * s;
  const double p =
      polynomial(z, 6.66666666666673513e-01, 3.99999999994110900e-01, 2.85714287432629610e-01,
                 2.22221984759643970e-01, 1.81835697407094987e-01, 1.53139032276823878e-01,
                 1.47975078689251971e-01);
  const double half_square = 0.5 * f * f;
  const double tail = s * (half_square + z * p) + (n * 1.9082149292705877e-10 + more);
  return n * 0.69314718036912382 - ((half_square - tail) - f);
}

// log and log1p outside of (0, inf).
NEEDLE_INLINE double log_or_edge(double x, double inside) {
  constexpr double kInfinity = __builtin_inf();
  const double edge = x == 0 ? -kInfinity : x < 0 ? __builtin_nan("") : x;
  return (x > 0) & (x < kInfinity) ? inside : edge;
}

NEEDLE_INLINE double log(double x) {
  const bool is_subnormal = x < 2.2250738585072014e-308;
  const Scaled a = by_exponent(is_subnormal ? x * 18014398509481984.0 : x);  // times 2^54
  return log_or_edge(x, log_of(is_subnormal ? a.n - 54.0 : a.n, a.m - 1.0, 0.0));
}

// ln(u + c) where u = 1 + x was rounded and c is what the rounding lost.
NEEDLE_INLINE double log1p(double x) {
  const double u = 1.0 + x;
  const double c = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
  const Scaled a = by_exponent(u);
  const bool is_near = a.n == 0;
  const double y = log_of(a.n, is_near ? x : a.m - 1.0, is_near ? 0.0 : c / u);
  return x == 0 ? x : log_or_edge(u, y);
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
NEEDLE_INLINE double tanh(double x) {
  const double a = __builtin_fabs(x), z = x * x;
  const double p =
      polynomial(z, -3.33333333333328652e-01, 1.33333333332628950e-01, -5.39682539315415669e-02,
                 2.18694875804082353e-02, -8.86322103690355065e-03, 3.59198929357156449e-03,
                 -1.45495878394790432e-03, 5.86314168733058881e-04, -2.28555674875045248e-04,
                 7.71308145513747707e-05, -1.60642297503099200e-05);
  const double near = x + x * z * p;
  const ReducedDouble t = by_log2(a > 20.0 ? 40.0 : a + a);  // from 19.1 on, far is 1
  const double e = 1.0 + (t.r + exp_beyond_linear(t.r));
  const double far = 1.0 - 2.0 / (e * power_of_two_by(t.whole) + 1.0);
  return __builtin_copysign(a < 0.625 ? near : far, x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
NEEDLE_INLINE double sigmoid(double x) {
  const double e = exp(-__builtin_fabs(x));
  const double sum = 1.0 + e;
  const double lost = e - (sum - 1.0);
  const double y = (x < 0 ? e : 1.0) / sum;
  return y - y * (lost * (1.0 - 0.5 * e));
}

// x - n pi / 2 = r + lost, for |x| <= kLargestAngle: n times each of pi's first three parts, of 33
// bits, is exact, and so are the differences with what they lose. The low bits of `quadrant` are n.
struct AngleDouble {
  double r, lost;
  uint64_t quadrant;
};

// x - y is `rounded` + `lost`, exactly.
struct Difference {
  double rounded, lost;
};
NEEDLE_INLINE Difference difference(double x, double y) {
  const double rounded = x - y, taken = x - rounded;
  return {rounded, (x - (rounded + taken)) + (taken - y)};
}

NEEDLE_INLINE AngleDouble by_quadrant(double x) {
  const double shifted = x * 0.63661977236758134 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const Difference second = difference(x - n * 1.5707963267341256, n * 6.0771005063039660e-11);
  const Difference third = difference(second.rounded, n * 2.0222662487111665e-21);
  const double low = (second.lost + third.lost) - n * 8.4784276603688996e-32;
  const double r = third.rounded + low;
  return {r, (third.rounded - r) + low, bits_of(shifted)};
}

// sin(r + lost) and cos(r + lost), |r| <= pi / 4.
NEEDLE_INLINE double sine_near_0(double r, double lost) {
  const double z = r * r;
  const double p =
      polynomial(z, 8.33333333333332281e-03, -1.98412698412550636e-04, 2.75573192141880549e-06,
                 -2.50521049109557957e-08, 1.60583665451238804e-10, -7.57869369404311901e-13);
  const double cube = z * r;
  return r - ((z * (0.5 * lost - cube * p) - lost) - cube * -1.66666666666666657e-01);
}
NEEDLE_INLINE double cosine_near_0(double r, double lost) {
  const double z = r * r, half = 0.5 * z;
  const double p =
      polynomial(z, 4.16666666666666019e-02, -1.38888888888740640e-03, 2.48015872894434885e-05,
                 -2.75573143406608840e-07, 2.08757216238739479e-09, -1.13595593373817711e-11);
  const double first = 1.0 - half;
  return first + (((1.0 - first) - half) + (z * z * p - r * lost));
}

NEEDLE_INLINE double sin_of_moderate(double x) {
  const AngleDouble a = by_quadrant(x);
  const double y = (a.quadrant & 1) != 0 ? cosine_near_0(a.r, a.lost) : sine_near_0(a.r, a.lost);
  return x == 0 ? x : (a.quadrant & 2) != 0 ? -y : y;
}

NEEDLE_INLINE double cos_of_moderate(double x) {
  const AngleDouble a = by_quadrant(x);
  const double y = (a.quadrant & 1) != 0 ? sine_near_0(a.r, a.lost) : cosine_near_0(a.r, a.lost);
  return ((a.quadrant + 1) & 2) != 0 ? -y : y;
}

NEEDLE_INLINE bool is_large_angle(double x) {  // NaN is not
  return __builtin_fabs(x) > static_cast<double>(kLargestAngle);
}
inline double sin(double x) { return is_large_angle(x) ? __builtin_sin(x) : sin_of_moderate(x); }
inline double cos(double x) { return is_large_angle(x) ? __builtin_cos(x) : cos_of_moderate(x); }

}  // namespace
}  // namespace needle::NEEDLE_ISA
