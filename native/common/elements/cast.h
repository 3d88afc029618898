// Casts between types. Written with selects instead of branches, so that loops over them vectorise.
#pragma once

// float16 and bfloat16, as bits: they are computed in float.
ELEMENT f32 f32_of_bf16(uint16_t bits) { return of_bits_f32((u32)bits << 16); }

ELEMENT f32 f32_of_f16(uint16_t bits) {
  const u32 sign = (u32)(bits & 0x8000) << 16;
  const u32 magnitude = (u32)(bits & 0x7fff) << 13;
  const u32 exponent = magnitude & 0x0f800000;
  const u32 normal = magnitude + (112u << 23);   // rebias 15 to 127
  const u32 special = magnitude + (224u << 23);  // infinity and NaN
  const f32 subnormal = of_bits_f32(normal + (1u << 23)) - of_bits_f32(113u << 23);
  const u32 finite = exponent == 0 ? bits_f32(subnormal) : normal;
  return of_bits_f32(sign | (exponent == 0x0f800000 ? special : finite));
}

ELEMENT uint16_t bf16_of_f32(f32 x) {
  const u32 bits = bits_f32(x);
  const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const u32 nan = (bits >> 16) | 0x7fc0;
  return (uint16_t)(x == x ? rounded : nan);
}

ELEMENT uint16_t f16_of_f32(f32 x) {
  const u32 sign = bits_f32(x) & 0x80000000;
  const u32 magnitude = bits_f32(x) ^ sign;
  // Adding 0.5 leaves a subnormal half, rounded, in the lowest bits.
  const u32 subnormal = bits_f32(of_bits_f32(magnitude) + 0.5f) - bits_f32(0.5f);
  const u32 normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const u32 finite = magnitude < (113u << 23) ? subnormal : normal;
  const u32 nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const u32 special = magnitude > 0x7f800000 ? nan : 0x7c00;
  const u32 half = magnitude >= (143u << 23) ? special : finite;
  return (uint16_t)(half | (sign >> 16));
}

// double to float with the last bit set when inexact ("round to odd"): rounding the result to a
// half is then the same as rounding the double once.
ELEMENT f32 round_to_odd_f32(f64 x) {
  const f32 nearest = (f32)x;
  const f64 back = (f64)nearest;
  const int away = LIB(fabs)(back) > LIB(fabs)(x);
  const u32 odd = (bits_f32(nearest) - (away ? 1 : 0)) | 1;
  return back == x || x != x ? nearest : of_bits_f32(odd);
}

// Cut off. What no integer holds, and NaN, becomes the lowest one.
ELEMENT i32 i32_of_f32(f32 x) { return (i32)((x >= -0x1p31f) & (x < 0x1p31f) ? x : -0x1p31f); }
ELEMENT i64 i64_of_f32(f32 x) { return (i64)((x >= -0x1p63f) & (x < 0x1p63f) ? x : -0x1p63f); }
ELEMENT i32 i32_of_f64(f64 x) { return (i32)((x >= -0x1p31) & (x < 0x1p31) ? x : -0x1p31); }
ELEMENT i64 i64_of_f64(f64 x) { return (i64)((x >= -0x1p63) & (x < 0x1p63) ? x : -0x1p63); }
