// Recurrent cells over whole sequences, forward and backward.
//
// What the inputs add to the gates comes in, one product for all steps; here a step is the product
// of the state with its weights, and the cell's arithmetic on each block of it while that is in
// cache. The rows of a batch never meet, so a task takes some of them through all steps: threads
// meet only at the end.
#include "brgemm.h"
#include "entries.h"
#include "recurrent_cells.h"
#include "transpose.h"
#include "workspace.h"

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
};

// Rows (time, batch) or (batch) of an operand; steps in bytes.
template <class T>
struct Lines {
  char* data = nullptr;
  int64_t time = 0, batch = 0, col = 0, width = 0;
  Source<T> source = {};
  StoreFn<T> store_row = nullptr;

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
Lines<T> lines_of(const View& view) {
  Lines<T> lines;
  const int last = view.ndim - 1;
  lines.data = view.data;
  lines.time = view.ndim == 3 ? byte_stride(view, 0) : 0;
  lines.batch = byte_stride(view, last - 1);
  lines.col = byte_stride(view, last);
  lines.width = view.shape[last];
  lines.source = source_of<T, T>(view.dtype);
  with_dtype(view.dtype,
             [&](auto tag) { lines.store_row = store_tile<typename decltype(tag)::type, T>; });
  return lines;
}

// A task's rows of the batch. Few, so that their products stay in registers and there are tasks for
// all threads; more when the weights are too large for a core's cache, to read them less often.
inline int64_t rows_of_task(int64_t batch, int64_t weight_bytes) {
  constexpr int64_t kCache = 1 << 20;
  if (weight_bytes > kCache) return 32;
  return batch >= 16 ? 8 : ceil_div(batch, 2);
}

// Calls body(i) for n panels of weights, each of `size` elements.
template <class F>
void for_panels(int64_t n, int64_t size, const F& body) {
  constexpr int64_t kGrain = 1 << 13;  // elements worth a task
  parallel_for(n, max_of(1, kGrain / max_of(1, size)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// Forward -----------------------------------------------------------------------------------------

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

  explicit GatePanels(const Lines<T>& w, int64_t size)
      : size_(size), workspace_(ceil_div(size, kUnits) * size * kWidth * kSize) {
    for_panels(ceil_div(size, kUnits), size * kWidth, [&](int64_t i) { pack(w, i * kUnits); });
  }

  // s (rows x kWidth) = h times the panel of the units from `unit` on. Blocks have all rows of a
  // task, if need be fewer gates: cut into 7 rows and 1, a step took a twentieth longer.
  void multiply(const Block<T>& h, T* s, int64_t rows, int64_t unit) const {
    for (int64_t k = 0; k < size_; k += kDepth) {
      const Panels<T> panels = {h.data + k, at(unit, k)};
      const PanelSum<T> sum = {&panels, 1, min_of(kDepth, size_ - k), h.step, 1, kWidth};
      multiply_panels<T>(sum, s, kWidth, rows, kWidth, k > 0);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kDepth = 32768 / (kWidth * kSize);  // a block reads half

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

template <class T, class Cell>
class ForwardSteps {
 public:
  ForwardSteps(const RecurrenceOutputs& out, const RecurrenceInputs& in)
      : steps_(in.x->shape[0]),
        batch_(in.x->shape[1]),
        size_(in.w->shape[0]),
        h_(lines_of<T>(*out.h)),
        kept_(lines_of<T>(*out.kept)),
        x_(lines_of<T>(*in.x)),
        h0_(lines_of<T>(*in.h0)),
        w_(lines_of<T>(*in.w)) {
    if constexpr (Cell::kHasCell) c0_ = lines_of<T>(*in.c0), c_last_ = lines_of<T>(*out.c_last);
    if (in.bias != nullptr) bias_ = lines_of<T>(*in.bias);
  }

  void run() const {
    const Weights weights(w_, size_);
    const int64_t rows = rows_of_task(batch_, size_ * Cell::kGates * size_ * kSize);
    parallel_for(batch_, rows,
                 [&](int64_t begin, int64_t end) { run_rows(weights, begin, end - begin); });
  }

 private:
  using Weights = GatePanels<T, Cell>;
  static constexpr int64_t kTogether = 8 * Weights::kUnits;  // units, whose gates stay in cache
  static constexpr int64_t kSize = sizeof(T);

  // What a step of a task's rows reads and writes.
  struct Step {
    Block<T> x, h_before, h, kept;
    T *c, *bias;
  };

  void run_rows(const Weights& weights, int64_t first, int64_t rows) const {
    const int64_t width = Cell::kGates * size_, kept = Cell::kKept * size_;
    const int64_t room = rows * (3 * size_ + width + kept + Cell::kGates * kTogether) + width;
    const Workspace workspace(room * kSize, kept_by_task);
    T* at = workspace.as<T>();
    const auto take = [&](int64_t count) { return at += count, at - count; };
    T* const states[] = {take(rows * size_), take(rows * size_)};  // this step's and the next's
    T* const x = take(rows * width);
    T* const keep = take(rows * kept);
    T* const s = take(rows * Cell::kGates * kTogether);
    Step step = {};
    step.c = take(rows * size_);
    step.bias = take(width);
    for (int64_t j = 0; j < width; ++j) step.bias[j] = 0;
    if (bias_.data != nullptr) bias_.read(step.bias, 0, 0);
    for (int64_t i = 0; Cell::kHasCell && i < rows; ++i) c0_.read(step.c + i * size_, 0, first + i);
    step.h = h0_.load(0, first, rows, states[1]);
    for (int64_t t = 0; t < steps_; ++t) {
      check_interrupt();
      step.h_before = step.h;
      step.h = h_.place(t, first, states[t % 2]);
      step.x = x_.load(t, first, rows, x);
      step.kept = kept_.place(t, first, keep);
      for (int64_t unit = 0; unit < size_; unit += kTogether) {
        const int64_t last = min_of(size_, unit + kTogether);
        for (int64_t j = unit; j < last; j += Weights::kUnits) {
          weights.multiply(step.h_before, s + (j - unit) * Cell::kGates * rows, rows, j);
        }
        run_cells(step, s, rows, unit, last);
      }
      h_.store(t, first, rows, step.h);
      kept_.store(t, first, rows, step.kept);
    }
    for (int64_t i = 0; Cell::kHasCell && i < rows; ++i) {
      c_last_.write(0, first + i, step.c + i * size_);
    }
  }

  // The cell for units [first, last); s has what the state adds to their gates, but for the bias.
  void run_cells(const Step& step, T* s, int64_t rows, int64_t first, int64_t last) const {
    constexpr int kGates = Cell::kGates;
    const auto for_vecs = [&](const auto& body) {
      for (int64_t i = 0; i < rows; ++i) {
        for_each_vec<T>(last - first, [&](int64_t v, auto io) {
          const int64_t panel = v / Weights::kUnits, unit = v % Weights::kUnits;
          body(i, first + v, s + (panel * rows + i) * Weights::kWidth + unit, io);
        });
      }
    };
    for_vecs([&](int64_t i, int64_t j, T* at, auto io) {
      Vec<T> x[kGates], sums[kGates];
#pragma GCC unroll 4
      for (int k = 0; k < kGates; ++k) {
        x[k] = io.load(step.x.row(i) + k * size_ + j);
        sums[k] = load(at + k * Weights::kUnits) + io.load(step.bias + k * size_ + j);
      }
      Cell::gates(x, sums);
#pragma GCC unroll 4
      for (int k = 0; k < kGates; ++k) store(at + k * Weights::kUnits, sums[k]);
    });
    for_vecs([&](int64_t i, int64_t j, const T* at, auto io) {
      Vec<T> x[kGates], sums[kGates], kept[Cell::kKept + 1], c = {};
#pragma GCC unroll 4
      for (int k = 0; k < kGates; ++k) {
        x[k] = io.load(step.x.row(i) + k * size_ + j);
        sums[k] = load(at + k * Weights::kUnits);
      }
      if constexpr (Cell::kHasCell) c = io.load(step.c + i * size_ + j);
      const Vec<T> h = Cell::state(x, sums, io.load(step.h_before.row(i) + j), c, kept);
      io.store(step.h.row(i) + j, h);
      if constexpr (Cell::kHasCell) io.store(step.c + i * size_ + j, c);
#pragma GCC unroll 5
      for (int k = 0; k < Cell::kKept; ++k) io.store(step.kept.row(i) + k * size_ + j, kept[k]);
    });
  }

  const int64_t steps_, batch_, size_;
  const Lines<T> h_, kept_, x_, h0_, w_;
  Lines<T> c0_, c_last_, bias_;
};

// Backward ----------------------------------------------------------------------------------------

// The transposed weights, (G H, H), in panels of columns: (panels, G H, kWidth).
template <class T>
class TransposedPanels {
 public:
  TransposedPanels(const Lines<T>& w, int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), workspace_(ceil_div(cols, kWidth) * kWidth * rows * kSize) {
    for_panels(ceil_div(cols, kWidth), rows * kWidth, [&](int64_t i) { pack(w, i * kWidth); });
  }

  // c (n x cols, dense) += a (n x rows) times the weights
  void multiply(const Block<T>& a, T* c, int64_t n) const {
    for (int64_t k = 0; k < rows_; k += kDepth) {
      for (int64_t j = 0; j < cols_; j += kWidth) {
        const Panels<T> panels = {a.data + k, at(k, j)};
        const PanelSum<T> sum = {&panels, 1, min_of(kDepth, rows_ - k), a.step, 1, kWidth};
        multiply_panels<T>(sum, c + j, cols_, n, min_of(kWidth, cols_ - j), true);
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kWidth = block_cols<T>(kRows);
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

template <class T, class Cell>
class BackwardSteps {
 public:
  BackwardSteps(const RecurrenceAdjoints& adjoints, const RecurrenceOutputs& results,
                const RecurrenceInputs& in)
      : steps_(results.h->shape[0]),
        batch_(results.h->shape[1]),
        size_(results.h->shape[2]),
        dx_(lines_of<T>(*adjoints.dx)),
        dh0_(lines_of<T>(*adjoints.dh0)),
        h_(lines_of<T>(*results.h)),
        kept_(lines_of<T>(*results.kept)),
        h0_(lines_of<T>(*in.h0)),
        w_(lines_of<T>(*in.w)),
        g_h_(lines_of<T>(*adjoints.g_h)) {
    if constexpr (Cell::kSplits) ds_ = lines_of<T>(*adjoints.ds);
    if constexpr (Cell::kHasCell) {
      c0_ = lines_of<T>(*in.c0), dc0_ = lines_of<T>(*adjoints.dc0),
      g_c_ = lines_of<T>(*adjoints.g_c);
      c_ = kept_;
      c_.data += Cell::kGates * size_ * c_.col;
      c_.width = size_;
    }
  }

  void run() const {
    const int64_t width = Cell::kGates * size_;
    const TransposedPanels<T> weights(w_, width, size_);
    const int64_t rows = rows_of_task(batch_, size_ * width * kSize);
    parallel_for(batch_, rows,
                 [&](int64_t begin, int64_t end) { run_rows(weights, begin, end - begin); });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // What a step of a task's rows reads and writes.
  struct Step {
    Block<T> g, h, h_before, c_before, kept, dx, ds, dh, dc;
  };

  void run_rows(const TransposedPanels<T>& weights, int64_t first, int64_t rows) const {
    const int64_t width = Cell::kGates * size_, kept = Cell::kKept * size_;
    const Workspace workspace(rows * (6 * size_ + kept + 2 * width) * kSize, kept_by_task);
    T* at = workspace.as<T>();
    const auto take = [&](int64_t cols) { return at += rows * cols, at - rows * cols; };
    const Step buffers = {{take(size_)}, {take(size_)}, {take(size_)}, {take(size_)}, {take(kept)},
                          {take(width)}, {take(width)}, {take(size_)}, {take(size_)}};
    Step step = buffers;
    step.dh.step = step.dc.step = size_;
    __builtin_memset(step.dh.data, 0, rows * size_ * kSize);
    for (int64_t i = 0; Cell::kHasCell && i < rows; ++i) g_c_.read(step.dc.row(i), 0, first + i);
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      check_interrupt();
      step.g = g_h_.load(t, first, rows, buffers.g.data);
      step.h = h_.load(t, first, rows, buffers.h.data);
      step.h_before = t > 0 ? h_.load(t - 1, first, rows, buffers.h_before.data)
                            : h0_.load(0, first, rows, buffers.h_before.data);
      step.kept = kept_.load(t, first, rows, buffers.kept.data);
      if constexpr (Cell::kHasCell) {
        step.c_before = t > 0 ? c_.load(t - 1, first, rows, buffers.c_before.data)
                              : c0_.load(0, first, rows, buffers.c_before.data);
      }
      step.dx = dx_.place(t, first, buffers.dx.data);
      step.ds = Cell::kSplits ? ds_.place(t, first, buffers.ds.data) : step.dx;
      for (int64_t i = 0; i < rows; ++i) run_cell(step, i);
      dx_.store(t, first, rows, step.dx);
      if constexpr (Cell::kSplits) ds_.store(t, first, rows, step.ds);
      weights.multiply(step.ds, step.dh.data, rows);
    }
    for (int64_t i = 0; i < rows; ++i) {
      dh0_.write(0, first + i, step.dh.row(i));
      if constexpr (Cell::kHasCell) dc0_.write(0, first + i, step.dc.row(i));
    }
  }

  void run_cell(const Step& step, int64_t i) const {
    for_each_vec<T>(size_, [&](int64_t j, auto io) {
      const auto at = [&](const Block<T>& block, int k = 0)
                          __attribute__((always_inline)) { return block.row(i) + k * size_ + j; };
      Before<T, Cell::kKept + 1> seen = {};
#pragma GCC unroll 5
      for (int k = 0; k < Cell::kKept; ++k) seen.kept[k] = io.load(at(step.kept, k));
      seen.h = io.load(at(step.h));
      seen.h_before = io.load(at(step.h_before));
      if constexpr (Cell::kHasCell) seen.c_before = io.load(at(step.c_before));
      Vec<T> dx[Cell::kGates], ds[Cell::kGates], dc = {};
      Vec<T> dh = io.load(at(step.dh)) + io.load(at(step.g));
      if constexpr (Cell::kHasCell) dc = io.load(at(step.dc));
      Cell::backward(seen, dh, dc, dx, ds);
      io.store(at(step.dh), dh);
      if constexpr (Cell::kHasCell) io.store(at(step.dc), dc);
#pragma GCC unroll 4
      for (int k = 0; k < Cell::kGates; ++k) {
        io.store(at(step.dx, k), dx[k]);
        if constexpr (Cell::kSplits) io.store(at(step.ds, k), ds[k]);
      }
    });
  }

  const int64_t steps_, batch_, size_;
  const Lines<T> dx_, dh0_, h_, kept_, h0_, w_, g_h_;
  Lines<T> ds_, c_, c0_, dc0_, g_c_;
};

// Calls body(Cell, T) for a cell and a compute type known at run time.
template <class F>
void with_cell(RecurrentCell cell, DType dtype, F&& body) {
  const auto with_type = [&](auto type) {
    switch (cell) {
      case RecurrentCell::tanh: return body(TanhCell{}, type);
      case RecurrentCell::relu: return body(ReluCell{}, type);
      case RecurrentCell::lstm: return body(LstmCell{}, type);
      case RecurrentCell::gru: return body(GruCell{}, type);
    }
  };
  if (dtype == DType::f64) return with_type(double{});
  with_type(float{});
}

}  // namespace

void recurrence(RecurrentCell cell, const RecurrenceOutputs& out, const RecurrenceInputs& in) {
  with_cell(cell, in.x->dtype, [&](auto kind, auto type) {
    ForwardSteps<decltype(type), decltype(kind)>(out, in).run();
  });
}

void recurrence_backward(RecurrentCell cell, const RecurrenceAdjoints& adjoints,
                         const RecurrenceOutputs& results, const RecurrenceInputs& in) {
  with_cell(cell, results.h->dtype, [&](auto kind, auto type) {
    BackwardSteps<decltype(type), decltype(kind)>(adjoints, results, in).run();
  });
}

}  // namespace NEEDLE_ISA
}  // namespace needle
