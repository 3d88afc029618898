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
#include "kernels/math/numbers.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class A, class B>
constexpr bool is_same = std::is_same_v<A, B>;
template <class T>
constexpr bool is_floating = is_same<T, float> || is_same<T, double>;
template <class T>
constexpr bool is_half = is_same<T, f16_t> || is_same<T, bf16_t>;

// Half types.

NEEDLE_INLINE float widen(bf16_t x) { return f32_of_bf16(x.bits); }

NEEDLE_INLINE float widen(f16_t x) {
#if defined(__F16C__)
  return _cvtsh_ss(x.bits);
#elif defined(__aarch64__)
  return static_cast<float>(__builtin_bit_cast(__fp16, x.bits));
#else
  return f32_of_f16(x.bits);
#endif
}

template <class Half>
Half narrow(float x);

template <>
NEEDLE_INLINE bf16_t narrow<bf16_t>(float x) {
  return {bf16_of_f32(x)};
}

template <>
NEEDLE_INLINE f16_t narrow<f16_t>(float x) {
#if defined(__F16C__)
  return {static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
#elif defined(__aarch64__)
  return {__builtin_bit_cast(uint16_t, static_cast<__fp16>(x))};
#else
  return {f16_of_f32(x)};
#endif
}

template <class To, class From>
NEEDLE_INLINE To truncate(From x) {
  if constexpr (is_same<From, float>) {
    return sizeof(To) == 8 ? static_cast<To>(i64_of_f32(x)) : static_cast<To>(i32_of_f32(x));
  } else {
    return sizeof(To) == 8 ? static_cast<To>(i64_of_f64(x)) : static_cast<To>(i32_of_f64(x));
  }
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
    return narrow<f16_t>(round_to_odd_f32(x));
  } else if constexpr (is_half<To>) {
    return narrow<To>(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(x);  // narrow types wrap around
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
