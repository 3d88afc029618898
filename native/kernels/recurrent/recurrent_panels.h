// What recurrent cells read and write: rows of operands, and weights in panels.
#pragma once

#include "kernels/gemm/brgemm.h"
#include "kernels/transpose.h"
#include "kernels/workspace.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// Operands ----------------------------------------------------------------------------------------

// Rows of Ts; `step` elements from one to the next.
template <class T>
struct Block {
  T* data = nullptr;
  int64_t step = 0;

  T* row(int64_t i) const { return data + i * step; }
  Block from(int64_t i) const { return {row(i), step}; }
};

// Rows (time, batch) or (batch) of an operand; steps in bytes.
template <class T>
struct Lines {
  char* data = nullptr;
  int64_t time = 0, batch = 0, col = 0, count = 0, width = 0;
  Source<T> source = {};
  StoreFn<T> store_row = nullptr;

  int64_t matrix_bytes() const { return count * width * static_cast<int64_t>(sizeof(T)); }
  char* at(int64_t t, int64_t b) const { return data + t * time + b * batch; }
  bool is_plain() const { return source.is_plain && col == sizeof(T); }

  // The memory for rows from (t, b) on: their own, or `buffer`.
  Block<T> place(int64_t t, int64_t b, T* buffer) const {
    if (!is_plain()) return {buffer, width};
    return {reinterpret_cast<T*>(at(t, b)), batch / static_cast<int64_t>(sizeof(T))};
  }
  Block<T> load(int64_t t, int64_t b, int64_t rows, T* buffer) const {
    const Block<T> block = place(t, b, buffer);
    for (int64_t i = 0; !is_plain() && i < rows; ++i) read(block.row(i), t, b + i);
    return block;
  }
  // Done with `place`.
  void store(int64_t t, int64_t b, int64_t rows, const Block<T>& block) const {
    for (int64_t i = 0; !is_plain() && i < rows; ++i) write(t, b + i, block.row(i));
  }

  void read(T* to, int64_t t, int64_t b) const { source.load(to, at(t, b), col, width); }
  void write(int64_t t, int64_t b, const T* from) const { store_row(at(t, b), col, from, width); }
};

template <class T>
Lines<T> lines_of(const View* view) {
  Lines<T> lines;
  if (view == nullptr) return lines;
  const int last = view->ndim - 1;
  lines.data = view->data;
  lines.time = view->ndim == 3 ? byte_stride(*view, 0) : 0;
  lines.batch = byte_stride(*view, last - 1);
  lines.col = byte_stride(*view, last);
  lines.count = view->shape[last - 1];
  lines.width = view->shape[last];
  lines.source = source_of<T, T>(view->dtype);
  lines.store_row = store_of<T>(view->dtype);
  return lines;
}

// Weights -----------------------------------------------------------------------------------------

// Calls body(i) for n panels of weights, each of `size` elements.
template <class F>
void for_panels(int64_t n, int64_t size, const F& body) {
  constexpr int64_t kGrain = 1 << 13;  // elements worth a task
  parallel_for(n, max_of(1, kGrain / max_of(1, size)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// The weights in panels, (panels, H, gates, kUnits): all gates of some units, so that a block of
// the product has what the cell needs. Units past the last have weights of 0. Every step reads all
// panels: side by side they take turns in the first-level cache, a power of two apart they would
// share few of its sets.
template <class T, class Cell>
class GatePanels {
 public:
  static constexpr int kVecs = Cell::kGates == 1 ? block_vecs(kRows) : Cell::kGates;
  static constexpr int kUnitVecs = kVecs / Cell::kGates;
  static constexpr int64_t kUnits = kUnitVecs * kLanes<T>;
  static constexpr int64_t kWidth = kVecs * kLanes<T>;

  explicit GatePanels(const Lines<T>& w)
      : size_(w.count), workspace_(ceil_div(size_, kUnits) * size_ * kWidth * kSize) {
    for_panels(ceil_div(size_, kUnits), size_ * kWidth, [&](int64_t i) { pack(w, i * kUnits); });
  }

  // s (rows x kWidth) = h times the panel of the units from `unit` on. Blocks have all rows of a
  // task, if need be fewer gates: cut into 7 rows and 1, a step took a twentieth longer.
  void multiply(const Block<T>& h, T* s, int64_t rows, int64_t unit) const {
    for (int64_t k = 0; k < size_; k += kDepth) {
      const Panels<T> panels = {h.data + k, at(unit, k)};
      const PanelSum<T> sum = {&panels, 1, min_of(kDepth, size_ - k), h.step, 1, kWidth};
      multiply_panels<T>(sum, s, kWidth, rows, kWidth, k > 0, kRows);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kDepth = 32768 / (kWidth * kSize);  // 32 KB of a panel at a time

  T* at(int64_t unit, int64_t k) const {
    return workspace_.template as<T>() + (unit / kUnits * size_ + k) * kWidth;
  }

  void pack(const Lines<T>& w, int64_t unit) const {
    const int64_t units = min_of(kUnits, size_ - unit);
    for (int64_t k = 0; k < size_; ++k) {
      T* const to = at(unit, k);
      for (int64_t i = 0; units < kUnits && i < kWidth; ++i) to[i] = 0;
      for (int64_t gate = 0; gate < Cell::kGates; ++gate) {
        const char* const from = w.at(0, k) + (gate * size_ + unit) * w.col;
        if (w.is_plain() && units == kUnits) {
          __builtin_memcpy(to + gate * kUnits, from, kUnits * kSize);
        } else {
          w.source.load(to + gate * kUnits, from, w.col, units);
        }
      }
    }
  }

  const int64_t size_;
  const Workspace workspace_;
};

// The transposed weights, (G H, H), in panels of columns: (panels, G H, kWidth).
template <class T>
class TransposedPanels {
 public:
  static constexpr int64_t kWidth = block_cols<T>(kRows);

  explicit TransposedPanels(const Lines<T>& w)
      : rows_(w.width),
        cols_(w.count),
        workspace_(ceil_div(cols_, kWidth) * kWidth * rows_ * kSize) {
    for_panels(ceil_div(cols_, kWidth), rows_ * kWidth, [&](int64_t i) { pack(w, i * kWidth); });
  }

  // Columns [begin, end) of c (n x cols) += a (n x rows) times the weights; begin is a panel's.
  void multiply(const Block<T>& a, const Block<T>& c, int64_t n, int64_t begin, int64_t end) const {
    for (int64_t k = 0; k < rows_; k += kDepth) {
      for (int64_t j = begin; j < end; j += kWidth) {
        const Panels<T> panels = {a.data + k, at(k, j)};
        const PanelSum<T> sum = {&panels, 1, min_of(kDepth, rows_ - k), a.step, 1, kWidth};
        multiply_panels<T>(sum, c.data + j, c.step, n, min_of(kWidth, end - j), true, kRows);
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kDepth = 1024 / kSize;  // of a panel in the first-level cache

  T* at(int64_t row, int64_t col) const {
    return workspace_.template as<T>() + (col / kWidth * rows_ + row) * kWidth;
  }

  void pack(const Lines<T>& w, int64_t first) const {
    const int64_t count = min_of(kWidth, cols_ - first);
    if (w.is_plain()) {
      return transpose(at(0, first), kWidth, w.at(0, first), w.batch, count, rows_);
    }
    const Workspace workspace(rows_ * kSize, kept_by_task);
    T* const line = workspace.template as<T>();
    for (int64_t j = 0; j < count; ++j) {
      w.read(line, 0, first + j);
      for (int64_t i = 0; i < rows_; ++i) at(i, first)[j] = line[i];
    }
  }

  const int64_t rows_, cols_;
  const Workspace workspace_;
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
