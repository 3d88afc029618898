// Matrices of any layout and dtype, and how a product copies parts of them: B in panels of columns,
// A in rows or columns of a block.
#pragma once

#include "brgemm.h"
#include "kernels/transpose.h"
#include "widen.h"

namespace needle::NEEDLE_ISA {

// A matrix of any layout, whose elements are computed in T; strides in bytes.
template <class T>
struct Matrix {
  const char* data;
  int64_t row_stride, col_stride;
  Source<T> source;
  DType dtype;  // as stored

  NEEDLE_INLINE const char* at(int64_t row, int64_t col) const {
    return data + row * row_stride + col * col_stride;
  }
  NEEDLE_INLINE Matrix transposed() const { return {data, col_stride, row_stride, source, dtype}; }
};

namespace {

// How many of B's rows and A's columns ahead are asked for, GFLOP/s of one core (AVX2, Zen 3): 384
// x 2048 x 384 (TN) 87, 1536 x 2048 x 384 92; without, and A packed by each tile, 79 and 88; on two
// cores 162 and 173 instead of 148 and 168.
constexpr int64_t kLinesAhead = 8;

// to[k * pitch + j] = element k, j of B; some columns, at most a block's
template <class T>
void pack_panel(T* to, int64_t pitch, const Matrix<T>& b, int64_t k0, int64_t depth, int64_t col,
                int64_t cols) {
  constexpr int64_t kSize = sizeof(T), kWidth = block_cols<T>(kRows);
  const char* from = b.at(k0, col);
  if (b.source.is_plain && b.col_stride == kSize) {
    const int64_t whole = (cols - 1) / kLanes<T> * kLanes<T>;
    const Lanes<T> last(static_cast<int>(cols - whole));
    for (int64_t k = 0; k < depth; ++k, to += pitch, from += b.row_stride) {
      const T* const row = reinterpret_cast<const T*>(from);
      for (int64_t j = 0; j < whole; j += kLanes<T>) store(to + j, load(row + j));
      last.store(to + whole, last.load(row + whole));
    }
  } else if (b.source.is_plain && b.row_stride == kSize) {
    transpose(to, pitch, from, b.col_stride, cols, depth);
  } else if (length_of(b.col_stride) < length_of(b.row_stride)) {
    const auto widen_rows = [&](auto tag) {
      using E = typename decltype(tag)::type;
      for (int64_t k = 0; k < depth; ++k, to += kWidth, from += b.row_stride) {
        for (int64_t j = 0; j < kWidth; j += kLanes<T>) {
          store(to + j, widened(reinterpret_cast<const E*>(from) + j));
        }
      }
    };
    if (cols == kWidth && with_widened<T>(b.dtype, b.col_stride, widen_rows)) return;
    for (int64_t k = 0; k < depth; ++k) {
      b.source.load(to + k * pitch, from + k * b.row_stride, b.col_stride, cols);
    }
  } else {
    constexpr int64_t kStretch = 64;
    T columns[block_cols<T>(1) * kStretch];
    for (int64_t k = 0; k < depth; k += kStretch) {
      const int64_t n = min_of(kStretch, depth - k);
      for (int64_t j = 0; j < cols; ++j) {
        b.source.load(columns + j * kStretch, from + k * b.row_stride + j * b.col_stride,
                      b.row_stride, n);
      }
      const char* const loaded = reinterpret_cast<const char*>(columns);
      transpose(to + k * pitch, pitch, loaded, kStretch * kSize, cols, n);
    }
  }
}

// to[i / kRows * kRows * depth + k * kRows + i % kRows] = element i, k of A, for rows from `from`;
// one k after the other, since that is how such an A lies in memory
template <class T>
void pack_rows(T* to, const Matrix<T>& a, const char* from, int64_t rows, int64_t depth) {
  const bool is_plain = a.source.is_plain && a.row_stride == sizeof(T);
  for (int64_t k = 0; k < depth; ++k, from += a.col_stride, to += kRows) {
    T* panel = to;
    int64_t i = 0;
    if (is_plain) prefetch(from + kLinesAhead * a.col_stride, rows * sizeof(T));
    for (; is_plain && i + kRows <= rows; i += kRows, panel += kRows * depth) {
      __builtin_memcpy(panel, from + i * sizeof(T), kRows * sizeof(T));
    }
    for (; i < rows; i += kRows, panel += kRows * depth) {
      a.source.load(panel, from + i * a.row_stride, a.row_stride, min_of(kRows, rows - i));
    }
  }
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
