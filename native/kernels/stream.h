// Stores that go past the caches. A plain store to memory that is in no cache reads it first; one
// that fills whole lines without being read again need not.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "common/view.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

// Results from this size on are streamed; those of one operation from twice as many bytes on. Two
// threads, last-level cache of 32 MB, ms plain and streamed: two matrices of 16 MB joined 2.8 and
// 1.6 to 2.0, float32 to 32 MB of float64 1.6 and 1.3 to 1.7, x + row of 16 MB 0.6 to 0.8 and 0.8
// to 0.9, to 8 MB of bfloat16 0.7 and 0.8.
constexpr int64_t kStreamedBytes = 12 << 20;

inline bool is_streamed(const View& out, int64_t from_bytes = kStreamedBytes) {
#if defined(__SSE2__)
  return out.size() * item_size(out.dtype) >= from_bytes;
#else
  (void)out, (void)from_bytes;
  return false;
#endif
}

inline void stream(char* to, const void* from, int64_t bytes) {
  const char* source = static_cast<const char*>(from);
#if defined(__AVX__)
  using Word = __m256i;
  const auto move = [](char* word, const char* at) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(word),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  };
#elif defined(__SSE2__)
  using Word = __m128i;
  const auto move = [](char* word, const char* at) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(word),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
#endif
#if defined(__SSE2__)
  constexpr int64_t kWord = sizeof(Word);
  const auto misplaced = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % kWord);
  const int64_t head = misplaced < bytes ? misplaced : bytes;
  __builtin_memcpy(to, source, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kWord <= bytes; i += kWord) move(to + i, source + i);
  __builtin_memcpy(to + i, source + i, static_cast<size_t>(bytes - i));
#else
  __builtin_memcpy(to, source, static_cast<size_t>(bytes));
#endif
}

// One vector, at a multiple of its size.
inline void stream(float* to, Vec<float> v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, v);
#elif defined(__AVX__) && !defined(NEEDLE_WIDE)
  _mm256_stream_ps(to, v);
#else
  store(to, v);
#endif
}

// At the end of its scope, other threads see what was streamed in it.
struct StreamEnd {
  bool is_needed;
  ~StreamEnd() {
#if defined(__SSE2__)
    if (is_needed) _mm_sfence();
#endif
  }
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
