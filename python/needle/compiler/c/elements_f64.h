// Functions of double in C11: kernels/math_double.h says how they work and where their coefficients
// come from; the rest is the C library's. After elements_f32.h.

// 2^n where the low 12 bits of `whole` are n, as in the sum of n and ROUND_DOUBLE.
static inline f64 power_of_two_by(uint64_t whole) { return double_of((whole + 1023) << 52); }

// x = n ln(2) + r + lost, n whole and |r| <= ln(2) / 2; the low bits of `whole` are n.
typedef struct {
  f64 n, r, lost;
  uint64_t whole;
} ReducedDouble;

static inline ReducedDouble by_log2_f64(f64 x) {
  const f64 shifted = x * 1.4426950408889634 + ROUND_DOUBLE;
  const f64 n = shifted - ROUND_DOUBLE;
  const f64 high = x - n * 0.69314718036912382;  // exact: the constant has 32 bits
  const f64 low = n * 1.9082149292705877e-10;
  const f64 r = high - low;
  const ReducedDouble result = {n, r, (high - r) - low, long_bits_of(shifted)};
  return result;
}

// (e^r - 1 - r) for |r| <= ln(2) / 2.
static inline f64 exp_beyond_linear(f64 r) {
  f64 p = 2.09245332962335106e-09 * r + 2.51091474955704469e-08;
  p = p * r + 2.75572424678651986e-07;
  p = p * r + 2.75572439113293272e-06;
  p = p * r + 2.48015873608983002e-05;
  p = p * r + 1.98412698864014779e-04;
  p = p * r + 1.38888888888666654e-03;
  p = p * r + 8.33333333332153189e-03;
  p = p * r + 4.16666666666666990e-02;
  p = p * r + 1.66666666666666768e-01;
  p = p * r + 5.00000000000000000e-01;
  return r * r * p;
}

static inline f64 clamped_f64(f64 x, f64 least, f64 most) {  // NaN stays NaN
  const f64 below = x > most ? most : x;
  return below < least ? least : below;
}

static inline f64 exp_f64(f64 x) {
  const ReducedDouble a = by_log2_f64(clamped_f64(x, -746.0, 710.0));
  const f64 e = 1.0 + (a.r + exp_beyond_linear(a.r));
  // 2^n in two factors, since the result may be subnormal or infinite while e is neither.
  const uint64_t half = long_bits_of(a.n * 0.5 + ROUND_DOUBLE);
  return e * power_of_two_by(half) * power_of_two_by(a.whole - half);
}

// 2^n (e^r - 1) + (2^n - 1), by halves: 2^1024 is no double.
static inline f64 expm1_f64(f64 x) {
  const ReducedDouble a = by_log2_f64(clamped_f64(x, -50.0, 710.0));
  const f64 beyond = exp_beyond_linear(a.r) + a.lost;
  const f64 half = power_of_two_by(a.whole - 1);
  const f64 y = (((half - 0.5) + half * a.r) + half * beyond) * 2.0;
  return x == 0 ? x : a.n == 0 ? a.r + beyond : y;
}

// x = 2^n m, m in [sqrt(1/2), sqrt(2)), for x in [2^-1022, inf).
typedef struct {
  f64 n, m;
} Scaled;

static inline Scaled by_exponent(f64 x) {
  const uint64_t root_half = 0x3fe6a09e667f3bcd, bias = 1023;
  const f64 top = 4503599627370496.0;  // 2^52: the last bits of 2^52 + n are n
  const uint64_t exponent = (long_bits_of(x) - root_half + (bias << 52)) >> 52;
  const f64 n = double_of(exponent | long_bits_of(top)) - (top + (f64)bias);
  const Scaled result = {n, double_of(long_bits_of(x) - ((exponent - bias) << 52))};
  return result;
}

// ln(2^n (1 + f)) + more, for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f),
// ln(1 + f) = 2 artanh(s) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 / 3 + 2 s^4 / 5 + ...).
static inline f64 log_of_f64(f64 n, f64 f, f64 more) {
  const f64 s = f / (2.0 + f), z = s * s;
  f64 p = 1.47975078689251971e-01 * z + 1.53139032276823878e-01;
  p = p * z + 1.81835697407094987e-01;
  p = p * z + 2.22221984759643970e-01;
  p = p * z + 2.85714287432629610e-01;
  p = p * z + 3.99999999994110900e-01;
  p = p * z + 6.66666666666673513e-01;
  const f64 half_square = 0.5 * f * f;
  const f64 tail = s * (half_square + z * p) + (n * 1.9082149292705877e-10 + more);
  return n * 0.69314718036912382 - ((half_square - tail) - f);
}

// log and log1p outside of (0, inf).
static inline f64 log_or_edge_f64(f64 x, f64 inside) {
  const f64 edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return (x > 0) & (x < INFINITY) ? inside : edge;
}

static inline f64 log_f64(f64 x) {
  const int is_subnormal = x < 2.2250738585072014e-308;
  const Scaled a = by_exponent(is_subnormal ? x * 18014398509481984.0 : x);  // times 2^54
  return log_or_edge_f64(x, log_of_f64(is_subnormal ? a.n - 54.0 : a.n, a.m - 1.0, 0.0));
}

// ln(u + c) where u = 1 + x was rounded and c is what the rounding lost.
static inline f64 log1p_f64(f64 x) {
  const f64 u = 1.0 + x;
  const f64 c = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
  const Scaled a = by_exponent(u);
  const int is_near = a.n == 0;
  const f64 y = log_of_f64(a.n, is_near ? x : a.m - 1.0, is_near ? 0.0 : c / u);
  return x == 0 ? x : log_or_edge_f64(u, y);
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
static inline f64 tanh_f64(f64 x) {
  const f64 a = fabs(x), z = x * x;
  f64 p = -1.60642297503099200e-05 * z + 7.71308145513747707e-05;
  p = p * z + -2.28555674875045248e-04;
  p = p * z + 5.86314168733058881e-04;
  p = p * z + -1.45495878394790432e-03;
  p = p * z + 3.59198929357156449e-03;
  p = p * z + -8.86322103690355065e-03;
  p = p * z + 2.18694875804082353e-02;
  p = p * z + -5.39682539315415669e-02;
  p = p * z + 1.33333333332628950e-01;
  p = p * z + -3.33333333333328652e-01;
  const f64 near = x + x * z * p;
  const ReducedDouble t = by_log2_f64(a > 20.0 ? 40.0 : a + a);  // from 19.1 on, far is 1
  const f64 e = 1.0 + (t.r + exp_beyond_linear(t.r));
  const f64 far = 1.0 - 2.0 / (e * power_of_two_by(t.whole) + 1.0);
  return copysign(a < 0.625 ? near : far, x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
static inline f64 sigmoid_f64(f64 x) {
  const f64 e = exp_f64(-fabs(x));
  const f64 sum = 1.0 + e;
  const f64 lost = e - (sum - 1.0);
  const f64 y = (x < 0 ? e : 1.0) / sum;
  return y - y * (lost * (1.0 - 0.5 * e));
}

// x - n pi / 2 = r + lost, for |x| <= LARGEST_ANGLE: n times each of pi's first three parts, of 33
// bits, is exact, and so are the differences with what they lose. The low bits of `quadrant` are n.
typedef struct {
  f64 r, lost;
  uint64_t quadrant;
} AngleDouble;

// x - y is `rounded` + `lost`, exactly.
typedef struct {
  f64 rounded, lost;
} Difference;
static inline Difference difference(f64 x, f64 y) {
  const f64 rounded = x - y, taken = x - rounded;
  const Difference result = {rounded, (x - (rounded + taken)) + (taken - y)};
  return result;
}

static inline AngleDouble by_quadrant_f64(f64 x) {
  const f64 shifted = x * 0.63661977236758134 + ROUND_DOUBLE;
  const f64 n = shifted - ROUND_DOUBLE;
  const Difference second = difference(x - n * 1.5707963267341256, n * 6.0771005063039660e-11);
  const Difference third = difference(second.rounded, n * 2.0222662487111665e-21);
  const f64 low = (second.lost + third.lost) - n * 8.4784276603688996e-32;
  const f64 r = third.rounded + low;
  const AngleDouble result = {r, (third.rounded - r) + low, long_bits_of(shifted)};
  return result;
}

// sin(r + lost) and cos(r + lost), |r| <= pi / 4.
static inline f64 sine_near_0(f64 r, f64 lost) {
  const f64 z = r * r;
  f64 p = -7.57869369404311901e-13 * z + 1.60583665451238804e-10;
  p = p * z + -2.50521049109557957e-08;
  p = p * z + 2.75573192141880549e-06;
  p = p * z + -1.98412698412550636e-04;
  p = p * z + 8.33333333333332281e-03;
  const f64 cube = z * r;
  return r - ((z * (0.5 * lost - cube * p) - lost) - cube * -1.66666666666666657e-01);
}
static inline f64 cosine_near_0(f64 r, f64 lost) {
  const f64 z = r * r, half = 0.5 * z;
  f64 p = -1.13595593373817711e-11 * z + 2.08757216238739479e-09;
  p = p * z + -2.75573143406608840e-07;
  p = p * z + 2.48015872894434885e-05;
  p = p * z + -1.38888888888740640e-03;
  p = p * z + 4.16666666666666019e-02;
  const f64 first = 1.0 - half;
  return first + (((1.0 - first) - half) + (z * z * p - r * lost));
}

static inline f64 sin_of_moderate(f64 x) {
  const AngleDouble a = by_quadrant_f64(x);
  const f64 y = (a.quadrant & 1) != 0 ? cosine_near_0(a.r, a.lost) : sine_near_0(a.r, a.lost);
  return x == 0 ? x : (a.quadrant & 2) != 0 ? -y : y;
}

static inline f64 cos_of_moderate(f64 x) {
  const AngleDouble a = by_quadrant_f64(x);
  const f64 y = (a.quadrant & 1) != 0 ? sine_near_0(a.r, a.lost) : cosine_near_0(a.r, a.lost);
  return ((a.quadrant + 1) & 2) != 0 ? -y : y;
}

static inline int is_large_angle(f64 x) {  // NaN is not
  return fabs(x) > LARGEST_ANGLE;
}
static inline f64 sin_f64(f64 x) { return is_large_angle(x) ? sin(x) : sin_of_moderate(x); }
static inline f64 cos_f64(f64 x) { return is_large_angle(x) ? cos(x) : cos_of_moderate(x); }

#define LIBRARY(name) \
  static inline f64 name##_f64(f64 x) { return name(x); }

LIBRARY(tan)
LIBRARY(asin)
LIBRARY(acos)
LIBRARY(atan)
LIBRARY(sinh)
LIBRARY(cosh)
LIBRARY(erf)
static inline f64 power_f64(f64 x, f64 y) { return pow(x, y); }
static inline f64 atan2_f64(f64 y, f64 x) { return atan2(y, x); }
static inline f64 normal_below(f64 x) { return 0.5 * erfc(x * -0.70710678118654752); }
static inline f64 gelu_f64(f64 x) { return x * normal_below(x); }
static inline f64 gelu_slope_f64(f64 x) {
  return normal_below(x) + x * (exp_f64(-0.5 * x * x) * 0.39894228040143268);
}
