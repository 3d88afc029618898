// Recurrent cells over whole sequences, forward and backward.
//
// What the inputs add to the gates comes in, one product for all steps; here a step is the product
// of the state with its weights and the cell's arithmetic. The rows of a batch never meet, so a
// task takes some of them through all steps: threads meet only at the end.
#include "brgemm.h"
#include "entries.h"
#include "transpose.h"
#include "vec_math.h"
#include "workspace.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// Cells -------------------------------------------------------------------------------------------
//
// forward computes a vector of one row, from place j on: x and s are the parts of the gates that
// come from the input and the state, `kGates` blocks of `size` each; h and c become the next state;
// `kept` is for backward.
//
// backward gets the adjoints of h and c, dh and dc; dc becomes that of c before the step, dh what
// of the adjoint of h before the step does not come through s; dx and ds are those of x and s.

template <class T>
struct Row {
  const T *x, *s;
  T *h, *c, *kept;
};

template <class T>
struct BackwardRow {
  const T *kept, *h, *h_before, *c_before;
  T *dh, *dc, *dx, *ds;
};

struct TanhCell {
  static constexpr int64_t kGates = 1, kKept = 0;
  static constexpr bool kHasCell = false, kSplits = false;

  template <class T, class Io>
  NEEDLE_INLINE static void forward(const Row<T>& row, int64_t, int64_t j, Io io) {
    io.store(row.h + j, tanh(io.load(row.x + j) + io.load(row.s + j)));
  }

  template <class T, class Io>
  NEEDLE_INLINE static void backward(const BackwardRow<T>& row, int64_t, int64_t j, Io io) {
    const Vec<T> h = io.load(row.h + j);
    io.store(row.dx + j, io.load(row.dh + j) * (1 - h * h));
    io.store(row.dh + j, Vec<T>{});
  }
};

struct ReluCell : TanhCell {
  template <class T, class Io>
  NEEDLE_INLINE static void forward(const Row<T>& row, int64_t, int64_t j, Io io) {
    const Vec<T> sum = io.load(row.x + j) + io.load(row.s + j);
    io.store(row.h + j, sum < 0 ? Vec<T>{} : sum);
  }

  template <class T, class Io>
  NEEDLE_INLINE static void backward(const BackwardRow<T>& row, int64_t, int64_t j, Io io) {
    io.store(row.dx + j, io.load(row.h + j) > 0 ? io.load(row.dh + j) : Vec<T>{});
    io.store(row.dh + j, Vec<T>{});
  }
};

struct LstmCell {
  static constexpr int64_t kGates = 4, kKept = 5;  // i, f, g, o; and c
  static constexpr bool kHasCell = true, kSplits = false;

  template <class T, class Io>
  NEEDLE_INLINE static void forward(const Row<T>& row, int64_t size, int64_t j, Io io) {
    const auto gate = [&](int64_t k) {
      return io.load(row.x + k * size + j) + io.load(row.s + k * size + j);
    };
    const Vec<T> i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = tanh(gate(2)),
                 o = sigmoid(gate(3));
    const Vec<T> c = f * io.load(row.c + j) + i * g;
    const Vec<T> kept[] = {i, f, g, o, c};
    for (int64_t k = 0; k < kKept; ++k) io.store(row.kept + k * size + j, kept[k]);
    io.store(row.c + j, c);
    io.store(row.h + j, o * tanh(c));
  }

  template <class T, class Io>
  NEEDLE_INLINE static void backward(const BackwardRow<T>& row, int64_t size, int64_t j, Io io) {
    const auto kept = [&](int64_t k) { return io.load(row.kept + k * size + j); };
    const Vec<T> i = kept(0), f = kept(1), g = kept(2), o = kept(3), y = tanh(kept(4));
    const Vec<T> dh = io.load(row.dh + j), dc = io.load(row.dc + j) + dh * o * (1 - y * y);
    const Vec<T> dx[] = {dc * g * i * (1 - i), dc * io.load(row.c_before + j) * f * (1 - f),
                         dc * i * (1 - g * g), dh * y * o * (1 - o)};
    for (int64_t k = 0; k < kGates; ++k) io.store(row.dx + k * size + j, dx[k]);
    io.store(row.dc + j, dc * f);
    io.store(row.dh + j, Vec<T>{});
  }
};

struct GruCell {
  static constexpr int64_t kGates = 3, kKept = 4;  // r, z, n; and the state's part of n
  static constexpr bool kHasCell = false, kSplits = true;

  template <class T, class Io>
  NEEDLE_INLINE static void forward(const Row<T>& row, int64_t size, int64_t j, Io io) {
    const auto x = [&](int64_t k) { return io.load(row.x + k * size + j); };
    const auto s = [&](int64_t k) { return io.load(row.s + k * size + j); };
    const Vec<T> r = sigmoid(x(0) + s(0)), z = sigmoid(x(1) + s(1)), m = s(2);
    const Vec<T> n = tanh(x(2) + r * m);
    const Vec<T> kept[] = {r, z, n, m};
    for (int64_t k = 0; k < kKept; ++k) io.store(row.kept + k * size + j, kept[k]);
    io.store(row.h + j, n + z * (io.load(row.h + j) - n));
  }

  template <class T, class Io>
  NEEDLE_INLINE static void backward(const BackwardRow<T>& row, int64_t size, int64_t j, Io io) {
    const auto kept = [&](int64_t k) { return io.load(row.kept + k * size + j); };
    const Vec<T> r = kept(0), z = kept(1), n = kept(2), m = kept(3), dh = io.load(row.dh + j);
    const Vec<T> dn = dh * (1 - z) * (1 - n * n);
    const Vec<T> dr = dn * m * r * (1 - r);
    const Vec<T> dz = dh * (io.load(row.h_before + j) - n) * z * (1 - z);
    const Vec<T> dx[] = {dr, dz, dn}, ds[] = {dr, dz, dn * r};
    for (int64_t k = 0; k < kGates; ++k) {
      io.store(row.dx + k * size + j, dx[k]);
      io.store(row.ds + k * size + j, ds[k]);
    }
    io.store(row.dh + j, dh * z);
  }
};

// Operands ----------------------------------------------------------------------------------------

// Rows (time, batch) or (batch) of an operand; steps in bytes.
template <class T>
struct Lines {
  char* data = nullptr;
  int64_t time = 0, batch = 0, col = 0, width = 0;
  Source<T> source = {};
  StoreFn<T> store = nullptr;

  char* at(int64_t t, int64_t b) const { return data + t * time + b * batch; }

  void read(T* to, int64_t t, int64_t b) const { source.load(to, at(t, b), col, width); }
  void write(int64_t t, int64_t b, const T* from) const { store(at(t, b), col, from, width); }
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
             [&](auto tag) { lines.store = store_tile<typename decltype(tag)::type, T>; });
  return lines;
}

// Weights in panels of columns, (panels, rows, kWidth). Every step reads all of them: side by side
// they take turns in the first-level cache, a power of two apart they would share few of its sets.
template <class T>
class PackedWeights {
 public:
  PackedWeights(int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), workspace_(ceil_div(cols, kWidth) * kWidth * rows * kSize) {}

  // The weights themselves, by stripes of rows.
  void pack(const Lines<T>& w) {
    for_stripes(rows_, kStripe, [&](int64_t first, int64_t count) {
      const Workspace workspace(cols_ * kSize, kept_by_task);
      for (int64_t i = first; i < first + count; ++i) {
        const T* const row = w.source.tile(w.at(0, i), w.col, cols_, workspace.template as<T>());
        for (int64_t j = 0; j < cols_; j += kWidth) {
          __builtin_memcpy(at(i, j), row + j, min_of(kWidth, cols_ - j) * kSize);
        }
      }
    });
  }

  // Their transpose, by panels.
  void pack_transposed(const Lines<T>& w) {
    const bool is_plain = w.source.is_plain && w.col == kSize;
    for_stripes(cols_, kWidth, [&](int64_t first, int64_t count) {
      if (is_plain) {
        return transpose(at(0, first), kWidth, w.at(0, first), w.batch, count, rows_);
      }
      const Workspace workspace(rows_ * kSize, kept_by_task);
      T* const line = workspace.template as<T>();
      for (int64_t j = 0; j < count; ++j) {
        w.read(line, 0, first + j);
        for (int64_t i = 0; i < rows_; ++i) at(i, first)[j] = line[i];
      }
    });
  }

  // c (n x cols) (+)= a (n x rows) times the weights; both dense
  void multiply(const T* a, T* c, int64_t n, bool accumulate) const {
    for (int64_t k = 0; k < rows_; k += kDepth) {
      for (int64_t j = 0; j < cols_; j += kWidth) {
        const Panels<T> panels = {a + k, at(k, j)};
        const PanelSum<T> sum = {&panels, 1, min_of(kDepth, rows_ - k), rows_, 1, kWidth};
        multiply_panels<T>(sum, c + j, cols_, n, min_of(kWidth, cols_ - j), accumulate || k > 0);
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kWidth = block_cols<T>(kRows);
  static constexpr int64_t kDepth = 1024 / kSize;  // of a panel in the first-level cache
  static constexpr int64_t kStripe = 16;

  T* at(int64_t row, int64_t col) const {
    return workspace_.template as<T>() + (col / kWidth * rows_ + row) * kWidth;
  }

  template <class F>
  static void for_stripes(int64_t n, int64_t size, const F& body) {
    parallel_for(ceil_div(n, size), max_of(1, kStripe / size), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i * size, min_of(size, n - i * size));
    });
  }

  const int64_t rows_, cols_;
  const Workspace workspace_;
};

// A task's rows of the batch. Few, so that their products stay in registers and there are tasks for
// all threads; more when the weights are too large for a core's cache, to read them less often.
inline int64_t rows_of_task(int64_t batch, int64_t weight_bytes) {
  constexpr int64_t kCache = 1 << 20;
  if (weight_bytes > kCache) return 32;
  return batch >= 16 ? 8 : ceil_div(batch, 2);
}

// Forward -----------------------------------------------------------------------------------------

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

  void run() {
    const int64_t width = Cell::kGates * size_;
    PackedWeights<T> weights(size_, width);
    weights.pack(w_);
    const int64_t rows = rows_of_task(batch_, size_ * width * kSize);
    parallel_for(batch_, rows,
                 [&](int64_t begin, int64_t end) { run_rows(weights, begin, end - begin); });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  void run_rows(const PackedWeights<T>& weights, int64_t first, int64_t rows) const {
    const int64_t width = Cell::kGates * size_, kept = Cell::kKept * size_;
    const Workspace workspace((rows * (2 * size_ + width) + 2 * width + kept) * kSize,
                              kept_by_task);
    T* const h = workspace.as<T>();
    T* const c = h + rows * size_;
    T* const s = c + rows * size_;
    T* const x = s + rows * width;
    T* const bias = x + width;
    T* const keep = bias + width;
    for (int64_t i = 0; i < rows; ++i) {
      h0_.read(h + i * size_, 0, first + i);
      if constexpr (Cell::kHasCell) c0_.read(c + i * size_, 0, first + i);
    }
    const bool has_bias = bias_.data != nullptr;
    if (has_bias) bias_.read(bias, 0, 0);
    for (int64_t t = 0; t < steps_; ++t) {
      check_interrupt();
      for (int64_t i = 0; has_bias && i < rows; ++i) {
        __builtin_memcpy(s + i * width, bias, width * kSize);
      }
      weights.multiply(h, s, rows, has_bias);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t b = first + i;
        const T* const x_row = x_.source.tile(x_.at(t, b), x_.col, width, x);
        T* const state = h + i * size_;
        const Row<T> row = {x_row, s + i * width, state, c + i * size_, keep};
        for_each_vec<T>(size_, [&](int64_t j, auto io) { Cell::forward(row, size_, j, io); });
        h_.write(t, b, state);
        if constexpr (Cell::kKept > 0) kept_.write(t, b, keep);
      }
    }
    for (int64_t i = 0; Cell::kHasCell && i < rows; ++i) c_last_.write(0, first + i, c + i * size_);
  }

  const int64_t steps_, batch_, size_;
  const Lines<T> h_, kept_, x_, h0_, w_;
  Lines<T> c0_, c_last_, bias_;
};

// Backward ----------------------------------------------------------------------------------------

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
    }
  }

  void run() {
    const int64_t width = Cell::kGates * size_;
    PackedWeights<T> weights(width, size_);
    weights.pack_transposed(w_);
    const int64_t rows = rows_of_task(batch_, size_ * width * kSize);
    parallel_for(batch_, rows,
                 [&](int64_t begin, int64_t end) { run_rows(weights, begin, end - begin); });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // A task's memory: adjoints of the state for all of its rows, lines for one row.
  struct Buffers {
    T *dh, *dc, *ds;
    T *g, *h, *h_before, *c_before, *kept, *dx;
  };

  void run_rows(const PackedWeights<T>& weights, int64_t first, int64_t rows) const {
    const int64_t width = Cell::kGates * size_, kept = max_of(1, Cell::kKept) * size_;
    const Workspace workspace((rows * (2 * size_ + width) + 4 * size_ + kept + width) * kSize,
                              kept_by_task);
    T* at = workspace.as<T>();
    const auto take = [&](int64_t count) { return at += count, at - count; };
    const Buffers buffers = {take(rows * size_), take(rows * size_), take(rows * width),
                             take(size_),        take(size_),        take(size_),
                             take(size_),        take(kept),         take(width)};
    __builtin_memset(buffers.dh, 0, rows * size_ * kSize);
    for (int64_t i = 0; Cell::kHasCell && i < rows; ++i) {
      g_c_.read(buffers.dc + i * size_, 0, first + i);
    }
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      check_interrupt();
      for (int64_t i = 0; i < rows; ++i) run_row(t, first + i, i, buffers);
      weights.multiply(buffers.ds, buffers.dh, rows, true);
    }
    for (int64_t i = 0; i < rows; ++i) {
      dh0_.write(0, first + i, buffers.dh + i * size_);
      if constexpr (Cell::kHasCell) dc0_.write(0, first + i, buffers.dc + i * size_);
    }
  }

  void run_row(int64_t t, int64_t b, int64_t i, const Buffers& buffers) const {
    const int64_t width = Cell::kGates * size_;
    const auto row_of = [](const Lines<T>& lines, int64_t time, int64_t batch, T* buffer) {
      return lines.source.tile(lines.at(time, batch), lines.col, lines.width, buffer);
    };
    T* const dh = buffers.dh + i * size_;
    const T* const g = row_of(g_h_, t, b, buffers.g);
    for (int64_t j = 0; j < size_; ++j) dh[j] += g[j];

    T* const ds = buffers.ds + i * width;
    BackwardRow<T> row = {};
    row.kept = row_of(kept_, t, b, buffers.kept);
    row.h = row_of(h_, t, b, buffers.h);
    row.h_before =
        t > 0 ? row_of(h_, t - 1, b, buffers.h_before) : row_of(h0_, 0, b, buffers.h_before);
    if constexpr (Cell::kHasCell) {
      const int64_t cell = Cell::kGates * size_;  // what was kept of the step before
      Lines<T> c = kept_;
      c.data += cell * c.col;
      c.width = size_;
      row.c_before =
          t > 0 ? row_of(c, t - 1, b, buffers.c_before) : row_of(c0_, 0, b, buffers.c_before);
    }
    row.dh = dh;
    row.dc = buffers.dc + i * size_;
    row.ds = ds;
    row.dx = Cell::kSplits ? buffers.dx : ds;
    for_each_vec<T>(size_, [&](int64_t j, auto io) { Cell::backward(row, size_, j, io); });
    dx_.write(t, b, row.dx);
    if constexpr (Cell::kSplits) ds_.write(t, b, ds);
  }

  const int64_t steps_, batch_, size_;
  const Lines<T> dx_, dh0_, h_, kept_, h0_, w_, g_h_;
  Lines<T> ds_, c0_, dc0_, g_c_;
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
