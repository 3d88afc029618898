// Batch-reduce GEMM: the one microkernel of matmul, convolution, recurrent cells and attention.
//
//     C[i][j] (+)= sum over p < count, k < depth of A_p[i][k] * B_p[k][j],   i < rows, j < cols
//
// The sum over p makes products of matrices that do not lie in one piece: the filter taps of a
// convolution, the blocks of a cache. Each p names two panels by address,
//
//     A_p[i][k] = list[p].a[i * a_row + k * a_col]     any steps: packed, or where it lies
//     B_p[k][j] = list[p].b[k * b_row + j]             rows contiguous
//     C[i][j]   = c[i * c_row + j]                     rows contiguous
//
// with steps in elements, the same for all p. Nothing outside these elements is read or written:
// columns beyond the last whole vector are masked. (What comes next may be asked for, see Ahead.)
// Scalars of A are broadcast from memory, so A needs no packing for SIMD's
// sake; packing helps the caches when A is large or its rows lie a power of two apart.
//
// multiply_panels takes a C of any size, whose panels should be in cache. A driver with its own
// loops asks block_kernel(rows, cols) for a kernel, with rows <= kMostRows and cols <=
// block_cols<T>(rows), and calls it for each block of C. Every element of C is one chain of fused
// multiply-adds in the order of p, then k, so results do not depend on how C is cut into blocks.
#pragma once

#include "kernels/loops.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
struct Panels {
  const T *a, *b;
};

// Memory that is needed next, which blocks ask for while they multiply: with every line of k one of
// r rows asks for r lines, the q-th time for those at `at + i * across + q * along`, i < r. In
// bytes.
struct Ahead {
  const char* at = nullptr;
  int64_t across = 0, along = 0;
  int64_t block = 0, blocks = 1;  // from the lines of a block to those of the next, of so many

  void next_block() { at = --blocks > 0 ? at + block : nullptr; }
};

// The sum over p and k: what all blocks of C have in common.
template <class T>
struct PanelSum {
  const Panels<T>* list;
  int64_t count, depth;
  int64_t a_row, a_col, b_row;
  Ahead ahead = {};
};

// Vectors of C that are held in registers; the others hold a row of B and a scalar of A. A block
// has kRows rows: no more than a set of the first-level cache has ways, as rows may all fall into
// one. Narrow blocks have up to kMostRows. Two Zen 4 cores, AVX-512: 512 cubed 215 GFLOP/s, with
// blocks of 14 x 2 vectors 205; 640 x 512 x 128 (NT) 215 and 211; 1024 cubed 216 and 210.
#if defined(__AVX512F__) || defined(NEEDLE_WIDE)
constexpr int kAccumulators = 28, kRows = 7, kMostRows = 14;  // of 32 registers
#elif defined(__AVX2__)
constexpr int kAccumulators = 12, kRows = 6, kMostRows = 6;  // of 16
#elif defined(__ARM_NEON)
constexpr int kAccumulators = 24, kRows = 8, kMostRows = 12;  // of 32
#else
constexpr int kAccumulators = 8, kRows = 4, kMostRows = 4;  // of 16, the products need some too
#endif
constexpr int kMostVecs = 4;

// Is a last vector of few columns multiplied as half of one? 100 x 784 x 100 on one Zen 4 core: 159
// us, as a whole one 165; x 50: 86 and 94.
template <class T>
constexpr bool kTakesHalves = kVecBytes == 64 && (is_same<T, float> || is_same<T, double>);

// How many vectors wide blocks of so many rows may be; with AVX-512, 14 x 2, 9 x 3 and 7 x 4.
constexpr int block_vecs(int64_t rows) {
  return static_cast<int>(min_of(kMostVecs, kAccumulators / rows));
}

template <class T>
constexpr int64_t block_cols(int64_t rows) {
  return block_vecs(rows) * kLanes<T>;
}

// Rows of blocks for so many columns.
template <class T>
constexpr int64_t block_rows(int64_t cols) {
  return cols <= block_cols<T>(kMostRows) ? kMostRows : kRows;
}

// C's block whose first element is at `row`, `col` of the sum, and at `c` in memory. `last` is how
// many lanes of the last vector are columns of C.
template <class T>
using BlockFn = void (*)(const PanelSum<T>& sum, int64_t row, int64_t col, T* c, int64_t c_row,
                         int last, bool accumulate);

// IsMasked, IsHalf: the last vector.
template <class T, int Rows, int Vecs, bool IsMasked, bool IsHalf = false>
void multiply_block(const PanelSum<T>& sum, int64_t row, int64_t col, T* c, int64_t c_row, int last,
                    bool accumulate) {
  constexpr int kGroup = 3;  // rows per pointer into A: x86 adds 0, 1 or 2 steps in an address
  constexpr int kGroups = (Rows + kGroup - 1) / kGroup;
  const Lanes<T> lanes(last);
  const auto load_vec = [&](const T* from, int v) NEEDLE_INLINE_LAMBDA {
    return IsMasked && v == Vecs - 1 ? lanes.load(from + v * kLanes<T>)
                                     : load(from + v * kLanes<T>);
  };
  const auto ask_for_c = [&](int i) NEEDLE_INLINE_LAMBDA {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) __builtin_prefetch(c + i * c_row + v * kLanes<T>, 1);
  };
  // Two rows of C with each line of k, while there are enough: all at once are more than a core
  // can wait for (640 x 128 x 10000 on one Zen 4 core: 105 GFLOP/s, at once 102).
  constexpr int64_t kLine = 64 / sizeof(T);
  int asked = 0;
  for (; sum.count * sum.depth < Rows / 2 * kLine && asked < Rows; ++asked) ask_for_c(asked);
  const int64_t a_row = sum.a_row, a_col = sum.a_col, b_row = sum.b_row, depth = sum.depth;
  const char* next = sum.ahead.at;
  Vec<T> acc[Rows][Vecs] = {};
  for (int64_t p = 0; p < sum.count; ++p) {
    const T* b = sum.list[p].b + col;
    const T* a[kGroups];
#pragma GCC unroll 16
    for (int g = 0; g < kGroups; ++g) a[g] = sum.list[p].a + (row + g * kGroup) * a_row;
    for (int64_t k = 0; k < depth; k += kLine) {
      for (int end = min_of(Rows, asked + 2); asked < end; ++asked) ask_for_c(asked);
      if (next != nullptr) {
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) __builtin_prefetch(next + i * sum.ahead.across);
        next += sum.ahead.along;
      }
      for (int64_t left = min_of(kLine, depth - k); left > 0; --left, b += b_row) {
        Vec<T> b_vecs[Vecs];
#pragma GCC unroll 4
        for (int v = 0; v < Vecs; ++v) b_vecs[v] = load_vec(b, v);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
          const T* const at = &a[i / kGroup][i % kGroup * a_row];
          const Vec<T> x = IsHalf && Vecs == 1 ? splat_low(*at) : splat(*at);
#pragma GCC unroll 4
          for (int v = 0; v < Vecs; ++v) {
            acc[i][v] = IsHalf && v == Vecs - 1 ? multiply_add_low(x, b_vecs[v], acc[i][v])
                                                : multiply_add(x, b_vecs[v], acc[i][v]);
          }
        }
#pragma GCC unroll 16
        for (int g = 0; g < kGroups; ++g) a[g] += a_col;
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    T* const c_at = c + i * c_row;
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const Vec<T> total = accumulate ? acc[i][v] + load_vec(c_at, v) : acc[i][v];
      if (IsMasked && v == Vecs - 1) {
        lanes.store(c_at + v * kLanes<T>, total);
      } else {
        store(c_at + v * kLanes<T>, total);
      }
    }
  }
}

template <class T>
struct BlockKernel {
  BlockFn<T> fn;
  int last;  // columns in the last vector

  void operator()(const PanelSum<T>& sum, int64_t row, int64_t col, T* c, int64_t c_row,
                  bool accumulate) const {
    fn(sum, row, col, c, c_row, last, accumulate);
  }
};

// The kernel for blocks of `rows` (1 to kMostRows) by `cols` (1 to block_cols<T>(rows)).
template <class T, int Rows = kMostRows, int Vecs = block_vecs(Rows)>
BlockKernel<T> block_kernel(int64_t rows, int64_t cols) {
  if constexpr (Rows > 1) {
    if (rows != Rows) return block_kernel<T, Rows - 1>(rows, cols);
  }
  if constexpr (Vecs > 1) {
    if (cols <= (Vecs - 1) * kLanes<T>) return block_kernel<T, Rows, Vecs - 1>(rows, cols);
  }
  const int last = static_cast<int>(cols - (Vecs - 1) * kLanes<T>);
  if (kTakesHalves<T> && last <= kLanes<T> / 2) {
    return {multiply_block<T, Rows, Vecs, true, kTakesHalves<T>>, last};
  }
  if (kMaskIsFree || last < kLanes<T>) return {multiply_block<T, Rows, Vecs, true>, last};
  return {multiply_block<T, Rows, Vecs, kMaskIsFree>, last};
}

// The size of even parts of n, at most `most` each, in multiples of `unit`.
constexpr int64_t even_part(int64_t n, int64_t most, int64_t unit = 1) {
  return ceil_div(ceil_div(n, ceil_div(n, most)), unit) * unit;
}

// C (rows x cols, any size) in blocks of at most `most_rows`. Panels of B stay in the first-level
// cache while the rows of A pass by.
template <class T>
void multiply_panels(const PanelSum<T>& sum, T* c, int64_t c_row, int64_t rows, int64_t cols,
                     bool accumulate, int64_t most_rows) {
  if (rows <= 0 || cols <= 0) return;
  const int64_t height = even_part(rows, most_rows);
  const int64_t width = even_part(cols, block_cols<T>(height), kLanes<T>);
  PanelSum<T> part = sum;
  for (int64_t j = 0; j < cols; j += width) {
    const int64_t n = min_of(width, cols - j);
    const BlockKernel<T> kernel = block_kernel<T>(height, n);
    int64_t i = 0;
    for (; i + height <= rows; i += height, part.ahead.next_block()) {
      kernel(part, i, j, c + i * c_row + j, c_row, accumulate);
    }
    if (i == rows) continue;
    block_kernel<T>(rows - i, n)(part, i, j, c + i * c_row + j, c_row, accumulate);
    part.ahead.next_block();
  }
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
