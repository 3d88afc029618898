// cast<To>(x) between all element types: NumPy's astype, without undefined behaviour. Halves round
// to nearest even; floats that no integer holds become what x86 makes of them (the lowest value).
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "common/dtype.h"
#include "inline.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class A, class B>
constexpr bool is_same = std::is_same_v<A, B>;
template <class T>
constexpr bool is_floating = is_same<T, float> || is_same<T, double>;
template <class T>
constexpr bool is_half = is_same<T, f16_t> || is_same<T, bf16_t>;

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

// Floats outside Int's range, and NaN, become its lowest value before the conversion.
template <class Int, class Float>
NEEDLE_INLINE Int truncate(Float x) {
  constexpr Float limit = static_cast<Float>(uint64_t{1} << (8 * sizeof(Int) - 1));
  return static_cast<Int>((x >= -limit) & (x < limit) ? x : -limit);
}

template <class To, class From>
NEEDLE_INLINE To cast(From x) {
  if constexpr (is_same<To, From>) {
    return x;
  } else if constexpr (is_same<From, bool_t>) {
    return cast<To>(x.byte);
  } else if constexpr (is_half<From>) {
    return cast<To>(widen(x));
  } else if constexpr (is_same<To, bool_t>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (is_same<To, f16_t> && is_same<From, double>) {
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

// n elements side by side, as far as whole vectors go; gives how many were converted. Compilers
// vectorise most casts by themselves; these are the others.
template <class To, class From>
NEEDLE_INLINE int64_t convert_vectors(To*, const From*, int64_t) {
  return 0;
}

#if defined(__F16C__)
NEEDLE_INLINE int64_t convert_vectors(float* to, const f16_t* from, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(halves));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

NEEDLE_INLINE int64_t convert_vectors(f16_t* to, const float* from, int64_t n) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm512_cvtps_ph(_mm512_loadu_ps(from + i), kNearest);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), halves);
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), kNearest);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  return i;
}
#endif

#if defined(__AVX2__)
// narrow<bf16_t> of eight floats, each in the lower half of its lane. A compiler cuts the rounded
// value, the NaN and the mask to halves before it chooses, 15 instructions more for 16 elements.
NEEDLE_INLINE __m256i narrow_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x7fc00000));
  const __m256 is_number = _mm256_cmp_ps(x, x, _CMP_ORD_Q);
  const __m256 chosen =
      _mm256_blendv_ps(_mm256_castsi256_ps(nan), _mm256_castsi256_ps(rounded), is_number);
  return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
}

NEEDLE_INLINE int64_t convert_vectors(bf16_t* to, const float* from, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i low = narrow_to_bf16(_mm256_loadu_ps(from + i));
    const __m256i high = narrow_to_bf16(_mm256_loadu_ps(from + i + 8));
    // packus takes four lanes of each in turn.
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), halves);
  }
  return i;
}
#endif

}  // namespace
}  // namespace needle::NEEDLE_ISA
