// Transposed copies of 4- and 8-byte elements, in registers of 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/simd/inline.h"

namespace needle::NEEDLE_ISA {
namespace {

// to[k * to_step + i] = row i's element k, for a block of 16 bytes by as many rows.
template <class T>
NEEDLE_INLINE void transpose_block(T* to, int64_t to_step, const char* from, int64_t row_stride) {
  typedef T V __attribute__((vector_size(16)));
  constexpr int kSide = 16 / sizeof(T);
  static_assert(kSide == 4 || kSide == 2);
  V row[kSide];
  for (int i = 0; i < kSide; ++i) __builtin_memcpy(&row[i], from + i * row_stride, 16);
  const auto put = [&](int k, V column) { __builtin_memcpy(to + k * to_step, &column, 16); };
  if constexpr (kSide == 4) {
    typedef int32_t Order __attribute__((vector_size(16)));
    const V ab_low = __builtin_shuffle(row[0], row[1], Order{0, 4, 1, 5});
    const V cd_low = __builtin_shuffle(row[2], row[3], Order{0, 4, 1, 5});
    const V ab_high = __builtin_shuffle(row[0], row[1], Order{2, 6, 3, 7});
    const V cd_high = __builtin_shuffle(row[2], row[3], Order{2, 6, 3, 7});
    put(0, __builtin_shuffle(ab_low, cd_low, Order{0, 1, 4, 5}));
    put(1, __builtin_shuffle(ab_low, cd_low, Order{2, 3, 6, 7}));
    put(2, __builtin_shuffle(ab_high, cd_high, Order{0, 1, 4, 5}));
    put(3, __builtin_shuffle(ab_high, cd_high, Order{2, 3, 6, 7}));
  } else {
    typedef int64_t Order __attribute__((vector_size(16)));
    put(0, __builtin_shuffle(row[0], row[1], Order{0, 2}));
    put(1, __builtin_shuffle(row[0], row[1], Order{1, 3}));
  }
}

// to[k * to_step + i] = row i's element k, i < n, k < depth. Rows of Ts lie row_stride bytes apart.
template <class T>
void transpose(T* to, int64_t to_step, const char* from, int64_t row_stride, int64_t n,
               int64_t depth) {
  constexpr int64_t kSide = 16 / sizeof(T);
  const int64_t even_rows = n / kSide * kSide, even_depth = depth / kSide * kSide;
  for (int64_t i = 0; i < even_rows; i += kSide) {
    const char* const rows = from + i * row_stride;
    for (int64_t k = 0; k < even_depth; k += kSide) {
      transpose_block(to + k * to_step + i, to_step, rows + k * sizeof(T), row_stride);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const T* const row = reinterpret_cast<const T*>(from + i * row_stride);
    for (int64_t k = i < even_rows ? even_depth : 0; k < depth; ++k) to[k * to_step + i] = row[k];
  }
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
