// float16 and bfloat16 as bits: to float32, and rounded to nearest even from it.
#pragma once

#include <cstring>

#include "../base.h"

namespace ptxsim {
namespace {

inline float float_of(u32 bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline u32 bits_of(float value) {
  u32 bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float float_of_f16(u32 half) {
  const u32 sign = (half & 0x8000) << 16, magnitude = half & 0x7fff;
  // 2^112 times a float whose exponent was shifted in as it is; infinity and NaN get all ones.
  const float scaled = float_of(magnitude << 13) * float_of((254 - 15) << 23);
  const u32 special = magnitude >= 0x7c00 ? 0x7f800000u | magnitude << 13 : bits_of(scaled);
  return float_of(sign | special);
}

inline u32 f16_of(float value) {
  const u32 bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Below 2^-14 halves are multiples of 2^-24: adding 0.5 rounds to one, whose bits are the result.
  if (magnitude < 0x38800000) return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000);
  return sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13);
}

inline float float_of_bf16(u32 half) { return float_of(half << 16); }

inline u32 bf16_of(float value) {
  const u32 bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

struct F16 {
  static float up(u32 half) { return float_of_f16(half & 0xffff); }
  static u32 down(float value) { return f16_of(value); }
};
struct BF16 {
  static float up(u32 half) { return float_of_bf16(half & 0xffff); }
  static u32 down(float value) { return bf16_of(value); }
};

}  // namespace
}  // namespace ptxsim
