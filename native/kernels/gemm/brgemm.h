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

  NEEDLE_INLINE void next_block() { at = --blocks > 0 ? at + block : nullptr; }
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

// C's block whose first element is at `row`, `col` of the sum, and at `c` in memory. `last` is how
// many lanes of the last vector are columns of C.
template <class T>
using BlockFn = void (*)(const PanelSum<T>& sum, int64_t row, int64_t col, T* c, int64_t c_row,
                         int last, bool accumulate);

// The kernels of all blocks, compiled once (blocks_*.cc), by rows - 1, vectors - 1, is_short.
template <class T>
struct Blocks {
  BlockFn<T> fn[kMostRows][kMostVecs][2];
};
extern const Blocks<float> float_blocks;
extern const Blocks<double> double_blocks;
extern const Blocks<uint32_t> word_blocks;
extern const Blocks<uint64_t> long_blocks;

namespace {

NEEDLE_INLINE const Blocks<float>& blocks_of(float) { return float_blocks; }
NEEDLE_INLINE const Blocks<double>& blocks_of(double) { return double_blocks; }
NEEDLE_INLINE const Blocks<uint32_t>& blocks_of(uint32_t) { return word_blocks; }
NEEDLE_INLINE const Blocks<uint64_t>& blocks_of(uint64_t) { return long_blocks; }

// Is a last vector of few columns multiplied as half of one? 100 x 784 x 100 on one Zen 4 core: 159
// us, as a whole one 165; x 50: 86 and 94.
template <class T>
constexpr bool kTakesHalves = kVecBytes == 64 && (is_same<T, float> || is_same<T, double>);

// Has a block of few columns in its last vector a kernel of its own: with half of that vector, or a
// masked one where masks take time?
template <class T>
constexpr bool is_short(int last) {
  if (kMaskIsFree) return kTakesHalves<T> && last <= kLanes<T> / 2;
  return last < kLanes<T>;
}

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
template <class T>
NEEDLE_INLINE BlockKernel<T> block_kernel(int64_t rows, int64_t cols) {
  const int64_t vecs = ceil_div(cols, kLanes<T>);
  const int last = static_cast<int>(cols - (vecs - 1) * kLanes<T>);
  return {blocks_of(T{}).fn[rows - 1][vecs - 1][is_short<T>(last) ? 1 : 0], last};
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
