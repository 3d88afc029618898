// Functions of float in C11: kernels/math.h says how they work and where their coefficients come
// from. After elements.h.

#define ROUND_FLOAT 12582912.0f          // 1.5 * 2^23: adding it rounds to a whole number
#define ROUND_DOUBLE 6755399441055744.0  // 1.5 * 2^52

static inline f32 power_of_two(i32 n) { return float_of((uint32_t)(n + 127) << 23); }

static inline f32 clamped(f32 x, f32 least, f32 most) {  // NaN stays NaN
  const f32 below = x > most ? most : x;
  return below < least ? least : below;
}

// x = n ln(2) + r, n whole and |r| <= ln(2) / 2.
typedef struct {
  f32 r;
  i32 n;
} Reduced;

static inline Reduced by_log2(f32 x) {
  const f32 shifted = fmaf(x, 1.44269504f, ROUND_FLOAT), n = shifted - ROUND_FLOAT;
  const f32 high = fmaf(n, -0.693359375f, x);
  const Reduced result = {fmaf(n, 2.12194440e-4f, high),
                          (i32)(bits_of(shifted) - bits_of(ROUND_FLOAT))};
  return result;
}

// e^r - 1, even and odd powers side by side
static inline f32 exp_near_0(f32 r) {
  const f32 squared = r * r;
  const f32 odd = fmaf(8.36874545e-3f, squared, 1.66665211e-1f);
  const f32 even = fmaf(fmaf(1.38145383e-3f, squared, 4.1668389e-2f), squared, 4.9999994e-1f);
  return fmaf(fmaf(odd, r, even), squared, r);
}

static inline f32 exp_f32(f32 x) {
  const Reduced a = by_log2(clamped(x, -105.0f, 89.0f));
  const f32 e = exp_near_0(a.r) + 1.0f;
  const i32 half = a.n >> 1;
  return e * power_of_two(half) * power_of_two(a.n - half);
}

static inline f32 expm1_f32(f32 x) {
  const Reduced a = by_log2(clamped(x, -30.0f, 89.0f));
  f32 p = fmaf(1.991385361e-04f, a.r, 1.394122024e-03f);
  p = fmaf(p, a.r, 8.333273232e-03f);
  p = fmaf(p, a.r, 4.166635126e-02f);
  p = fmaf(p, a.r, 1.666666716e-01f);
  p = fmaf(p, a.r, 5.000000000e-01f);
  const f32 e = fmaf(p * a.r, a.r, a.r), half = power_of_two(a.n - 1);
  const f32 y = fmaf(e, half, half - 0.5f) * 2.0f;
  return fabsf(x) < 1e-7f ? x : a.n == 0 ? e : y;
}

// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
static inline f32 log_of(f32 n, f32 f) {
  const f32 z = f * f;
  f32 p = fmaf(6.746601313e-02f, f, -1.167564094e-01f);
  p = fmaf(p, f, 1.188817471e-01f);
  p = fmaf(p, f, -1.240559146e-01f);
  p = fmaf(p, f, 1.421955079e-01f);
  p = fmaf(p, f, -1.666799635e-01f);
  p = fmaf(p, f, 2.000211924e-01f);
  p = fmaf(p, f, -2.500000894e-01f);
  p = fmaf(p, f, 3.333331347e-01f);
  const f32 tail = fmaf(n, -2.12194440e-4f, fmaf(p * f, z, -0.5f * z));
  return fmaf(n, 0.693359375f, f + tail);
}

static inline f32 log_or_edge(f32 x, f32 inside) {
  const f32 edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return (x > 0) & (x < INFINITY) ? inside : edge;
}

static inline f32 log_f32(f32 x) {
  const int is_subnormal = x < 1.17549435e-38f;
  const f32 normal = is_subnormal ? x * 8388608.0f : x;  // times 2^23
  const i32 exponent = (i32)(bits_of(normal) - bits_of(0.70710678f)) >> 23;
  const f32 n = (f32)(exponent - (is_subnormal ? 23 : 0));
  const f32 f = float_of(bits_of(normal) - ((uint32_t)exponent << 23)) - 1.0f;
  return log_or_edge(x, log_of(n, f));
}

static inline f32 log1p_f32(f32 x) {
  const f32 u = 1.0f + x, c = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  const i32 exponent = (i32)(bits_of(u) - bits_of(0.70710678f)) >> 23;
  const uint32_t scale = (uint32_t)exponent << 23;
  const f32 f = float_of(bits_of(u) - scale) - 1.0f;
  const f32 correction = exponent > 60 ? 0.0f : c * float_of(bits_of(1.0f) - scale);
  const f32 y = log_of((f32)exponent, f + correction);
  return x == 0 ? x : log_or_edge(u, y);
}

static inline f32 tanh_f32(f32 x) {
  const f32 a = fabsf(x), z = x * x;
  f32 p = fmaf(-5.679303780e-03f, z, 2.061812207e-02f);
  p = fmaf(p, z, -5.373400077e-02f);
  p = fmaf(p, z, 1.333138347e-01f);
  p = fmaf(p, z, -3.333328068e-01f);
  const f32 near = fmaf(p * z, x, x), far = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return copysignf(a < 0.625f ? near : far, x);
}

static inline f32 sigmoid_f32(f32 x) {
  const f32 e = exp_f32(-fabsf(x)), sum = 1.0f + e, lost = e - (sum - 1.0f);
  const f32 y = (x < 0 ? e : 1.0f) / sum;
  return fmaf(-y, lost * fmaf(e, -0.5f, 1.0f), y);
}

static inline f32 erf_f32(f32 x) {
  const f32 a = fabsf(x), z = x * x, b = a > 4.0f ? 4.0f : a;
  f32 p = fmaf(-5.953739164e-04f, z, 4.985940177e-03f);
  p = fmaf(p, z, -2.676171996e-02f);
  p = fmaf(p, z, 1.128168255e-01f);
  p = fmaf(p, z, -3.761247993e-01f);
  p = fmaf(p, z, 1.283791512e-01f);
  f32 q = fmaf(1.123147013e-05f, b, -3.228054265e-04f);
  q = fmaf(q, b, 3.642465221e-03f);
  q = fmaf(q, b, -2.376207523e-02f);
  q = fmaf(q, b, 1.062368900e-01f);
  q = fmaf(q, b, 6.351513267e-01f);
  q = fmaf(q, b, 1.286484897e-01f);
  const Reduced r = by_log2(-fmaf(q, b, b));
  const f32 scale = power_of_two(r.n);
  const f32 far = 1.0f - fmaf(exp_near_0(r.r), scale, scale);
  return a < 0.92f ? fmaf(p, x, x) : x != x ? x : copysignf(far, x);
}

// The density of the normal distribution but for 1 / sqrt(2 pi), and the probability below x.
typedef struct {
  f32 density, below;
} Normal;

static inline Normal normal_at(f32 x) {
  const f32 a = fabsf(x), b = a > 13.1f ? 13.1f : a, squared = b * b;
  const f32 odd = fmaf(3.986837342e-02f, squared, 4.352176189e-01f);
  const f32 even = fmaf(fmaf(4.003128037e-03f, squared, 1.809616536e-01f), squared, 0.5f);
  const f32 odd_under =
      fmaf(fmaf(1.003420539e-02f, squared, 4.634695947e-01f), squared, 1.668320179e+00f);
  const f32 even_under =
      fmaf(fmaf(9.994275123e-02f, squared, 1.193046212e+00f), squared, 1.0f);
  const f32 density = a > 13.1f ? 0.0f : exp_f32(-0.5f * squared);
  const f32 tail = density * (fmaf(odd, b, even) / fmaf(odd_under, b, even_under));
  const Normal normal = {density, x < 0 ? tail : 1.0f - tail};
  return normal;
}

static inline f32 gelu_f32(f32 x) { return x * normal_at(x).below; }
static inline f32 gelu_slope_f32(f32 x) {
  const Normal normal = normal_at(x);
  return fmaf(x, normal.density * 0.398942280f, normal.below);
}

// e^x for |x| <= 700, in double.
static inline f64 exp_in_double(f64 x) {
  const f64 shifted = x * 1.4426950408889634 + ROUND_DOUBLE, n = shifted - ROUND_DOUBLE;
  const f64 r = (x - n * 0.69314718036912382) - n * 1.9082149292705877e-10;
  f64 p = 2.48879432698707248e-05 * r + 1.99095056653254967e-04;
  p = p * r + 1.38887957080963825e-03;
  p = p * r + 8.33328086901073684e-03;
  p = p * r + 4.16666670587029844e-02;
  p = p * r + 1.66666667880204011e-01;
  p = p * r + 4.99999999995121180e-01;
  const f64 e = 1.0 + (r + r * r * p);
  return double_of(long_bits_of(e) + (long_bits_of(shifted) << 52));
}

static inline f32 sinh_f32(f32 x) {
  const f64 a = (f64)clamped(x, -100.0f, 100.0f), e = exp_in_double(a);
  const f64 near = a + a * a * a * (1.0 / 6);
  return (f32)(fabsf(x) < 1e-3f ? near : 0.5 * (e - 1.0 / e));
}

static inline f32 cosh_f32(f32 x) {
  const f64 e = exp_in_double((f64)clamped(x, -100.0f, 100.0f));
  return (f32)(0.5 * (e + 1.0 / e));
}

typedef struct {
  f64 sine, cosine;   // of x - n pi / 2
  uint64_t quadrant;  // n
} Angle;

#define LARGEST_ANGLE 1048576.0f  // above it the C library's sin, cos and tan are used

static inline Angle by_quadrant(f32 x) {
  const f64 a = (f64)x, shifted = a * 0.63661977236758134 + ROUND_DOUBLE;
  const f64 n = shifted - ROUND_DOUBLE;
  const f64 r = (a - n * 1.5707963267341256) - n * 6.0771005065061922e-11, z = r * r;
  f64 s = -2.47587704622004151e-08 * z + 2.75553184752839242e-06;
  s = s * z + -1.98412636404830605e-04;
  s = s * z + 8.33333332494241852e-03;
  s = s * z + -1.66666666666297730e-01;
  f64 c = 2.06426434655014379e-09 * z + -2.75554858539381312e-07;
  c = c * z + 2.48015805128166451e-05;
  c = c * z + -1.38888888772084476e-03;
  c = c * z + 4.16666666665938962e-02;
  const Angle result = {r + r * z * s, 1.0 - 0.5 * z + z * z * c, long_bits_of(shifted)};
  return result;
}

static inline f32 sin_f32(f32 x) {
  if (fabsf(x) > LARGEST_ANGLE) return (f32)sin((f64)x);
  const Angle a = by_quadrant(x);
  const f64 y = (a.quadrant & 1) != 0 ? a.cosine : a.sine;
  return x == 0 ? x : (f32)((a.quadrant & 2) != 0 ? -y : y);
}

static inline f32 cos_f32(f32 x) {
  if (fabsf(x) > LARGEST_ANGLE) return (f32)cos((f64)x);
  const Angle a = by_quadrant(x);
  const f64 y = (a.quadrant & 1) != 0 ? a.sine : a.cosine;
  return (f32)(((a.quadrant + 1) & 2) != 0 ? -y : y);
}

static inline f32 tan_f32(f32 x) {
  if (fabsf(x) > LARGEST_ANGLE) return (f32)tan((f64)x);
  const Angle a = by_quadrant(x);
  const int is_odd = (a.quadrant & 1) != 0;
  const f64 y = (is_odd ? -a.cosine : a.sine) / (is_odd ? a.sine : a.cosine);
  return x == 0 ? x : (f32)y;
}

// The angle whose tangent is x >= 0.
static inline f64 atan_in_double(f64 x) {
  const int is_steep = x > 2.4142135623730951, is_flat = x <= 0.41421356237309503;
  const f64 near = is_steep ? 1.5707963267948966 : is_flat ? 0.0 : 0.78539816339744828;
  const f64 z = (is_steep ? -1.0 : is_flat ? x : x - 1.0) / (is_steep ? x : is_flat ? 1.0 : x + 1.0);
  const f64 s = z * z;
  f64 p = 4.74827423640415302e-02 * s + -8.47840562999932319e-02;
  p = p * s + 1.10450934206461156e-01;
  p = p * s + -1.42820420624307409e-01;
  p = p * s + 1.99999051862810676e-01;
  p = p * s + -3.33333325145988405e-01;
  return near + (z + z * s * p);
}

static inline f32 atan_f32(f32 x) { return copysignf((f32)atan_in_double((f64)fabsf(x)), x); }

static inline f32 asin_f32(f32 x) {
  const f64 a = (f64)fabsf(x), y = atan_in_double(a / sqrt((1.0 - a) * (1.0 + a)));
  return copysignf((f32)y, x);
}

static inline f32 acos_f32(f32 x) {
  const f64 a = (f64)x;
  return (f32)(2.0 * atan_in_double(sqrt((1.0 - a) / (1.0 + a))));
}

static inline f32 atan2_f32(f32 y, f32 x) {
  const f64 a = (f64)fabsf(y), b = (f64)fabsf(x);
  const f64 ratio = a != b ? a / b : a == 0 ? 0.0 : 1.0;
  const f64 angle = atan_in_double((a != a) | (b != b) ? a + b : ratio);
  return copysignf((f32)(copysignf(1.0f, x) < 0 ? 3.1415926535897931 - angle : angle), y);
}

// log2 x for x in (0, inf), in double.
static inline f64 log2_in_double(f64 x) {
  const uint64_t root_half = 0x3fe6a09e667f3bcd, bias = 1023;
  const uint64_t exponent = (long_bits_of(x) - root_half + (bias << 52)) >> 52;
  const f64 m = double_of(long_bits_of(x) - ((exponent - bias) << 52));
  const f64 s = (m - 1.0) / (m + 1.0), u = s * s;
  f64 p = 8.41307921614014159e-02 * u + 9.06156609167168142e-02;
  p = p * u + 1.11116932001621552e-01;
  p = p * u + 1.42857084768866910e-01;
  p = p * u + 2.00000000264842936e-01;
  p = p * u + 3.33333333332936854e-01;
  const f64 n = (f64)((i32)exponent - 1023);
  return n + (s + s * u * p) * 2.8853900817779268;  // 2 / ln 2
}

static inline f32 power_f32(f32 x, f32 y) {
  const f32 a = fabsf(x), half = 0.5f * y;
  const f64 far = a == 0 ? -1e300 : 1e300;
  const f64 logarithm = (a > 0) & (a < INFINITY) ? log2_in_double((f64)a) : far;
  const f64 product = (f64)y * logarithm, above = product > 300 ? 300.0 : product;
  const f64 t = above < -300 ? -300.0 : above;
  const f32 e = (f32)exp_in_double(t * 0.69314718055994531);
  const int is_whole = floorf(y) == y, is_odd = is_whole & (floorf(half) != half);
  const int is_undefined = (x < 0) & (a < INFINITY) & !is_whole;
  const f32 numeric = is_undefined ? NAN : is_odd ? copysignf(e, x) : e;
  const f32 result = (x != x) | (y != y) ? x + y : numeric;
  const int is_one = (y == 0) | (x == 1) | ((a == 1) & (fabsf(y) == INFINITY));
  return is_one ? 1.0f : result;
}
