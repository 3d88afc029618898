// float32 functions that are computed in double, where errors of 1e-12 vanish when the result is
// rounded to float; float.h says what all of them promise. After double.h, which has what they
// share.

// e^x for |x| <= 700, 1e-12 off at most.
ELEMENT f64 exp_in_f64(f64 x) {
  const f64 shifted = x * LOG2_E_F64 + ROUND_F64, n = shifted - ROUND_F64;
  const f64 r = (x - n * LN2_HIGH_F64) - n * LN2_LOW_F64;
  const f64 p = POLY7(f64, r, 4.99999999995121180e-01, 1.66666667880204011e-01,
                      4.16666670587029844e-02, 8.33328086901073684e-03, 1.38887957080963825e-03,
                      1.99095056653254967e-04, 2.48879432698707248e-05);
  const f64 e = 1.0 + (r + r * r * p);
  return of_bits_f64(bits_f64(e) + (bits_f64(shifted) << 52));
}

ELEMENT f32 sinh_f32(f32 x) {
  const f64 a = (f64)at_least_f32(at_most_f32(x, 100.0f), -100.0f), e = exp_in_f64(a);
  const f64 near = a + a * a * a * (1.0 / 6);
  return (f32)(LIB(fabsf)(x) < 1e-3f ? near : 0.5 * (e - 1.0 / e));
}

ELEMENT f32 cosh_f32(f32 x) {
  const f64 e = exp_in_f64((f64)at_least_f32(at_most_f32(x, 100.0f), -100.0f));
  return (f32)(0.5 * (e + 1.0 / e));
}

typedef struct {
  f64 sine, cosine;  // of x - n pi / 2
  u64 quadrant;      // n
} Angle_f32;

ELEMENT Angle_f32 by_quadrant_f32(f32 x) {
  const f64 a = (f64)x, shifted = a * TWO_OVER_PI + ROUND_F64, n = shifted - ROUND_F64;
  const f64 r = (a - n * HALF_PI_HIGH) - n * 6.0771005065061922e-11, z = r * r;
  const f64 s = POLY5(f64, z, -1.66666666666297730e-01, 8.33333332494241852e-03,
                      -1.98412636404830605e-04, 2.75553184752839242e-06, -2.47587704622004151e-08);
  const f64 c = POLY5(f64, z, 4.16666666665938962e-02, -1.38888888772084476e-03,
                      2.48015805128166451e-05, -2.75554858539381312e-07, 2.06426434655014379e-09);
  const Angle_f32 angle = {r + r * z * s, 1.0 - 0.5 * z + z * z * c, bits_f64(shifted)};
  return angle;
}

ELEMENT f32 sin_of_moderate_f32(f32 x) {
  const Angle_f32 a = by_quadrant_f32(x);
  const f64 y = (a.quadrant & 1) != 0 ? a.cosine : a.sine;
  const f32 result = (f32)((a.quadrant & 2) != 0 ? -y : y);
  return x == 0 ? x : result;
}

ELEMENT f32 cos_of_moderate_f32(f32 x) {
  const Angle_f32 a = by_quadrant_f32(x);
  const f64 y = (a.quadrant & 1) != 0 ? a.sine : a.cosine;
  return (f32)(((a.quadrant + 1) & 2) != 0 ? -y : y);
}

ELEMENT f32 tan_of_moderate_f32(f32 x) {
  const Angle_f32 a = by_quadrant_f32(x);
  const int is_odd = (a.quadrant & 1) != 0;
  const f64 y = (is_odd ? -a.cosine : a.sine) / (is_odd ? a.sine : a.cosine);
  return x == 0 ? x : (f32)y;
}

ELEMENT f32 sin_f32(f32 x) {
  return LIB(fabsf)(x) > LARGEST_ANGLE ? (f32)LIB(sin)((f64)x) : sin_of_moderate_f32(x);
}
ELEMENT f32 cos_f32(f32 x) {
  return LIB(fabsf)(x) > LARGEST_ANGLE ? (f32)LIB(cos)((f64)x) : cos_of_moderate_f32(x);
}
ELEMENT f32 tan_f32(f32 x) {
  return LIB(fabsf)(x) > LARGEST_ANGLE ? (f32)LIB(tan)((f64)x) : tan_of_moderate_f32(x);
}

// The angle whose tangent is x >= 0: pi / 4 or pi / 2 less is one up to pi / 8.
ELEMENT f64 atan_in_f64(f64 x) {
  const int is_steep = x > 2.4142135623730951, is_flat = x <= 0.41421356237309503;
  const f64 near = is_steep ? 1.5707963267948966 : is_flat ? 0.0 : 0.78539816339744828;
  const f64 above = is_steep ? -1.0 : is_flat ? x : x - 1.0;
  const f64 below = is_steep ? x : is_flat ? 1.0 : x + 1.0;
  const f64 z = above / below, s = z * z;
  const f64 p =
      POLY6(f64, s, -3.33333325145988405e-01, 1.99999051862810676e-01, -1.42820420624307409e-01,
            1.10450934206461156e-01, -8.47840562999932319e-02, 4.74827423640415302e-02);
  return near + (z + z * s * p);
}

ELEMENT f32 atan_f32(f32 x) { return copysign_f32((f32)atan_in_f64((f64)LIB(fabsf)(x)), x); }

ELEMENT f32 asin_f32(f32 x) {
  const f64 a = (f64)LIB(fabsf)(x);
  return copysign_f32((f32)atan_in_f64(a / LIB(sqrt)((1.0 - a) * (1.0 + a))), x);
}

ELEMENT f32 acos_f32(f32 x) {
  const f64 a = (f64)x;
  return (f32)(2.0 * atan_in_f64(LIB(sqrt)((1.0 - a) / (1.0 + a))));
}

// The angle of the point (x, y), in (-pi, pi].
ELEMENT f32 atan2_f32(f32 y, f32 x) {
  const f64 a = (f64)LIB(fabsf)(y), b = (f64)LIB(fabsf)(x);
  const f64 ratio = a != b ? a / b : a == 0 ? 0.0 : 1.0;  // of zeros, and of infinities
  const f64 angle = atan_in_f64((a != a) | (b != b) ? a + b : ratio);
  const f64 turned = copysign_f32(1.0f, x) < 0 ? 3.1415926535897931 - angle : angle;
  return copysign_f32((f32)turned, y);
}

// log2 x for x in (0, inf).
ELEMENT f64 log2_in_f64(f64 x) {
  const u64 exponent = (bits_f64(x) - ROOT_HALF_BITS_F64 + (BIAS_F64 << 52)) >> 52;
  const f64 m = of_bits_f64(bits_f64(x) - ((exponent - BIAS_F64) << 52));
  const f64 s = (m - 1.0) / (m + 1.0), u = s * s;
  const f64 p =
      POLY6(f64, u, 3.33333333332936854e-01, 2.00000000264842936e-01, 1.42857084768866910e-01,
            1.11116932001621552e-01, 9.06156609167168142e-02, 8.41307921614014159e-02);
  const f64 n = (f64)((i32)exponent - 1023);
  return n + (s + s * u * p) * 2.8853900817779268;  // 2 / ln 2
}

// 2^(y log2|x|); then the rules for signs and edges of C's pow.
ELEMENT f32 power_f32(f32 x, f32 y) {
  const f32 a = LIB(fabsf)(x), half = 0.5f * y;
  const f64 far = a == 0 ? -1e300 : 1e300;
  const f64 logarithm = (a > 0) & (a < INFINITY) ? log2_in_f64((f64)a) : far;
  const f64 product = (f64)y * logarithm;
  const f64 above = product > 300 ? 300.0 : product;
  const f64 t = above < -300 ? -300.0 : above;
  const f32 e = (f32)exp_in_f64(t * 0.69314718055994531);
  const int is_whole = LIB(floorf)(y) == y, is_odd = is_whole & (LIB(floorf)(half) != half);
  const int is_undefined = (x < 0) & (a < INFINITY) & !is_whole;
  const f32 numeric = is_undefined ? NAN : is_odd ? copysign_f32(e, x) : e;
  const f32 result = (x != x) | (y != y) ? x + y : numeric;
  const int is_one = (y == 0) | (x == 1) | ((a == 1) & (LIB(fabsf)(y) == INFINITY));
  return is_one ? 1.0f : result;
}
