// What functions of one element are written with (elements.h).
#pragma once

typedef float f32;
typedef double f64;
typedef int32_t i32;
typedef int64_t i64;
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint8_t b8;

// The bits of a number, and back.
ELEMENT u32 bits_f32(f32 x) {
  u32 bits;
  LIB(memcpy)(&bits, &x, sizeof bits);
  return bits;
}
ELEMENT f32 of_bits_f32(u32 bits) {
  f32 x;
  LIB(memcpy)(&x, &bits, sizeof x);
  return x;
}

ELEMENT u64 bits_f64(f64 x) {
  u64 bits;
  LIB(memcpy)(&bits, &x, sizeof bits);
  return bits;
}
ELEMENT f64 of_bits_f64(u64 bits) {
  f64 x;
  LIB(memcpy)(&x, &bits, sizeof x);
  return x;
}

// x y + z, rounded once.
ELEMENT f32 fma_f32(f32 x, f32 y, f32 z) {
#if defined(__FMA__) || defined(__aarch64__) || defined(__CUDA_ARCH__)
  return LIB(fmaf)(x, y, z);
#else
  // The product is exact in double. The sum is rounded to odd there (cut off, and the last bit set
  // if anything was lost), so that rounding it to float is the only rounding that counts.
  const f64 product = (f64)x * (f64)y;
  const f64 sum = product + (f64)z;
  const f64 added = sum - product;
  const f64 lost = (product - (sum - added)) + ((f64)z - added);
  const int is_above = lost * sum < 0, is_inexact = (lost > 0) | (lost < 0);
  const f64 cut = is_above ? of_bits_f64(bits_f64(sum) - 1) : sum;
  return (f32)(is_inexact ? of_bits_f64(bits_f64(cut) | 1) : cut);
#endif
}

ELEMENT f32 of_int_f32(i32 n) { return (f32)n; }
ELEMENT f32 copysign_f32(f32 x, f32 sign) { return LIB(copysignf)(x, sign); }

// NaN stays NaN.
ELEMENT f32 at_most_f32(f32 x, f32 limit) { return x > limit ? limit : x; }
ELEMENT f32 at_least_f32(f32 x, f32 limit) { return x < limit ? limit : x; }

// c0 + c1 x + c2 x^2 + ... with as many constants as the name says, by Horner's rule.
#define STEP_f32(p, x, c) fma_f32(p, x, c)
#define STEP_f64(p, x, c) ((p) * (x) + (c))
#define POLY2(T, x, a, b) STEP_##T(b, x, a)
#define POLY3(T, x, a, ...) STEP_##T(POLY2(T, x, __VA_ARGS__), x, a)
#define POLY4(T, x, a, ...) STEP_##T(POLY3(T, x, __VA_ARGS__), x, a)
#define POLY5(T, x, a, ...) STEP_##T(POLY4(T, x, __VA_ARGS__), x, a)
#define POLY6(T, x, a, ...) STEP_##T(POLY5(T, x, __VA_ARGS__), x, a)
#define POLY7(T, x, a, ...) STEP_##T(POLY6(T, x, __VA_ARGS__), x, a)
#define POLY8(T, x, a, ...) STEP_##T(POLY7(T, x, __VA_ARGS__), x, a)
#define POLY9(T, x, a, ...) STEP_##T(POLY8(T, x, __VA_ARGS__), x, a)
#define POLY10(T, x, a, ...) STEP_##T(POLY9(T, x, __VA_ARGS__), x, a)
#define POLY11(T, x, a, ...) STEP_##T(POLY10(T, x, __VA_ARGS__), x, a)
