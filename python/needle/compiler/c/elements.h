// Functions of one element in C11: what programs that are rendered to C are made of.
//
// name_type(x) for each function of native/common/elementwise.def and each type that it is computed
// in: f32, f64, i32, i64, b8 (a byte, 0 or 1). They give the same bits as the native kernels where
// nothing is contracted (-ffp-contract=off). Those of float and double that are not exact are in
// elements_f32.h and elements_f64.h.

#include <math.h>
#include <stdint.h>
#include <string.h>

// Loops whose rounds do not depend on each other: an output may be an input's very memory, never
// shifted against it.
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define EACH _Pragma("GCC ivdep")
#else
#define EACH
#endif

typedef float f32;
typedef double f64;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t b8;

// n numbers in [0, 1) from the words first, first + step, ... of a random stream: native code.
typedef void draw_fn(f32 *out, i64 n, uint64_t seed, uint64_t first, i64 step);

// The bits of a number, and back ------------------------------------------------------------------

static inline uint32_t bits_of(f32 x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline f32 float_of(uint32_t bits) {
  f32 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint64_t long_bits_of(f64 x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline f64 double_of(uint64_t bits) {
  f64 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Comparisons and choices, for every type ---------------------------------------------------------

#define COMPARISONS(T)                                                         \
  static inline b8 equal_##T(T x, T y) { return x == y; }                      \
  static inline b8 not_equal_##T(T x, T y) { return x != y; }                  \
  static inline b8 less_##T(T x, T y) { return x < y; }                        \
  static inline b8 less_equal_##T(T x, T y) { return x <= y; }                 \
  static inline b8 greater_##T(T x, T y) { return x > y; }                     \
  static inline b8 greater_equal_##T(T x, T y) { return x >= y; }              \
  static inline b8 logical_and_##T(T x, T y) { return (x != 0) & (y != 0); }   \
  static inline b8 logical_or_##T(T x, T y) { return (x != 0) | (y != 0); }    \
  static inline b8 logical_xor_##T(T x, T y) { return (x != 0) ^ (y != 0); }   \
  static inline b8 logical_not_##T(T x) { return x == 0; }                     \
  static inline T where_##T(b8 c, T x, T y) { return c ? x : y; }              \
  static inline T maximum_##T(T x, T y) { return (x > y) | (x != x) ? x : y; } \
  static inline T minimum_##T(T x, T y) { return (x < y) | (x != x) ? x : y; }

COMPARISONS(f32)
COMPARISONS(f64)
COMPARISONS(i32)
COMPARISONS(i64)
COMPARISONS(b8)

// bool: + is or, * is and, - is not ---------------------------------------------------------------

static inline b8 bitwise_or_b8(b8 x, b8 y) { return x | y; }
static inline b8 bitwise_and_b8(b8 x, b8 y) { return x & y; }
static inline b8 bitwise_xor_b8(b8 x, b8 y) { return x ^ y; }
static inline b8 invert_b8(b8 x) { return x ^ 1; }
static inline b8 negative_b8(b8 x) { return x ^ 1; }
static inline b8 relu_b8(b8 x) { return x; }
static inline b8 abs_b8(b8 x) { return x; }
static inline b8 sign_b8(b8 x) { return x; }
static inline b8 square_b8(b8 x) { return x; }
static inline b8 floor_b8(b8 x) { return x; }
static inline b8 ceil_b8(b8 x) { return x; }
static inline b8 round_b8(b8 x) { return x; }
static inline b8 isnan_b8(b8 x) { return (void)x, 0; }
static inline b8 isinf_b8(b8 x) { return (void)x, 0; }
static inline b8 isfinite_b8(b8 x) { return (void)x, 1; }
static inline b8 add_b8(b8 x, b8 y) { return x | y; }
static inline b8 multiply_b8(b8 x, b8 y) { return x & y; }
static inline b8 floor_divide_b8(b8 x, b8 y) { return x & y; }
static inline b8 remainder_b8(b8 x, b8 y) { return (void)x, (void)y, 0; }
static inline b8 power_b8(b8 x, b8 y) { return x | (y ^ 1); }
static inline b8 left_shift_b8(b8 x, b8 y) { return (void)y, x; }
static inline b8 right_shift_b8(b8 x, b8 y) { return x & (y ^ 1); }

// Integers: they wrap around, so arithmetic is that of the unsigned type U ------------------------

#define INTEGERS(T, U, WIDTH)                                                                      \
  static inline T relu_##T(T x) { return x < 0 ? 0 : x; }                                          \
  static inline T negative_##T(T x) { return (T)(0 - (U)x); }                                      \
  static inline T abs_##T(T x) { return x < 0 ? negative_##T(x) : x; }                             \
  static inline T sign_##T(T x) { return (x > 0) - (x < 0); }                                      \
  static inline T add_##T(T x, T y) { return (T)((U)x + (U)y); }                                   \
  static inline T subtract_##T(T x, T y) { return (T)((U)x - (U)y); }                              \
  static inline T multiply_##T(T x, T y) { return (T)((U)x * (U)y); }                              \
  static inline T square_##T(T x) { return multiply_##T(x, x); }                                   \
  static inline T floor_##T(T x) { return x; }                                                     \
  static inline T ceil_##T(T x) { return x; }                                                      \
  static inline T round_##T(T x) { return x; }                                                     \
  static inline b8 isnan_##T(T x) { return (void)x, 0; }                                           \
  static inline b8 isinf_##T(T x) { return (void)x, 0; }                                           \
  static inline b8 isfinite_##T(T x) { return (void)x, 1; }                                        \
  static inline T invert_##T(T x) { return ~x; }                                                   \
  static inline T bitwise_and_##T(T x, T y) { return x & y; }                                      \
  static inline T bitwise_or_##T(T x, T y) { return x | y; }                                       \
  static inline T bitwise_xor_##T(T x, T y) { return x ^ y; }                                      \
  static inline T left_shift_##T(T x, T y) {                                                       \
    return y >= 0 && y < WIDTH ? (T)((U)x << (y & (WIDTH - 1))) : 0;                               \
  }                                                                                                \
  static inline T right_shift_##T(T x, T y) { return x >> (y >= 0 && y < WIDTH ? y : WIDTH - 1); } \
  static inline T floor_divide_##T(T x, T y) { /* rounds down; x / 0 is 0 */                       \
    const T divisor = y == 0 || y == -1 ? 1 : y, quotient = x / divisor;                           \
    const int rounds_up = quotient * divisor != x && (x < 0) != (divisor < 0);                     \
    return y == 0 ? 0 : y == -1 ? negative_##T(x) : quotient - rounds_up;                          \
  }                                                                                                \
  static inline T remainder_##T(T x, T y) {                                                        \
    const T divisor = y == 0 || y == -1 ? 1 : y, rest = x % divisor;                               \
    return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;                       \
  }                                                                                                \
  static inline T power_##T(T x, T y) { /* by squaring */                                          \
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;                            \
    T result = 1;                                                                                  \
    for (; y > 0; y >>= 1, x = multiply_##T(x, x)) {                                               \
      if (y & 1) result = multiply_##T(result, x);                                                 \
    }                                                                                              \
    return result;                                                                                 \
  }

INTEGERS(i32, uint32_t, 32)
INTEGERS(i64, uint64_t, 64)

// Floating: what is exact. S ends the library's names -------------------------

#define FLOATS(T, S)                                                                 \
  static inline T relu_##T(T x) { return x < 0 ? 0 : x; }                            \
  static inline T negative_##T(T x) { return -x; }                                   \
  static inline T abs_##T(T x) { return fabs##S(x); }                                \
  static inline T sign_##T(T x) { return x != x ? x : (T)((x > 0) - (x < 0)); }      \
  static inline T square_##T(T x) { return x * x; }                                  \
  static inline T floor_##T(T x) { return floor##S(x); }                             \
  static inline T ceil_##T(T x) { return ceil##S(x); }                               \
  static inline T round_##T(T x) { return rint##S(x); }                              \
  static inline T sqrt_##T(T x) { return sqrt##S(x); }                               \
  static inline T rsqrt_##T(T x) { return (T)1 / sqrt##S(x); }                       \
  static inline b8 isnan_##T(T x) { return x != x; }                                 \
  static inline b8 isinf_##T(T x) { return fabs##S(x) == (T)INFINITY; }              \
  static inline b8 isfinite_##T(T x) { return x == x && fabs##S(x) != (T)INFINITY; } \
  static inline T add_##T(T x, T y) { return x + y; }                                \
  static inline T subtract_##T(T x, T y) { return x - y; }                           \
  static inline T multiply_##T(T x, T y) { return x * y; }                           \
  static inline T divide_##T(T x, T y) { return x / y; }                             \
  static inline T remainder_##T(T x, T y) { /* has the sign of the divisor */        \
    const T rest = fmod##S(x, y);                                                    \
    if (y == 0) return rest;                                                         \
    if (rest == 0) return copysign##S(0, y);                                         \
    return (rest < 0) != (y < 0) ? rest + y : rest;                                  \
  }                                                                                  \
  static inline T floor_divide_##T(T x, T y) {                                       \
    if (y == 0) return x / y;                                                        \
    const T rest = fmod##S(x, y);                                                    \
    T quotient = (x - rest) / y;                                                     \
    if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;                           \
    if (quotient == 0) return copysign##S(0, x / y);                                 \
    const T down = floor##S(quotient);                                               \
    return quotient - down > (T)0.5 ? down + 1 : down;                               \
  }

FLOATS(f32, f)
FLOATS(f64, )

// Casts: NumPy's astype. load_... widens what is stored, store_..._from_... rounds to it ----------

static inline f32 load_bf16(uint16_t bits) { return float_of((uint32_t)bits << 16); }

static inline f32 load_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  const uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
  const uint32_t normal = magnitude + (112u << 23), special = magnitude + (224u << 23);
  const f32 subnormal = float_of(normal + (1u << 23)) - float_of(113u << 23);
  const uint32_t finite = exponent == 0 ? bits_of(subnormal) : normal;
  return float_of(sign | (exponent == 0x0f800000 ? special : finite));
}

static inline uint16_t bf16_of_f32(f32 x) {
  const uint32_t bits = bits_of(x), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (uint16_t)(x == x ? rounded : (bits >> 16) | 0x7fc0);
}

static inline uint16_t f16_of_f32(f32 x) {
  const uint32_t sign = bits_of(x) & 0x80000000, magnitude = bits_of(x) ^ sign;
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t finite = magnitude < (113u << 23) ? subnormal : normal;
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const uint32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
  return (uint16_t)((magnitude >= (143u << 23) ? special : finite) | (sign >> 16));
}

// What no integer holds, and NaN, becomes the lowest one.
#define TRUNCATIONS(F)                                                                        \
  static inline i32 i32_of_##F(F x) {                                                         \
    return (i32)((x >= (F) - 2147483648.0) & (x < (F)2147483648.0) ? x : (F) - 2147483648.0); \
  }                                                                                           \
  static inline i64 i64_of_##F(F x) {                                                         \
    const F limit = (F)9223372036854775808.0;                                                 \
    return (i64)((x >= -limit) & (x < limit) ? x : -limit);                                   \
  }

TRUNCATIONS(f32)
TRUNCATIONS(f64)

// Reductions of a row -----------------------------------------------------------------------------

// Element i of a block of `block` elements goes to lane i % LANES, the lanes meet in a tree, and
// blocks are combined in the type TOTAL: the order of the native kernels.
#define REDUCTION(name, T, TOTAL, LANES, IDENTITY)                                              \
  static inline T row_##name##_##T(const T* x, i64 n, i64 block) {                              \
    TOTAL total = IDENTITY;                                                                     \
    for (i64 start = 0; start < n; start += block) {                                            \
      const i64 m = n - start < block ? n - start : block;                                      \
      T lanes[LANES];                                                                           \
      for (int l = 0; l < LANES; ++l) lanes[l] = IDENTITY;                                      \
      i64 i = 0;                                                                                \
      for (; i + LANES <= m; i += LANES) {                                                      \
        for (int l = 0; l < LANES; ++l) lanes[l] = name##_step_##T(lanes[l], x[start + i + l]); \
      }                                                                                         \
      for (int l = 0; i + l < m; ++l) lanes[l] = name##_step_##T(lanes[l], x[start + i + l]);   \
      for (int half = LANES / 2; half > 0; half /= 2) {                                         \
        for (int l = 0; l < half; ++l) lanes[l] = name##_step_##T(lanes[l], lanes[l + half]);   \
      }                                                                                         \
      total = name##_step_##TOTAL(total, (TOTAL)lanes[0]);                                      \
    }                                                                                           \
    return (T)total;                                                                            \
  }

#define STEPS(T)                                                                \
  static inline T sum_step_##T(T a, T b) { return add_##T(a, b); }              \
  static inline T prod_step_##T(T a, T b) { return multiply_##T(a, b); }        \
  static inline T max_step_##T(T a, T b) { return (b > a) | (b != b) ? b : a; } \
  static inline T min_step_##T(T a, T b) { return (b < a) | (b != b) ? b : a; }

STEPS(f32)
STEPS(f64)
STEPS(i32)
STEPS(i64)
STEPS(b8)

REDUCTION(sum, f32, f64, 64, 0)
REDUCTION(sum, f64, f64, 32, 0)
REDUCTION(sum, i32, i32, 64, 0)
REDUCTION(sum, i64, i64, 32, 0)
REDUCTION(max, f32, f32, 64, -INFINITY)
REDUCTION(max, f64, f64, 32, -INFINITY)
REDUCTION(max, i32, i32, 64, INT32_MIN)
REDUCTION(max, i64, i64, 32, INT64_MIN)
REDUCTION(max, b8, b8, 256, 0)
REDUCTION(min, f32, f32, 64, INFINITY)
REDUCTION(min, f64, f64, 32, INFINITY)
REDUCTION(min, i32, i32, 64, INT32_MAX)
REDUCTION(min, i64, i64, 32, INT64_MAX)
REDUCTION(min, b8, b8, 256, 1)

#define PRODUCT(T, TOTAL)                                                      \
  static inline T row_prod_##T(const T* x, i64 n, i64 block) {                 \
    (void)block;                                                               \
    TOTAL total = 1;                                                           \
    for (i64 i = 0; i < n; ++i) total = prod_step_##TOTAL(total, (TOTAL)x[i]); \
    return (T)total;                                                           \
  }

PRODUCT(f32, f64)
PRODUCT(f64, f64)
PRODUCT(i32, i32)
PRODUCT(i64, i64)
