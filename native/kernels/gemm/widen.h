// Vectors of floats from elements that are stored in fewer bits, weights mostly: exact, and as
// quick as memory is.
#pragma once

#include "kernels/loops.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

// kLanes<T> stored elements from p on, as Ts: exact.
template <class T>
NEEDLE_INLINE Vec<T> widened(const T* p) {
  return load(p);
}
#if defined(__AVX512F__)
NEEDLE_INLINE Vec<float> widened(const bf16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
NEEDLE_INLINE Vec<float> widened(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
#elif defined(__AVX2__)
NEEDLE_INLINE Vec<float> widened(const bf16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
NEEDLE_INLINE Vec<float> widened(const int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
#else
template <class E>
NEEDLE_INLINE Vec<float> widened_one_by_one(const E* p) {
  Vec<float> v;
  for (int i = 0; i < kLanes<float>; ++i) v[i] = cast<float>(p[i]);
  return v;
}
NEEDLE_INLINE Vec<float> widened(const bf16_t* p) { return widened_one_by_one(p); }
NEEDLE_INLINE Vec<float> widened(const int8_t* p) { return widened_one_by_one(p); }
#endif

// Calls body(Tag<E>) if a line of this dtype and stride (in bytes) is made of Es that `widened`
// reads as vectors of T; gives whether it is.
template <class T, class F>
bool with_widened(DType dtype, int64_t stride, F&& body) {
  if constexpr (is_same<T, float>) {
    if (dtype == DType::bf16 && stride == 2) {
      body(Tag<bf16_t>{});
      return true;
    }
    if (dtype == DType::i8 && stride == 1) {
      body(Tag<int8_t>{});
      return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
