// SIMD in the width of the instruction set that this file is compiled for, with GCC's vector types:
// +, *, <, ?: work on them directly.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace needle {
namespace NEEDLE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64;
#elif defined(__AVX2__)
constexpr int kVecBytes = 32;
#else
constexpr int kVecBytes = 16;
#endif

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kVecBytes)));
};
template <class T>
using Vec = typename VecOf<T>::type;

template <class T>
constexpr int kLanes = kVecBytes / static_cast<int>(sizeof(T));

template <class T>
[[gnu::always_inline]] inline Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
[[gnu::always_inline]] inline void store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class T>
[[gnu::always_inline]] inline Vec<T> splat(T x) {
  return x - Vec<T>{};  // exact for every x, and one broadcast
}

// a * b + c, fused where the instruction set can (integers wrap).
template <class V>
[[gnu::always_inline]] inline V multiply_add(V a, V b, V c) {
  return a * b + c;
}

#if defined(__AVX512F__)
[[gnu::always_inline]] inline Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vec<double> multiply_add(Vec<double> a, Vec<double> b,
                                                       Vec<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
#elif defined(__AVX2__)
[[gnu::always_inline]] inline Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vec<double> multiply_add(Vec<double> a, Vec<double> b,
                                                       Vec<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif defined(__ARM_NEON)
[[gnu::always_inline]] inline Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
  return vfmaq_f32(c, a, b);
}
[[gnu::always_inline]] inline Vec<double> multiply_add(Vec<double> a, Vec<double> b,
                                                       Vec<double> c) {
  return vfmaq_f64(c, a, b);
}
#endif

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
