// C = A B for strided matrices: one register-blocked microkernel over packed panels.
//
// A is cut into panels of kRows rows and B into panels of kCols columns, both stored k-major, so
// the microkernel reads them straight through. Blocks of kDepth along k keep the panels in cache.
// Threads share out the tiles of C; nothing splits k, so results do not depend on their number.
#pragma once

#include "brgemm.h"
#include "transpose.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

template <class T>
constexpr int kCols = static_cast<int>(block_cols<T>(kRows));

template <class T>
constexpr int64_t kDepth = 1536 / sizeof(T);                // k per block
constexpr int64_t kTileRows = ceil_div(96, kRows) * kRows;  // a task's tile of C
constexpr int64_t kTileCols = 256;
constexpr int64_t kRegionRows = ceil_div(2048, kTileRows) * kTileRows;  // what is packed at once
constexpr int64_t kRegionCols = 2048;

// A matrix of any layout, whose elements are computed in T; strides in bytes.
template <class T>
struct Matrix {
  const char* data;
  int64_t row_stride, col_stride;
  Source<T> source;
};

template <class T>
struct Result {
  char* data;
  int64_t row_stride, col_stride;
  StoreFn<T> store;
  bool is_plain;  // rows are Ts side by side: tiles are written in place
};

// panel[k * width + i] = element i along `across` and k along `along`, i < n <= Width. Panels of A
// are as wide as they have rows; those of B are padded with zeros to Width.
template <class T, int Width>
void pack_panel(T* panel, const Source<T>& source, const char* from, int64_t across, int64_t along,
                int64_t n, int64_t width, int64_t depth) {
  constexpr int64_t kSize = sizeof(T);
  if (n < width) __builtin_memset(panel, 0, width * depth * kSize);
  if (source.is_plain && across == kSize && n == Width) {
    for (int64_t k = 0; k < depth; ++k) {
      __builtin_memcpy(panel + k * Width, from + k * along, Width * kSize);
    }
  } else if (source.is_plain && along == kSize) {
    transpose(panel, width, from, across, n, depth);
  } else if (length_of(across) < length_of(along)) {
    for (int64_t k = 0; k < depth; ++k) {
      source.load(panel + k * width, from + k * along, across, n);
    }
  } else {
    constexpr int64_t kRun = 64;
    T buffer[kRun];
    for (int64_t start = 0; start < depth; start += kRun) {
      const int64_t run = min_of(kRun, depth - start);
      for (int64_t i = 0; i < n; ++i) {
        source.load(buffer, from + i * across + start * along, along, run);
        for (int64_t k = 0; k < run; ++k) panel[(start + k) * width + i] = buffer[k];
      }
    }
  }
}

// 64-byte-aligned memory. Each thread keeps some for its next multiplication: fresh pages would
// cost more than packing.
struct Memory {
  void* data = nullptr;
  int64_t bytes = 0;
  ~Memory() { ::operator delete(data, std::align_val_t{64}); }

  void swap(Memory& other) {
    void* const other_data = other.data;
    const int64_t other_bytes = other.bytes;
    other.data = data;
    other.bytes = bytes;
    data = other_data;
    bytes = other_bytes;
  }
};
thread_local Memory kept_memory;

// Memory for one multiplication: what the thread keeps, taken for as long as this lives. A signal
// handler that multiplies between the pieces of another product finds none, and gets its own.
class Workspace {
 public:
  explicit Workspace(int64_t bytes, Memory& kept = kept_memory) : kept_(kept) {
    memory_.swap(kept_);
    if (memory_.bytes >= bytes) return;
    Memory().swap(memory_);
    memory_.data = ::operator new(bytes, std::align_val_t{64});
    memory_.bytes = bytes;
  }
  ~Workspace() {
    constexpr int64_t kMostKept = 1 << 26;  // packed panels and sums take at most 40 MB
    if (memory_.bytes <= kMostKept) memory_.swap(kept_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_.data);
  }

 private:
  Memory& kept_;
  Memory memory_;
};

// One multiplication of m x k by k x n.
template <class T>
class Gemm {
 public:
  Gemm(Result<T> out, Matrix<T> a, Matrix<T> b, int64_t m, int64_t n, int64_t k)
      : out_(out), a_(a), b_(b), m_(m), n_(n), k_(k) {
    // Few rows do not pay for packing B: panels that need no padding are read where they are.
    reads_b_in_place_ = m <= kFewRows && b.source.is_plain && b.col_stride == kSize;
    max_depth_ = ceil_div(k, ceil_div(k, kDepth<T>));  // blocks of k are even
  }

  void run() {
    const int64_t rows = min_of(m_, kRegionRows), cols = padded_cols(min_of(n_, kRegionCols));
    const int64_t sums = out_.is_plain ? 0 : rows * cols;
    const int64_t packed_cols = reads_b_in_place_ ? kCols<T> : cols;
    const Workspace workspace((sums + (packed_cols + rows) * max_depth_) * kSize);
    sums_ = workspace.template as<T>();
    packed_b_ = sums_ + sums;
    packed_a_ = packed_b_ + packed_cols * max_depth_;
    for (row0_ = 0; row0_ < m_; row0_ += kRegionRows) {
      rows_ = min_of(kRegionRows, m_ - row0_);
      for (col0_ = 0; col0_ < n_; col0_ += kRegionCols) {
        cols_ = min_of(kRegionCols, n_ - col0_);
        run_region();
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kFewRows = 64;
  static constexpr int64_t kPackGrain = 1 << 15;  // elements worth a task

  static int64_t padded_cols(int64_t n) { return ceil_div(n, kCols<T>) * kCols<T>; }

  void run_region() {
    const int64_t a_panels = ceil_div(rows_, kRows), b_panels = ceil_div(cols_, kCols<T>);
    const int64_t tiles_down = ceil_div(rows_, kTileRows);
    const int64_t tiles_across = ceil_div(cols_, kTileCols);
    tile_rows_ = ceil_div(ceil_div(rows_, tiles_down), kRows) * kRows;
    tile_cols_ = ceil_div(ceil_div(cols_, tiles_across), kCols<T>) * kCols<T>;
    for (k0_ = 0; k0_ < k_; k0_ += depth_) {
      depth_ = min_of(max_depth_, k_ - k0_);
      const int64_t grain = max_of(1, kPackGrain / (depth_ * kCols<T>));
      parallel_for(a_panels + b_panels, grain, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) p < b_panels ? pack_b(p) : pack_a(p - b_panels);
      });
      parallel_for(tiles_down * tiles_across, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) run_tile(t / tiles_across, t % tiles_across);
      });
    }
  }

  void pack_a(int64_t panel) {
    const int64_t i = panel * kRows, rows = min_of(kRows, rows_ - i);
    const char* from = a_.data + (row0_ + i) * a_.row_stride + k0_ * a_.col_stride;
    pack_panel<T, kRows>(packed_a_ + i * depth_, a_.source, from, a_.row_stride, a_.col_stride,
                         rows, rows, depth_);
  }

  void pack_b(int64_t panel) {
    const int64_t j = panel * kCols<T>, cols = min_of(kCols<T>, cols_ - j);
    if (reads_b_in_place_ && cols == kCols<T>) return;
    T* const to = reads_b_in_place_ ? packed_b_ : packed_b_ + j * depth_;
    pack_panel<T, kCols<T>>(to, b_.source, b_at(j), b_.col_stride, b_.row_stride, cols,
                            static_cast<int64_t>(kCols<T>), depth_);
  }

  const char* b_at(int64_t j) const {
    return b_.data + k0_ * b_.row_stride + (col0_ + j) * b_.col_stride;
  }

  // One tile of C: a panel of B stays in the first-level cache while A's pass by.
  void run_tile(int64_t tile_row, int64_t tile_col) {
    const int64_t row = tile_row * tile_rows_, col = tile_col * tile_cols_;
    const int64_t row_end = min_of(rows_, row + tile_rows_);
    const int64_t col_end = min_of(cols_, col + tile_cols_);
    for (int64_t j = col; j < col_end; j += kCols<T>) {
      for (int64_t i = row; i < row_end; i += kRows) {
        run_panels(i, min_of(kRows, row_end - i), j, min_of(kCols<T>, col_end - j));
      }
    }
    if (out_.is_plain || k0_ + depth_ < k_) return;
    for (int64_t i = row; i < row_end; ++i) {
      char* to = out_.data + (row0_ + i) * out_.row_stride + (col0_ + col) * out_.col_stride;
      out_.store(to, out_.col_stride, sums_ + i * padded_cols(cols_) + col, col_end - col);
    }
  }

  void run_panels(int64_t i, int64_t rows, int64_t j, int64_t cols) {
    const bool in_place = reads_b_in_place_ && cols == kCols<T>;
    const T* const b = in_place            ? reinterpret_cast<const T*>(b_at(j))
                       : reads_b_in_place_ ? packed_b_
                                           : packed_b_ + j * depth_;
    const int64_t b_row = in_place ? b_.row_stride / kSize : kCols<T>;
    const Panels<T> panels = {packed_a_ + i * depth_, b};
    const PanelSum<T> sum = {&panels, 1, depth_, 1, rows, b_row};
    const int64_t step = out_.is_plain ? out_.row_stride / kSize : padded_cols(cols_);
    T* const c = out_.is_plain ? reinterpret_cast<T*>(out_.data) + (row0_ + i) * step + col0_ + j
                               : sums_ + i * step + j;
    block_kernel<T>(rows, cols)(sum, 0, 0, c, step, k0_ > 0);
  }

  Result<T> out_;
  Matrix<T> a_, b_;
  int64_t m_, n_, k_, max_depth_;
  bool reads_b_in_place_;
  T *sums_, *packed_a_, *packed_b_;
  int64_t row0_, rows_, col0_, cols_, k0_, depth_;  // the region and block at work
  int64_t tile_rows_, tile_cols_;
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
