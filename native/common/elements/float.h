// float32 functions of our own: at most 2 ulp from the true value for every argument, NumPy's
// results for NaN, infinities, zeros and subnormals; tests/native/test_accuracy.py holds them to
// it. No branches, so that loops over numbers vectorise.
//
// F is f32, or in the kernels a vector of them, I and U are its integers; choose(c, x, y) is
// c ? x : y, lane by lane. RARE is an ELEMENT that vectors call instead, and EXP_OF_ANY the name
// of exp for all arguments, which is exp_f32 itself for numbers: a vector without large ones takes
// the shorter way (kernels/simd/floats.h).
//
// The coefficients are weighted minimax fits over the interval that each comment names.

// x = n ln(2) + r, n whole and |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to a whole number, which
// the last bits of the sum are.
#define ROUND_F32 12582912.0f
#define LOG2_E_F32 1.44269504f
#define LN2_HIGH_F32 0.693359375f  // of few bits: its products are exact
#define LN2_LOW_F32 -2.12194440e-4f

// n + ROUND_F32, and from this r, and n as an integer.
ELEMENT F shifted_f32(F x) { return fma_f32(x, LOG2_E_F32, ROUND_F32); }
ELEMENT F rest_f32(F x, F shifted) {
  const F n = shifted - ROUND_F32;
  return fma_f32(n, -LN2_LOW_F32, fma_f32(n, -LN2_HIGH_F32, x));
}
ELEMENT I whole_f32(F shifted) { return (I)(bits_f32(shifted) - bits_f32(ROUND_F32)); }

ELEMENT F power_of_two_f32(I n) { return of_bits_f32((U)(n + 127) << 23); }

// e^r = 1 + r + EXP_2 r^2 + EXP_3 r^3 + ... for |r| <= ln(2) / 2, off by at most 0.06 ulp.
#define EXP_2_F32 4.9999994e-1f
#define EXP_3_F32 1.66665211e-1f
#define EXP_4_F32 4.1668389e-2f
#define EXP_5_F32 8.36874545e-3f
#define EXP_6_F32 1.38145383e-3f

// e^r - 1. Even and odd powers side by side: the next step waits for half as many.
ELEMENT F exp_near_0_f32(F r) {
  const F squared = r * r;
  const F odd = POLY2(f32, squared, EXP_3_F32, EXP_5_F32);
  const F even = POLY3(f32, squared, EXP_2_F32, EXP_4_F32, EXP_6_F32);
  return fma_f32(fma_f32(odd, r, even), squared, r);
}

RARE F EXP_OF_ANY(F x) {
  const F bounded = at_least_f32(at_most_f32(x, 89.0f), -105.0f), shifted = shifted_f32(bounded);
  const F e = exp_near_0_f32(rest_f32(bounded, shifted)) + 1.0f;
  // 2^n in two factors, since the result may be subnormal or infinite while e is neither.
  const I n = whole_f32(shifted), half = n >> 1;
  return e * power_of_two_f32(half) * power_of_two_f32(n - half);
}

// The same bits where the result is neither: for |x| <= LARGEST_POWER.
#define LARGEST_POWER 87.0f
ELEMENT F exp_of_moderate_f32(F x) {
  const F shifted = shifted_f32(x), power = power_of_two_f32(whole_f32(shifted));
  return fma_f32(exp_near_0_f32(rest_f32(x, shifted)), power, power);
}

// 2^n (e^r - 1) + (2^n - 1)
ELEMENT F expm1_f32(F x) {
  const F bounded = at_least_f32(at_most_f32(x, 89.0f), -30.0f), shifted = shifted_f32(bounded);
  const F r = rest_f32(bounded, shifted);
  const F p = POLY6(f32, r, 5.000000000e-01f, 1.666666716e-01f, 4.166635126e-02f, 8.333273232e-03f,
                    1.394122024e-03f, 1.991385361e-04f);
  const F e = fma_f32(p * r, r, r);
  const I n = whole_f32(shifted);
  const F half = power_of_two_f32(n - 1);  // 2^128 is no float
  const F y = fma_f32(e, half, half - 0.5f) * 2.0f;
  return choose(abs_f32(x) < 1e-7f, x, choose(n == 0, e, y));
}

// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
#define ROOT_HALF_F32 0.70710678f
ELEMENT F log_of_f32(F n, F f) {
  const F z = f * f;
  const F p = POLY9(f32, f, 3.333331347e-01f, -2.500000894e-01f, 2.000211924e-01f,
                    -1.666799635e-01f, 1.421955079e-01f, -1.240559146e-01f, 1.188817471e-01f,
                    -1.167564094e-01f, 6.746601313e-02f);
  const F tail = fma_f32(n, LN2_LOW_F32, fma_f32(p * f, z, -0.5f * z));
  return fma_f32(n, LN2_HIGH_F32, f + tail);
}

// log and log1p outside of (0, inf).
ELEMENT F log_or_edge_f32(F x, F inside) {
  const F edge = choose(x == 0.0f, -INFINITY, choose(x < 0.0f, NAN, x));
  return choose((x > 0.0f) & (x < INFINITY), inside, edge);
}

ELEMENT F log_f32(F x) {
  const I is_subnormal = x < 1.17549435e-38f;
  const F normal = choose(is_subnormal, x * 8388608.0f, x);  // times 2^23
  const I exponent = (I)(bits_f32(normal) - bits_f32(ROOT_HALF_F32)) >> 23;
  const F n = of_int_f32(exponent) - choose(is_subnormal, 23.0f, 0.0f);
  const F f = of_bits_f32(bits_f32(normal) - ((U)exponent << 23)) - 1.0f;
  return log_or_edge_f32(x, log_of_f32(n, f));
}

// ln(u + c) where u = 1 + x was rounded and c is what the rounding lost.
ELEMENT F log1p_f32(F x) {
  const F u = 1.0f + x;
  const F c = choose(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f));
  const I exponent = (I)(bits_f32(u) - bits_f32(ROOT_HALF_F32)) >> 23;
  const U scale = (U)exponent << 23;
  const F f = of_bits_f32(bits_f32(u) - scale) - 1.0f;
  const F correction = choose(exponent > 60, 0.0f, c * of_bits_f32(bits_f32(1.0f) - scale));
  const F y = log_of_f32(of_int_f32(exponent), f + correction);
  return choose(x == 0.0f, x, log_or_edge_f32(u, y));
}

// Near 0 an odd polynomial, elsewhere 1 - 2 / (e^2|x| + 1).
ELEMENT F tanh_f32(F x) {
  const F a = abs_f32(x), z = x * x;
  const F p = POLY5(f32, z, -3.333328068e-01f, 1.333138347e-01f, -5.373400077e-02f,
                    2.061812207e-02f, -5.679303780e-03f);
  const F near = fma_f32(p * z, x, x);
  const F twice = at_most_f32(a + a, 40.0f);  // from 18 on, far is 1
  const F far = 1.0f - 2.0f / (exp_of_moderate_f32(twice) + 1.0f);
  return copysign_f32(choose(a < 0.625f, near, far), x);
}

// e / (1 + e) or 1 / (1 + e), corrected for what the sum rounds away (1 / (1 + e) ~ 1 - e / 2).
ELEMENT F sigmoid_by_f32(F x, F e) {
  const F sum = 1.0f + e;
  const F lost = e - (sum - 1.0f);
  const F y = choose(x < 0.0f, e, 1.0f) / sum;
  return fma_f32(-y, lost * fma_f32(e, -0.5f, 1.0f), y);
}
ELEMENT F sigmoid_f32(F x) { return sigmoid_by_f32(x, exp_f32(-abs_f32(x))); }

// Near 0 an odd polynomial, elsewhere 1 - e^-q with q(|x|) = -ln(1 - erf|x|); above 3.93 it is 1.
ELEMENT F erf_f32(F x) {
  const F a = abs_f32(x), z = x * x;
  const F p = POLY6(f32, z, 1.283791512e-01f, -3.761247993e-01f, 1.128168255e-01f,
                    -2.676171996e-02f, 4.985940177e-03f, -5.953739164e-04f);
  const F b = at_most_f32(a, 4.0f);
  const F q = POLY7(f32, b, 1.286484897e-01f, 6.351513267e-01f, 1.062368900e-01f, -2.376207523e-02f,
                    3.642465221e-03f, -3.228054265e-04f, 1.123147013e-05f);
  const F far = 1.0f - exp_of_moderate_f32(-fma_f32(q, b, b));
  return choose(a < 0.92f, fma_f32(p, x, x), choose(x != x, x, copysign_f32(far, x)));
}

// The normal distribution at x: its density but for the factor 1 / sqrt(2 pi), e^(-x^2 / 2), and
// the probability below x. That above |x| is the density times Mills' ratio, which is smooth and
// positive. Above 13.1 both are less than 1e-37: 0. `b` is |x| up to there.
#define LARGEST_NORMAL 13.1f
ELEMENT F mills_ratio_f32(F b) {
  const F squared = b * b;
  const F above =
      fma_f32(POLY2(f32, squared, 4.352176189e-01f, 3.986837342e-02f), b,
              POLY3(f32, squared, 5.000000000e-01f, 1.809616536e-01f, 4.003128037e-03f));
  const F under =
      fma_f32(POLY3(f32, squared, 1.668320179e+00f, 4.634695947e-01f, 1.003420539e-02f), b,
              POLY3(f32, squared, 1.000000000e+00f, 1.193046212e+00f, 9.994275123e-02f));
  return above / under;
}
ELEMENT F normal_density_f32(F x, F b) {
  const F density = exp_of_moderate_f32(-0.5f * (b * b));
  return choose(abs_f32(x) > LARGEST_NORMAL, 0.0f, density);
}
ELEMENT F normal_below_f32(F x, F tail) { return choose(x < 0.0f, tail, 1.0f - tail); }

ELEMENT F gelu_f32(F x) {
  const F b = at_most_f32(abs_f32(x), LARGEST_NORMAL), ratio = mills_ratio_f32(b);
  return x * normal_below_f32(x, normal_density_f32(x, b) * ratio);
}
ELEMENT F gelu_slope_f32(F x) {
  const F b = at_most_f32(abs_f32(x), LARGEST_NORMAL), ratio = mills_ratio_f32(b);
  const F density = normal_density_f32(x, b);
  return fma_f32(x, density * 0.398942280f, normal_below_f32(x, density * ratio));
}

#undef F
#undef I
#undef U
#undef RARE
#undef EXP_OF_ANY
