// SIMD in the width of the instruction set that this file is compiled for, with GCC's vector types:
// +, *, <, ?: work on them directly.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "inline.h"

namespace needle::NEEDLE_ISA {
namespace {

#if defined(__AVX512F__) || defined(NEEDLE_WIDE)
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
NEEDLE_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
NEEDLE_INLINE void store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class T>
NEEDLE_INLINE Vec<T> splat(T x) {
  return x - Vec<T>{};  // exact for every x, and one broadcast
}

// a * b + c, fused where the instruction set can (integers wrap).
template <class V>
NEEDLE_INLINE V multiply_add(V a, V b, V c) {
  return a * b + c;
}

#if defined(__AVX512F__)
NEEDLE_INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
NEEDLE_INLINE __m512d multiply_add(__m512d a, __m512d b, __m512d c) {
  return _mm512_fmadd_pd(a, b, c);
}
#elif defined(__AVX2__)
NEEDLE_INLINE __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
NEEDLE_INLINE __m256d multiply_add(__m256d a, __m256d b, __m256d c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif defined(__ARM_NEON)
NEEDLE_INLINE Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
  return vfmaq_f32(c, a, b);
}
NEEDLE_INLINE Vec<double> multiply_add(Vec<double> a, Vec<double> b, Vec<double> c) {
  return vfmaq_f64(c, a, b);
}
#endif

// splat and multiply_add for the lower half of the lanes; what is in the others is not said. Cores
// whose units are half as wide as a vector (Zen 4) need half the time.
template <class T>
NEEDLE_INLINE Vec<T> splat_low(T x) {
  return splat(x);
}
template <class V>
NEEDLE_INLINE V multiply_add_low(V a, V b, V c) {
  return multiply_add(a, b, c);
}

#if defined(__AVX512F__)
template <>
NEEDLE_INLINE Vec<float> splat_low(float x) {
  return _mm512_castps256_ps512(_mm256_set1_ps(x));
}
template <>
NEEDLE_INLINE Vec<double> splat_low(double x) {
  return _mm512_castpd256_pd512(_mm256_set1_pd(x));
}
NEEDLE_INLINE __m512 multiply_add_low(__m512 a, __m512 b, __m512 c) {
  return _mm512_castps256_ps512(_mm256_fmadd_ps(
      _mm512_castps512_ps256(a), _mm512_castps512_ps256(b), _mm512_castps512_ps256(c)));
}
NEEDLE_INLINE __m512d multiply_add_low(__m512d a, __m512d b, __m512d c) {
  return _mm512_castpd256_pd512(_mm256_fmadd_pd(
      _mm512_castpd512_pd256(a), _mm512_castpd512_pd256(b), _mm512_castpd512_pd256(c)));
}
#endif

// c ? x : y, lane by lane.
template <class C, class V>
  requires requires(C c, V v) { c[0], v[0]; }
NEEDLE_INLINE V choose(C condition, V x, V y) {
  return condition ? x : y;
}

// a > b ? a : b and a < b ? a : b, of scalars and vectors: b where they do not compare.
template <class V>
NEEDLE_INLINE V larger_of(V a, V b) {
  return a > b ? a : b;
}
template <class V>
NEEDLE_INLINE V smaller_of(V a, V b) {
  return a < b ? a : b;
}
#if defined(__AVX2__)  // one instruction, where compilers make two
#if defined(__AVX512F__)
NEEDLE_INLINE __m512 larger_of(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
NEEDLE_INLINE __m512 smaller_of(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
#endif
NEEDLE_INLINE __m256 larger_of(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
NEEDLE_INLINE __m256 smaller_of(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
NEEDLE_INLINE __m128 larger_of(__m128 a, __m128 b) { return _mm_max_ps(a, b); }
NEEDLE_INLINE __m128 smaller_of(__m128 a, __m128 b) { return _mm_min_ps(a, b); }
#endif

// Notes whether there is a NaN in the vectors that it is shown, two at a time.
template <class T>
class NanWatch {
 public:
  NEEDLE_INLINE void look(Vec<T> a, Vec<T> b) { seen_ |= (a != a) | (b != b); }
  NEEDLE_INLINE bool found() const {
    bool any = false;
    for (int i = 0; i < kLanes<T>; ++i) any |= seen_[i] != 0;
    return any;
  }

 private:
  decltype(Vec<T>{} != Vec<T>{}) seen_ = {};
};

#if defined(__AVX512F__)
template <>
class NanWatch<float> {
 public:
  NEEDLE_INLINE void look(Vec<float> a, Vec<float> b) {
    seen_ |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
  }
  NEEDLE_INLINE bool found() const { return seen_ != 0; }

 private:
  __mmask16 seen_ = 0;
};
#elif defined(__AVX2__)
template <>
class NanWatch<float> {
 public:
  NEEDLE_INLINE void look(Vec<float> a, Vec<float> b) {
    seen_ = _mm256_or_ps(seen_, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  NEEDLE_INLINE bool found() const { return _mm256_movemask_ps(seen_) != 0; }

 private:
  Vec<float> seen_ = {};
};
#endif

// The first n lanes of a vector, 1 <= n <= kLanes<T>: load gives zeros in the others, store leaves
// their memory alone; neither touches it. merge takes them from a vector, the others from another.
// T has 4 or 8 bytes.
#if defined(__AVX512F__)
constexpr bool kMaskIsFree = true;  // masked loads and stores take no longer than whole ones

template <class T>
class Lanes {
 public:
  explicit Lanes(int n) : mask_(static_cast<uint16_t>((1u << n) - 1)) {}

  NEEDLE_INLINE Vec<T> load(const T* p) const {
    if constexpr (sizeof(T) == 4) {
      return reinterpret_cast<Vec<T>>(_mm512_maskz_loadu_epi32(mask_, p));
    } else {
      return reinterpret_cast<Vec<T>>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask_), p));
    }
  }

  NEEDLE_INLINE void store(T* p, Vec<T> v) const {
    if constexpr (sizeof(T) == 4) {
      _mm512_mask_storeu_epi32(p, mask_, reinterpret_cast<__m512i>(v));
    } else {
      _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(mask_), reinterpret_cast<__m512i>(v));
    }
  }

  NEEDLE_INLINE Vec<float> merge(Vec<float> v, Vec<float> others) const {
    return _mm512_mask_blend_ps(mask_, others, v);
  }

 private:
  __mmask16 mask_;
};
#elif defined(__AVX2__)
constexpr bool kMaskIsFree = false;

template <class T>
class Lanes {
 public:
  explicit Lanes(int n) {
    constexpr int kWords = sizeof(T) / 4;  // the mask covers words of 4 bytes
    const __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    mask_ = _mm256_cmpgt_epi32(_mm256_set1_epi32(n * kWords), position);
  }

  NEEDLE_INLINE Vec<T> load(const T* p) const {
    return reinterpret_cast<Vec<T>>(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), mask_));
  }

  NEEDLE_INLINE void store(T* p, Vec<T> v) const {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), mask_, reinterpret_cast<__m256i>(v));
  }

  NEEDLE_INLINE Vec<float> merge(Vec<float> v, Vec<float> others) const {
    return _mm256_blendv_ps(others, v, reinterpret_cast<__m256>(mask_));
  }

 private:
  __m256i mask_;
};
#else
constexpr bool kMaskIsFree = kVecBytes == 64;

template <class T>
class Lanes {
 public:
  explicit Lanes(int n) : n_(n) {}

  NEEDLE_INLINE Vec<T> load(const T* p) const {
    Vec<T> v = {};
    for (int i = 0; i < kLanes<T>; ++i) {
      if (i < n_) v[i] = p[i];
    }
    return v;
  }

  NEEDLE_INLINE void store(T* p, Vec<T> v) const {
    for (int i = 0; i < kLanes<T>; ++i) {
      if (i < n_) p[i] = v[i];
    }
  }

  NEEDLE_INLINE Vec<T> merge(Vec<T> v, Vec<T> others) const {
    for (int i = 0; i < kLanes<T>; ++i) others[i] = i < n_ ? v[i] : others[i];
    return others;
  }

 private:
  int n_;
};
#endif

// Loads and stores of whole vectors, with the interface of Lanes.
template <class T>
struct WholeVec {
  NEEDLE_INLINE Vec<T> load(const T* p) const { return needle::NEEDLE_ISA::load(p); }
  NEEDLE_INLINE void store(T* p, Vec<T> v) const { needle::NEEDLE_ISA::store(p, v); }
  NEEDLE_INLINE Vec<T> merge(Vec<T> v, Vec<T>) const { return v; }
};

// Calls body(j, lanes) for the vectors that cover [0, n): whole ones, then what is left.
template <class T, class F>
NEEDLE_INLINE void for_each_vec(int64_t n, const F& body) {
  int64_t j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) body(j, WholeVec<T>{});
  if (j < n) body(j, Lanes<T>(static_cast<int>(n - j)));
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
