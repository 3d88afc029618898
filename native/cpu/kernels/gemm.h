// C = A B for strided matrices of any dtype, by blocks of brgemm.h.
//
//     for each region of B (columns, span of k)   packed by all threads, stays in the shared cache
//       for each tile of C                        threads take them one by one
//         for each block of k                     A's rows of the block fit the second-level cache,
//           for each panel of B's columns         a panel of B the first,
//             for each block of C's rows          and a block of C the registers
//
// A and B are read where they lie when they are small, or used too little to pay for a copy, and A
// also when its rows are contiguous. Otherwise B is packed into panels before the tiles start, or
// by the tile when no other needs the same columns; A's part is copied by the tile. Few rows pass
// over B in the order of memory, kThinDepth of its rows at a time. Nothing splits a sum over k but
// depth_, so results depend neither on the number of threads nor on what is packed.
#pragma once

#include "brgemm.h"
#include "epilogue.h"
#include "transpose.h"
#include "widen.h"
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
  DType dtype;  // as stored

  const char* at(int64_t row, int64_t col) const {
    return data + row * row_stride + col * col_stride;
  }
  Matrix transposed() const { return {data, col_stride, row_stride, source, dtype}; }
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

// Chosen by GFLOP/s of one core, best of interleaved runs: with AVX2 on Zen 3, where multiply-adds
// in registers reach 101 (kDepth, kSmallMatrix and kFewUses first with AVX-512).
//
//     k per block: 2048 cubed 92, with 256 floats 89
//     of a B that is read in place, as its rows straddle lines: 100 x 784 x 100 82, with 384 79
//     and for few rows: 8 x 2048 x 2048 40, with 384 30; 32 x 2048 x 2048 50, with 256 62
template <class T>
constexpr int64_t kDepth = 1536 / sizeof(T);
template <class T>
constexpr int64_t kDepthInPlace = 1024 / sizeof(T);
constexpr int64_t kThinDepth = 24, kThinRows = 2 * kRows;
//     a task's tile of C, and the elements of B packed at once: 2048 cubed 92, 384 x 2048 x 1536
//     (TN) 89; with 48 x 512 and all of B 77 and 66
constexpr int64_t kTileRows = 12 * kRows, kTileCols = 1024;
constexpr int64_t kMostPacked = int64_t{1} << 20;
//     rows that make so few tiles are one, which packs B itself: 128 x 640 x 10000 (TN) 81, with
//     two tiles 76; on two cores 155 and 122. Its rows stay together if that leaves half the tasks:
//     128 x 3072 x 768 (two cores) 156, cut 137
constexpr int64_t kFewTiles = 2;
constexpr int64_t kTaskWork = 1 << 20;  // multiplications worth a task, until there are kTasks,
constexpr int64_t kTasks = 16;
constexpr int64_t kWorkForTwo = 1 << 18;   // and those worth two
constexpr int64_t kSmallMatrix = 1 << 17;  // elements read in place,
constexpr int64_t kFewUses = 64;           // and for so few rows or cols; but for a B
//     whose rows, so many bytes apart, share few sets of the first-level cache: packed
//     640 x 128 x 512 92, 2048 x 65 x 1024 89; in place 77 and 69
constexpr int64_t kSharedSets = 2048;
constexpr int64_t kPackGrain = 1 << 14;  // elements worth a task of packing

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
      b.source.load(to + k * cols, from + k * b.row_stride, b.col_stride, cols);
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
      transpose(to + k * cols, cols, loaded, kStretch * kSize, cols, n);
    }
  }
}

// to[k * kRows + i] = element i, k of A, for up to kRows rows from `from`
template <class T>
void pack_rows(T* to, const Matrix<T>& a, const char* from, int64_t rows, int64_t depth) {
  if (a.source.is_plain && a.row_stride == sizeof(T) && rows == kRows) {
    for (int64_t k = 0; k < depth; ++k, from += a.col_stride) {
      __builtin_memcpy(to + k * kRows, from, kRows * sizeof(T));
    }
  } else {
    for (int64_t k = 0; k < depth; ++k, from += a.col_stride) {
      a.source.load(to + k * kRows, from, a.row_stride, rows);
    }
  }
}

template <class T>
class Gemm {
 public:
  // An epilogue is run on finished tiles; without a plain result it alone takes the sums.
  explicit Gemm(const Product<T>& product, const Epilogue* epilogue = nullptr)
      : p_(product), epilogue_(epilogue) {
    height_ = even_part(p_.m, kRows);
    width_ = block_cols<T>(height_);
    const bool is_small_a = p_.m * p_.k <= kSmallMatrix || p_.n <= kFewUses;
    const bool shares_sets = p_.m > kFewUses && p_.b.row_stride % kSharedSets == 0;
    const bool is_small_b = p_.k * p_.n <= kSmallMatrix && !shares_sets;
    reads_a_ = p_.a.source.is_plain && (is_small_a || p_.a.col_stride == kSize);
    reads_b_ = p_.b.source.is_plain && p_.b.col_stride == kSize && (is_small_b || p_.m <= kFewUses);
    has_rows_of_a_ = length_of(p_.a.col_stride) <= length_of(p_.a.row_stride);
    cut_tiles();
    packs_b_first_ = !reads_b_ && tile_rows_ < p_.m;
    const bool is_thin = reads_b_ && !is_small_b && p_.m <= kThinRows;
    depth_ = even_part(p_.k, is_thin ? kThinDepth : reads_b_ ? kDepthInPlace<T> : kDepth<T>);
  }

  void run() {
    cut_regions();
    const Workspace packed(packs_b_first_ ? region_cols_ * region_depth_ * kSize : 0);
    packed_b_ = packed.as<T>();
    for (col0_ = 0; col0_ < p_.n; col0_ += region_cols_) {
      cols_ = min_of(region_cols_, p_.n - col0_);
      for (k0_ = 0; k0_ < p_.k; k0_ += region_depth_) {
        span_ = min_of(region_depth_, p_.k - k0_);
        if (packs_b_first_) pack_b();
        const int64_t down = ceil_div(p_.m, tile_rows_), across = ceil_div(cols_, tile_cols_);
        parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) run_tile(t / across, t % across);
        });
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // Halves the longer side until there are tasks enough.
  void cut_tiles() {
    const int64_t work = p_.m * p_.n * p_.k;
    const int64_t tasks = max_of(work >= kWorkForTwo ? 2 : 1, min_of(kTasks, work / kTaskWork));
    const auto is_enough = [&](int64_t count) {
      return count >= tasks || (2 * count >= tasks && !reads_b_ && tile_rows_ >= p_.m);
    };
    tile_rows_ = even_part(p_.m, p_.m <= kFewTiles * kTileRows ? p_.m : kTileRows, height_);
    tile_cols_ = even_part(p_.n, kTileCols, width_);
    while (!is_enough(ceil_div(p_.m, tile_rows_) * ceil_div(p_.n, tile_cols_))) {
      if (tile_cols_ <= width_ && tile_rows_ <= height_) return;
      if (tile_cols_ > tile_rows_ && tile_cols_ > width_) {
        tile_cols_ = even_part(tile_cols_, tile_cols_ / 2, width_);
      } else {
        tile_rows_ = even_part(tile_rows_, tile_rows_ / 2, height_);
      }
    }
  }

  // All of B when it stays in cache; else some blocks of k, for all columns if they do. Tiles whose
  // sums are not kept in C go through all of k at once.
  void cut_regions() {
    region_cols_ = even_part(p_.n, p_.n, tile_cols_);
    region_depth_ = p_.k;
    if (!packs_b_first_ || p_.k * p_.n <= kMostPacked) return;
    if (p_.out.is_plain) {
      const int64_t most = kMostPacked / region_cols_ / depth_ * depth_;
      region_depth_ = min_of(p_.k, max_of(depth_, most));
    }
    const int64_t most = max_of(1, kMostPacked / region_depth_ / tile_cols_) * tile_cols_;
    region_cols_ = min_of(region_cols_, even_part(p_.n, most, tile_cols_));
  }

  void pack_b() {
    const int64_t panels = ceil_div(cols_, width_), blocks = ceil_div(span_, depth_);
    const int64_t grain = max_of(1, kPackGrain / (depth_ * width_));
    parallel_for(panels * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t j = t / blocks * width_, k = t % blocks * depth_;
        const int64_t cols = min_of(width_, cols_ - j), depth = min_of(depth_, span_ - k);
        pack_panel(packed_b_ + j * span_ + k * cols, p_.b, k0_ + k, depth, col0_ + j, cols);
      }
    });
  }

  void run_tile(int64_t tile_row, int64_t tile_col) {
    const int64_t row = tile_row * tile_rows_, col = tile_col * tile_cols_;
    const int64_t rows = min_of(tile_rows_, p_.m - row), cols = min_of(tile_cols_, cols_ - col);
    const int64_t a_size = reads_a_ ? 0 : ceil_div(rows, kRows) * kRows * depth_;
    const int64_t b_size = reads_b_ || packs_b_first_ ? 0 : depth_ * width_;
    const bool packs_rows_of_b = b_size > 0 && length_of(p_.b.col_stride) <= kSize;
    const int64_t sums = p_.out.is_plain ? 0 : rows * cols;
    const Workspace workspace((a_size + b_size + sums) * kSize, kept_by_task);
    T* const copied_a = workspace.as<T>();
    T* const copied_b = copied_a + a_size;
    char* const out = p_.out.at(row, col0_ + col);
    T* const c = p_.out.is_plain ? reinterpret_cast<T*>(out) : copied_b + b_size;
    const int64_t c_row = p_.out.is_plain ? p_.out.row_stride / kSize : cols;
    for (int64_t k = k0_; k < k0_ + span_; k += depth_) {
      Panels<T> panels;
      PanelSum<T> sum = {&panels, 1, min_of(depth_, k0_ + span_ - k), 0, 0, 0};
      const T* const a = rows_of_a(copied_a, row, rows, k, sum);
      for (int64_t j = 0; j < cols; j += width_) {
        const int64_t width = min_of(width_, cols - j);
        panels.a = a;
        panels.b = panel_of_b(copied_b, col + j, width, k, sum);
        if (packs_rows_of_b && j + width_ < cols) prefetch_b(col + j + width_, k, sum.depth);
        if (reads_a_ || has_rows_of_a_) {
          multiply_panels(sum, c + j, c_row, rows, width, k > 0);
          continue;
        }
        for (int64_t i = 0; i < rows; i += kRows, panels.a += kRows * sum.depth) {
          const int64_t height = min_of(kRows, rows - i);
          multiply_panels(sum, c + i * c_row + j, c_row, height, width, k > 0);
        }
      }
    }
    if constexpr (is_same<T, float>) {
      const bool is_finished = k0_ + span_ == p_.k;
      if (epilogue_ != nullptr && is_finished) {
        run_on_block(*epilogue_, c, c_row, row, rows, col0_ + col, cols);
      }
    }
    if (p_.out.is_plain || epilogue_ != nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(out + i * p_.out.row_stride, p_.out.col_stride, c + i * cols, cols);
    }
  }

  // Where they lie; or copied, row after row if they are rows in memory, else kRows at a time.
  const T* rows_of_a(T* to, int64_t row, int64_t rows, int64_t k, PanelSum<T>& sum) {
    const char* const from = p_.a.at(row, k);
    if (reads_a_) {
      sum.a_row = p_.a.row_stride / kSize;
      sum.a_col = p_.a.col_stride / kSize;
      return reinterpret_cast<const T*>(from);
    }
    sum.a_row = has_rows_of_a_ ? sum.depth : 1;
    sum.a_col = has_rows_of_a_ ? 1 : kRows;
    const int64_t step = has_rows_of_a_ ? 1 : kRows;
    for (int64_t i = 0; i < rows; i += step) {
      const char* const at = from + i * p_.a.row_stride;
      if (has_rows_of_a_) {
        p_.a.source.load(to + i * sum.depth, at, p_.a.col_stride, sum.depth);
      } else {
        pack_rows(to + i * sum.depth, p_.a, at, min_of(kRows, rows - i), sum.depth);
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
    if (packs_b_first_) return packed_b_ + col * span_ + (k0 - k0_) * cols;
    pack_panel(to, p_.b, k0, sum.depth, col0_ + col, cols);
    return to;
  }

  // The panel that the tile packs next, while this one is multiplied: its rows may be pages apart.
  // On one core 128 x 640 x 10000 (TN) 84, without 78; 100 x 128 x 10000 87 and 80.
  void prefetch_b(int64_t col, int64_t k0, int64_t depth) const {
    const char* at = p_.b.at(k0, col0_ + col);
    for (int64_t k = 0; k < depth; ++k, at += p_.b.row_stride) __builtin_prefetch(at, 0, 2);
  }

  const Product<T> p_;
  const Epilogue* const epilogue_;
  int64_t depth_, height_, width_;  // of blocks
  int64_t tile_rows_, tile_cols_;
  bool reads_a_, reads_b_;  // where they lie
  bool packs_b_first_;      // the tiles share it
  bool has_rows_of_a_;      // side by side, or columns
  T* packed_b_;
  int64_t region_cols_, region_depth_;
  int64_t col0_, cols_, k0_, span_;  // the region at work
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
