// C = A B for strided matrices of any dtype, by blocks of brgemm.h.
//
// C is cut into tiles, which threads take one by one. A tile goes through k in blocks of kDepth:
//
//     for each block of k                    A's rows of the block fit the second-level cache,
//       for each panel of B's columns        a panel of B the first,
//         for each block of C's rows         and a block of C the registers
//
// A and B are read where they lie when they are small, or used too little to pay for a copy, and A
// also when its rows are contiguous. Otherwise B is packed into panels before the tiles start, or
// by the tile when no other needs the same columns; A's part is copied by the tile, as it lies.
// Nothing splits a sum over k but kDepth, so results depend neither on the number of threads nor on
// what is packed.
#pragma once

#include "brgemm.h"
#include "transpose.h"
#include "workspace.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// A matrix of any layout, whose elements are computed in T; strides in bytes.
template <class T>
struct Matrix {
  const char* data;
  int64_t row_stride, col_stride;
  Source<T> source;

  const char* at(int64_t row, int64_t col) const {
    return data + row * row_stride + col * col_stride;
  }
  Matrix transposed() const { return {data, col_stride, row_stride, source}; }
};

template <class T>
struct Result {
  char* data;
  int64_t row_stride, col_stride;
  StoreFn<T> store;
  bool is_plain;  // rows are Ts side by side: tiles are written in place

  char* at(int64_t row, int64_t col) const { return data + row * row_stride + col * col_stride; }
};

// out (m x n) = a (m x k) b (k x n)
template <class T>
struct Product {
  Result<T> out;
  Matrix<T> a, b;
  int64_t m, n, k;

  // Some rows and columns of out.
  Product part(int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    Product some = *this;
    some.out.data = out.at(row, col);
    some.a.data = a.at(row, 0);
    some.b.data = b.at(0, col);
    some.m = rows;
    some.n = cols;
    return some;
  }

  // out' = b' a'
  Product transposed() const {
    return {{out.data, out.col_stride, out.row_stride, out.store, out.is_plain},
            b.transposed(),
            a.transposed(),
            n,
            m,
            k};
  }
};

// Chosen by GFLOP/s of one core (AVX-512, peak 168), best of interleaved runs.
template <class T>
constexpr int64_t kDepth = 1536 / sizeof(T);  // k per block; 2048 cubed: 256 floats 142, 384 145
constexpr int64_t kTileRows = 8 * kRows;      // a task's tile of C
constexpr int64_t kTileCols = 512;
constexpr int64_t kTaskWork = 1 << 20;  // multiplications worth a task, until there are kTasks
constexpr int64_t kTasks = 16;
constexpr int64_t kSmallMatrix = 1 << 17;  // elements read in place; 100 x 784 x 100: packed
constexpr int64_t kFewUses = 64;           // 98, in place 139; and for so few rows or cols
constexpr int64_t kPackGrain = 1 << 14;    // elements worth a task of packing
constexpr int64_t kMostPacked = int64_t{1} << 23;  // elements of B packed at once

// to[k * cols + j] = element k, j of B
template <class T>
void pack_panel(T* to, const Matrix<T>& b, int64_t k0, int64_t depth, int64_t col, int64_t cols) {
  constexpr int64_t kSize = sizeof(T), kWidth = block_cols<T>(kRows);
  const char* from = b.at(k0, col);
  if (b.source.is_plain && b.col_stride == kSize && cols == kWidth) {
    for (int64_t k = 0; k < depth; ++k, to += kWidth, from += b.row_stride) {
      __builtin_memcpy(to, from, kWidth * kSize);
    }
  } else if (b.source.is_plain && b.row_stride == kSize) {
    transpose(to, cols, from, b.col_stride, cols, depth);
  } else if (length_of(b.col_stride) < length_of(b.row_stride)) {
    for (int64_t k = 0; k < depth; ++k) {
      b.source.load(to + k * cols, from + k * b.row_stride, b.col_stride, cols);
    }
  } else {
    T column[kDepth<T>];
    for (int64_t j = 0; j < cols; ++j) {
      b.source.load(column, from + j * b.col_stride, b.row_stride, depth);
      for (int64_t k = 0; k < depth; ++k) to[k * cols + j] = column[k];
    }
  }
}

template <class T>
class Gemm {
 public:
  explicit Gemm(const Product<T>& product) : p_(product) {
    depth_ = even_part(p_.k, kDepth<T>);
    height_ = even_part(p_.m, kRows);
    width_ = block_cols<T>(height_);
    cut_tiles();
    const bool is_small_a = p_.m * p_.k <= kSmallMatrix || p_.n <= kFewUses;
    const bool is_small_b = p_.k * p_.n <= kSmallMatrix || p_.m <= kFewUses;
    reads_a_ = p_.a.source.is_plain && (is_small_a || p_.a.col_stride == kSize);
    reads_b_ = p_.b.source.is_plain && p_.b.col_stride == kSize && is_small_b;
    const bool shares_columns = tile_rows_ < p_.m && p_.k * kTileCols <= kMostPacked;
    packs_b_first_ = !reads_b_ && shares_columns;
  }

  void run() {
    const int64_t most = packs_b_first_ ? kMostPacked / p_.k / width_ * width_ : p_.n;
    const int64_t region = even_part(p_.n, most, tile_cols_);
    const Workspace packed(packs_b_first_ ? min_of(region, p_.n) * p_.k * kSize : 0);
    packed_b_ = packed.as<T>();
    for (col0_ = 0; col0_ < p_.n; col0_ += region) {
      cols_ = min_of(region, p_.n - col0_);
      if (packs_b_first_) pack_b();
      const int64_t down = ceil_div(p_.m, tile_rows_), across = ceil_div(cols_, tile_cols_);
      parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) run_tile(t / across, t % across);
      });
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // Halves the longer side until there are tasks enough.
  void cut_tiles() {
    const int64_t tasks = min_of(kTasks, p_.m * p_.n * p_.k / kTaskWork);
    tile_rows_ = even_part(p_.m, kTileRows, height_);
    tile_cols_ = even_part(p_.n, kTileCols, width_);
    while (ceil_div(p_.m, tile_rows_) * ceil_div(p_.n, tile_cols_) < tasks) {
      if (tile_cols_ <= width_ && tile_rows_ <= height_) return;
      if (tile_cols_ > tile_rows_ && tile_cols_ > width_) {
        tile_cols_ = even_part(tile_cols_, tile_cols_ / 2, width_);
      } else {
        tile_rows_ = even_part(tile_rows_, tile_rows_ / 2, height_);
      }
    }
  }

  void pack_b() {
    const int64_t panels = ceil_div(cols_, width_), blocks = ceil_div(p_.k, depth_);
    const int64_t grain = max_of(1, kPackGrain / (depth_ * width_));
    parallel_for(panels * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t j = t / blocks * width_, k0 = t % blocks * depth_;
        const int64_t cols = min_of(width_, cols_ - j);
        pack_panel(packed_b_ + j * p_.k + k0 * cols, p_.b, k0, min_of(depth_, p_.k - k0), col0_ + j,
                   cols);
      }
    });
  }

  void run_tile(int64_t tile_row, int64_t tile_col) {
    const int64_t row = tile_row * tile_rows_, col = tile_col * tile_cols_;
    const int64_t rows = min_of(tile_rows_, p_.m - row), cols = min_of(tile_cols_, cols_ - col);
    const int64_t a_size = reads_a_ ? 0 : rows * depth_;
    const int64_t b_size = reads_b_ || packs_b_first_ ? 0 : depth_ * width_;
    const int64_t sums = p_.out.is_plain ? 0 : rows * cols;
    const Workspace workspace((a_size + b_size + sums) * kSize, kept_by_task);
    T* const copied_a = workspace.as<T>();
    T* const copied_b = copied_a + a_size;
    char* const out = p_.out.at(row, col0_ + col);
    T* const c = p_.out.is_plain ? reinterpret_cast<T*>(out) : copied_b + b_size;
    const int64_t c_row = p_.out.is_plain ? p_.out.row_stride / kSize : cols;
    for (int64_t k0 = 0; k0 < p_.k; k0 += depth_) {
      const int64_t depth = min_of(depth_, p_.k - k0);
      Panels<T> panels;
      PanelSum<T> sum = {&panels, 1, depth, 0, 0, 0};
      panels.a = rows_of_a(copied_a, row, rows, k0, sum);
      for (int64_t j = 0; j < cols; j += width_) {
        const int64_t width = min_of(width_, cols - j);
        panels.b = panel_of_b(copied_b, col + j, width, k0, sum);
        multiply_panels(sum, c + j, c_row, rows, width, k0 > 0);
      }
    }
    if (p_.out.is_plain) return;
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(out + i * p_.out.row_stride, p_.out.col_stride, c + i * cols, cols);
    }
  }

  const T* rows_of_a(T* to, int64_t row, int64_t rows, int64_t k0, PanelSum<T>& sum) {
    const char* const from = p_.a.at(row, k0);
    sum.a_row = p_.a.row_stride / kSize;
    sum.a_col = p_.a.col_stride / kSize;
    if (reads_a_) return reinterpret_cast<const T*>(from);
    if (length_of(p_.a.col_stride) <= length_of(p_.a.row_stride)) {
      sum.a_row = sum.depth;
      sum.a_col = 1;
      for (int64_t i = 0; i < rows; ++i) {
        p_.a.source.load(to + i * sum.depth, from + i * p_.a.row_stride, p_.a.col_stride,
                         sum.depth);
      }
    } else {
      sum.a_row = 1;
      sum.a_col = rows;
      for (int64_t k = 0; k < sum.depth; ++k) {
        p_.a.source.load(to + k * rows, from + k * p_.a.col_stride, p_.a.row_stride, rows);
      }
    }
    return to;
  }

  const T* panel_of_b(T* to, int64_t col, int64_t cols, int64_t k0, PanelSum<T>& sum) {
    if (reads_b_) {
      sum.b_row = p_.b.row_stride / kSize;
      return reinterpret_cast<const T*>(p_.b.at(k0, col0_ + col));
    }
    sum.b_row = cols;
    if (packs_b_first_) return packed_b_ + col * p_.k + k0 * cols;
    pack_panel(to, p_.b, k0, sum.depth, col0_ + col, cols);
    return to;
  }

  const Product<T> p_;
  int64_t depth_, height_, width_;  // of blocks
  int64_t tile_rows_, tile_cols_;
  bool reads_a_, reads_b_;  // where they lie
  bool packs_b_first_;      // the tiles share it
  T* packed_b_;
  int64_t col0_, cols_;  // the columns of B at work
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
