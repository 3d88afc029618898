// float64 functions of our own, in the style of float.h: at most 2 ulp from the true value, NumPy's
// results at the edges, no branches. They are written without fma, since half of the instruction
// sets would have to compute it by hand; so they have the same bits everywhere as they are. The
// rest is the C library's.
//
// The coefficients are weighted minimax fits over the interval that each comment names.

#define ROUND_F64 6755399441055744.0  // 1.5 * 2^52: adding it rounds to a whole number
#define LOG2_E_F64 1.4426950408889634
#define LN2_HIGH_F64 0.69314718036912382  // 32 bits: its products with whole numbers are exact
#define LN2_LOW_F64 1.9082149292705877e-10

// 2^n where the low 12 bits of `whole` are n, as in the sum of n and ROUND_F64.
ELEMENT f64 power_of_two_f64(u64 whole) { return of_bits_f64((whole + 1023) << 52); }

// x = n ln(2) + r + lost, n whole and |r| <= ln(2) / 2; the low bits of `whole` are n.
typedef struct {
  f64 n, r, lost;
  u64 whole;
} Reduced_f64;

ELEMENT Reduced_f64 by_log2_f64(f64 x) {
  const f64 shifted = x * LOG2_E_F64 + ROUND_F64, n = shifted - ROUND_F64;
  const f64 high = x - n * LN2_HIGH_F64, low = n * LN2_LOW_F64;
  const f64 r = high - low;
  const Reduced_f64 reduced = {n, r, (high - r) - low, bits_f64(shifted)};
  return reduced;
}

// (e^r - 1 - r) for |r| <= ln(2) / 2.
ELEMENT f64 exp_beyond_linear_f64(f64 r) {
  const f64 p = POLY11(f64, r, 5.00000000000000000e-01, 1.66666666666666768e-01,
                       4.16666666666666990e-02, 8.33333333332153189e-03, 1.38888888888666654e-03,
                       1.98412698864014779e-04, 2.48015873608983002e-05, 2.75572439113293272e-06,
                       2.75572424678651986e-07, 2.51091474955704469e-08, 2.09245332962335106e-09);
  return r * r * p;
}

ELEMENT f64 clamped_f64(f64 x, f64 least, f64 most) {  // NaN stays NaN
  const f64 below = x > most ? most : x;
  return below < least ? least : below;
}

ELEMENT f64 exp_f64(f64 x) {
  const Reduced_f64 a = by_log2_f64(clamped_f64(x, -746.0, 710.0));
  const f64 e = 1.0 + (a.r + exp_beyond_linear_f64(a.r));
  // 2^n in two factors, since the result may be subnormal or infinite while e is neither.
  const u64 half = bits_f64(a.n * 0.5 + ROUND_F64);
  return e * power_of_two_f64(half) * power_of_two_f64(a.whole - half);
}

// 2^n (e^r - 1) + (2^n - 1), by halves: 2^1024 is no double.
ELEMENT f64 expm1_f64(f64 x) {
  const Reduced_f64 a = by_log2_f64(clamped_f64(x, -50.0, 710.0));
  const f64 beyond = exp_beyond_linear_f64(a.r) + a.lost;
  const f64 half = power_of_two_f64(a.whole - 1);
  const f64 y = (((half - 0.5) + half * a.r) + half * beyond) * 2.0;
  return x == 0 ? x : a.n == 0 ? a.r + beyond : y;
}

// x = 2^n m, m in [sqrt(1/2), sqrt(2)), for x in [2^-1022, inf).
#define ROOT_HALF_BITS_F64 ((u64)0x3fe6a09e667f3bcd)
#define BIAS_F64 ((u64)1023)
#define TOP_F64 4503599627370496.0  // 2^52: the last bits of 2^52 + n are n
typedef struct {
  f64 n, m;
} Scaled_f64;

ELEMENT Scaled_f64 by_exponent_f64(f64 x) {
  const u64 exponent = (bits_f64(x) - ROOT_HALF_BITS_F64 + (BIAS_F64 << 52)) >> 52;
  const f64 n = of_bits_f64(exponent | bits_f64(TOP_F64)) - (TOP_F64 + (f64)BIAS_F64);
  const Scaled_f64 scaled = {n, of_bits_f64(bits_f64(x) - ((exponent - BIAS_F64) << 52))};
  return scaled;
}

// ln(2^n (1 + f)) + more, for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f),
// ln(1 + f) = 2 artanh(s) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 / 3 + 2 s^4 / 5 + ...).
ELEMENT f64 log_of_f64(f64 n, f64 f, f64 more) {
  const f64 s = f / (2.0 + f), z = s * s;
  const f64 p = POLY7(f64, z, 6.66666666666673513e-01, 3.99999999994110900e-01,
                      2.85714287432629610e-01, 2.22221984759643970e-01, 1.81835697407094987e-01,
                      1.53139032276823878e-01, 1.47975078689251971e-01);
  const f64 half_square = 0.5 * f * f;
  const f64 tail = s * (half_square + z * p) + (n * LN2_LOW_F64 + more);
  return n * LN2_HIGH_F64 - ((half_square - tail) - f);
}

// log and log1p outside of (0, inf).
ELEMENT f64 log_or_edge_f64(f64 x, f64 inside) {
  const f64 edge = x == 0 ? (f64)-INFINITY : x < 0 ? (f64)NAN : x;
  return (x > 0) & (x < (f64)INFINITY) ? inside : edge;
}

ELEMENT f64 log_f64(f64 x) {
  const int is_subnormal = x < 2.2250738585072014e-308;
  const Scaled_f64 a = by_exponent_f64(is_subnormal ? x * 18014398509481984.0 : x);  // times 2^54
  return log_or_edge_f64(x, log_of_f64(is_subnormal ? a.n - 54.0 : a.n, a.m - 1.0, 0.0));
}

// ln(u + c) where u = 1 + x was rounded and c is what the rounding lost.
ELEMENT f64 log1p_f64(f64 x) {
  const f64 u = 1.0 + x;
  const f64 c = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
  const Scaled_f64 a = by_exponent_f64(u);
  const int is_near = a.n == 0;
  const f64 y = log_of_f64(a.n, is_near ? x : a.m - 1.0, is_near ? 0.0 : c / u);
  return x == 0 ? x : log_or_edge_f64(u, y);
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
ELEMENT f64 tanh_f64(f64 x) {
  const f64 a = LIB(fabs)(x), z = x * x;
  const f64 p = POLY11(f64, z, -3.33333333333328652e-01, 1.33333333332628950e-01,
                       -5.39682539315415669e-02, 2.18694875804082353e-02, -8.86322103690355065e-03,
                       3.59198929357156449e-03, -1.45495878394790432e-03, 5.86314168733058881e-04,
                       -2.28555674875045248e-04, 7.71308145513747707e-05, -1.60642297503099200e-05);
  const f64 near = x + x * z * p;
  const Reduced_f64 t = by_log2_f64(a > 20.0 ? 40.0 : a + a);  // from 19.1 on, far is 1
  const f64 e = 1.0 + (t.r + exp_beyond_linear_f64(t.r));
  const f64 far = 1.0 - 2.0 / (e * power_of_two_f64(t.whole) + 1.0);
  return LIB(copysign)(a < 0.625 ? near : far, x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
ELEMENT f64 sigmoid_f64(f64 x) {
  const f64 e = exp_f64(-LIB(fabs)(x));
  const f64 sum = 1.0 + e;
  const f64 lost = e - (sum - 1.0);
  const f64 y = (x < 0 ? e : 1.0) / sum;
  return y - y * (lost * (1.0 - 0.5 * e));
}

// x - n pi / 2 = r + lost, for |x| <= LARGEST_ANGLE: n times each of pi's first three parts, of 33
// bits, is exact, and so are the differences with what they lose. The low bits of `quadrant` are n.
// Larger angles, also of float32, are left to the C library: the products would not be exact.
#define LARGEST_ANGLE 1048576.0f
#define TWO_OVER_PI 0.63661977236758134
#define HALF_PI_HIGH 1.5707963267341256
typedef struct {
  f64 r, lost;
  u64 quadrant;
} Angle_f64;

// x - y is `rounded` + `lost`, exactly.
typedef struct {
  f64 rounded, lost;
} Difference_f64;
ELEMENT Difference_f64 difference_f64(f64 x, f64 y) {
  const f64 rounded = x - y, taken = x - rounded;
  const Difference_f64 found = {rounded, (x - (rounded + taken)) + (taken - y)};
  return found;
}

ELEMENT Angle_f64 by_quadrant_f64(f64 x) {
  const f64 shifted = x * TWO_OVER_PI + ROUND_F64, n = shifted - ROUND_F64;
  const Difference_f64 second = difference_f64(x - n * HALF_PI_HIGH, n * 6.0771005063039660e-11);
  const Difference_f64 third = difference_f64(second.rounded, n * 2.0222662487111665e-21);
  const f64 low = (second.lost + third.lost) - n * 8.4784276603688996e-32;
  const f64 r = third.rounded + low;
  const Angle_f64 angle = {r, (third.rounded - r) + low, bits_f64(shifted)};
  return angle;
}

// sin(r + lost) and cos(r + lost), |r| <= pi / 4.
ELEMENT f64 sine_near_0_f64(f64 r, f64 lost) {
  const f64 z = r * r, cube = z * r;
  const f64 p =
      POLY6(f64, z, 8.33333333333332281e-03, -1.98412698412550636e-04, 2.75573192141880549e-06,
            -2.50521049109557957e-08, 1.60583665451238804e-10, -7.57869369404311901e-13);
  return r - ((z * (0.5 * lost - cube * p) - lost) - cube * -1.66666666666666657e-01);
}
ELEMENT f64 cosine_near_0_f64(f64 r, f64 lost) {
  const f64 z = r * r, half = 0.5 * z;
  const f64 p =
      POLY6(f64, z, 4.16666666666666019e-02, -1.38888888888740640e-03, 2.48015872894434885e-05,
            -2.75573143406608840e-07, 2.08757216238739479e-09, -1.13595593373817711e-11);
  const f64 first = 1.0 - half;
  return first + (((1.0 - first) - half) + (z * z * p - r * lost));
}

ELEMENT f64 sin_of_moderate_f64(f64 x) {
  const Angle_f64 a = by_quadrant_f64(x);
  const int is_odd = (a.quadrant & 1) != 0;
  const f64 y = is_odd ? cosine_near_0_f64(a.r, a.lost) : sine_near_0_f64(a.r, a.lost);
  return x == 0 ? x : (a.quadrant & 2) != 0 ? -y : y;
}

ELEMENT f64 cos_of_moderate_f64(f64 x) {
  const Angle_f64 a = by_quadrant_f64(x);
  const int is_odd = (a.quadrant & 1) != 0;
  const f64 y = is_odd ? sine_near_0_f64(a.r, a.lost) : cosine_near_0_f64(a.r, a.lost);
  return ((a.quadrant + 1) & 2) != 0 ? -y : y;
}

ELEMENT f64 sin_f64(f64 x) {  // NaN is not large
  return LIB(fabs)(x) > LARGEST_ANGLE ? LIB(sin)(x) : sin_of_moderate_f64(x);
}
ELEMENT f64 cos_f64(f64 x) {
  return LIB(fabs)(x) > LARGEST_ANGLE ? LIB(cos)(x) : cos_of_moderate_f64(x);
}

// The C library's.
ELEMENT f64 tan_f64(f64 x) { return LIB(tan)(x); }
ELEMENT f64 asin_f64(f64 x) { return LIB(asin)(x); }
ELEMENT f64 acos_f64(f64 x) { return LIB(acos)(x); }
ELEMENT f64 atan_f64(f64 x) { return LIB(atan)(x); }
ELEMENT f64 sinh_f64(f64 x) { return LIB(sinh)(x); }
ELEMENT f64 cosh_f64(f64 x) { return LIB(cosh)(x); }
ELEMENT f64 erf_f64(f64 x) { return LIB(erf)(x); }
ELEMENT f64 power_f64(f64 x, f64 y) { return LIB(pow)(x, y); }
ELEMENT f64 atan2_f64(f64 y, f64 x) { return LIB(atan2)(y, x); }

ELEMENT f64 normal_below_f64(f64 x) { return 0.5 * LIB(erfc)(x * -0.70710678118654752); }
ELEMENT f64 gelu_f64(f64 x) { return x * normal_below_f64(x); }
ELEMENT f64 gelu_slope_f64(f64 x) {
  return normal_below_f64(x) + x * (exp_f64(-0.5 * x * x) * 0.39894228040143268);
}
