// cast<To>(x) between all element types: NumPy's astype, without undefined behaviour. Halves round
// to nearest even; floats that no integer holds become what x86 makes of them (the lowest value).
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "../../common/dtype.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

#define NEEDLE_INLINE [[gnu::always_inline]] inline

NEEDLE_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
NEEDLE_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Half types. Written with selects instead of branches, so that loops over them vectorise.

NEEDLE_INLINE float widen(bf16_t x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

NEEDLE_INLINE float widen(f16_t x) {
#if defined(__F16C__)
  return _cvtsh_ss(x.bits);
#elif defined(__aarch64__)
  return static_cast<float>(__builtin_bit_cast(__fp16, x.bits));
#else
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  const uint32_t exponent = magnitude & 0x0f800000;
  const uint32_t normal = magnitude + (112u << 23);   // rebias 15 to 127
  const uint32_t special = magnitude + (224u << 23);  // infinity and NaN
  const float subnormal = float_of(normal + (1u << 23)) - float_of(113u << 23);
  const uint32_t finite = exponent == 0 ? bits_of(subnormal) : normal;
  return float_of(sign | (exponent == 0x0f800000 ? special : finite));
#endif
}

template <class Half>
Half narrow(float x);

template <>
NEEDLE_INLINE bf16_t narrow<bf16_t>(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x7fc0;
  return {static_cast<uint16_t>(x == x ? rounded : nan)};
}

template <>
NEEDLE_INLINE f16_t narrow<f16_t>(float x) {
#if defined(__F16C__)
  return {static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
#elif defined(__aarch64__)
  return {__builtin_bit_cast(uint16_t, static_cast<__fp16>(x))};
#else
  const uint32_t sign = bits_of(x) & 0x80000000;
  const uint32_t magnitude = bits_of(x) ^ sign;
  // Adding 0.5 leaves a subnormal half, rounded, in the lowest bits.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t finite = magnitude < (113u << 23) ? subnormal : normal;
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const uint32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
  const uint32_t half = magnitude >= (143u << 23) ? special : finite;
  return {static_cast<uint16_t>(half | (sign >> 16))};
#endif
}

// double to float with the last bit set when inexact ("round to odd"): rounding the result to a
// half is then the same as rounding the double once.
NEEDLE_INLINE float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  const bool away = __builtin_fabs(back) > __builtin_fabs(x);
  const uint32_t odd = (bits_of(nearest) - (away ? 1 : 0)) | 1;
  return back == x || x != x ? nearest : float_of(odd);
}

template <class T>
constexpr bool is_half = std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>;

// Floats outside Int's range, and NaN, become its lowest value before the conversion.
template <class Int, class Float>
NEEDLE_INLINE Int truncate(Float x) {
  constexpr Float limit = static_cast<Float>(uint64_t{1} << (8 * sizeof(Int) - 1));
  return static_cast<Int>((x >= -limit) & (x < limit) ? x : -limit);
}

template <class To, class From>
NEEDLE_INLINE To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, bool_t>) {
    return cast<To>(x.byte);
  } else if constexpr (is_half<From>) {
    return cast<To>(widen(x));
  } else if constexpr (std::is_same_v<To, bool_t>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (std::is_same_v<To, f16_t> && std::is_same_v<From, double>) {
    return narrow<f16_t>(round_to_odd(x));
  } else if constexpr (is_half<To>) {
    return narrow<To>(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) == 8) {
      return truncate<int64_t>(x);
    } else {
      return static_cast<To>(truncate<int32_t>(x));  // narrow types wrap around
    }
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
