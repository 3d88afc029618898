// Recurrent cells over whole sequences, forward and backward.
//
// What the inputs add to the gates comes in, one product for all steps; here a step is the product
// of the state with its weights, and the cell's arithmetic on each block of it while that is in
// cache. The rows of a batch never meet, so a task takes some of them through all steps: threads
// meet only at the end. Weights that are too large for a core's cache are shared out instead: a
// task takes some units of all rows through one step, and finds their weights again with the next.
#include "kernels/entries.h"
#include "recurrent_cells.h"
#include "recurrent_panels.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int64_t kRowsTogether = 32;  // whose blocks of a product stay in cache

// Do tasks take rows through all steps, or units through one? 20 steps of an LSTM on two Zen 4
// cores, in ms, by rows and by units: 16 rows of 128 units 0.27 and 0.32, one row 0.074 and 0.055;
// 16 rows of 512 units 3.9 and 3.8, one row 1.2 and 0.75; 10 steps of 64 rows of 1536 148 and 77.
template <class T>
bool goes_by_rows(int64_t batch, const Lines<T>& w) {
  // Bytes of weights that every core reads in a step: with few rows there is little to do for each.
  constexpr int64_t kMostForFewRows = 3 << 16, kMost = 1 << 22;
  return w.matrix_bytes() <= (batch < 8 ? kMostForFewRows : kMost);
}

// A task's rows: few, so that their products stay in registers; more where weights do not fit its
// cache, to read them less often. Tasks come in pairs.
template <class T>
int64_t rows_of_task(int64_t batch, const Lines<T>& w) {
  const int64_t most = w.matrix_bytes() <= 1 << 20 ? 8 : kRowsTogether;
  const int64_t pairs = max_of(1, ceil_div(batch, 2 * most));
  return max_of(1, ceil_div(batch, 2 * pairs));
}

// A task's units: an eighth, in whole panels.
inline int64_t units_of_task(int64_t size, int64_t panel) {
  return max_of(1, size / 8 / panel) * panel;
}

// Forward -----------------------------------------------------------------------------------------

template <class T, class Cell>
class Forward {
 public:
  Forward(const RecurrenceOutputs& out, const RecurrenceInputs& in)
      : steps_(out.h->shape[0]),
        batch_(out.h->shape[1]),
        size_(out.h->shape[2]),
        h_(lines_of<T>(out.h)),
        kept_(lines_of<T>(out.kept)),
        c_last_(lines_of<T>(out.c_last)),
        x_(lines_of<T>(in.x)),
        h0_(lines_of<T>(in.h0)),
        c0_(lines_of<T>(in.c0)),
        w_(lines_of<T>(in.w)),
        bias_(lines_of<T>(in.bias)) {}

  void run() const {
    const Weights weights(w_);
    if (goes_by_rows(batch_, w_)) {
      parallel_for(batch_, rows_of_task(batch_, w_), [&](int64_t begin, int64_t end) {
        Rows(*this, begin, end - begin).run_all(weights);
      });
    } else {
      Rows(*this, 0, batch_).run_all_by_units(weights);
    }
  }

 private:
  using Weights = GatePanels<T, Cell>;
  static constexpr int64_t kSize = sizeof(T);

  // Some rows of the batch, on their way through the steps.
  class Rows {
   public:
    Rows(const Forward& of, int64_t first, int64_t count)
        : of_(of),
          first_(first),
          count_(count),
          panels_(ceil_div(of.size_, Weights::kUnits)),
          memory_((count * row_room() + width()) * kSize, kept_by_task) {
      T* at = memory_.as<T>();
      const auto take = [&](int64_t cols) { return at += count * cols, at - count * cols; };
      for (T*& state : states_) state = take(of.size_);
      c_ = take(of.size_);
      x_ = take(width());
      kept_ = take(of.kept_.width);
      s_ = take(panels_ * Weights::kWidth);
      bias_ = at;
      for (int64_t j = 0; j < width(); ++j) bias_[j] = 0;
      if (of.bias_.data != nullptr) of.bias_.read(bias_, 0, 0);
      for (int64_t i = 0; Cell::kHasCell && i < count; ++i) {
        of.c0_.read(c_ + i * of.size_, 0, first + i);
      }
      step_.h = of.h0_.load(0, first, count, states_[1]);
    }

    void run_all(const Weights& weights) {
      for (int64_t t = 0; t < of_.steps_; ++t) {
        check_interrupt();
        enter(t);
        run(weights, 0, of_.size_);
        leave(t);
      }
      finish();
    }

    void run_all_by_units(const Weights& weights) {
      for (int64_t t = 0; t < of_.steps_; ++t) {
        enter(t);
        parallel_for(of_.size_, units_of_task(of_.size_, Weights::kUnits),
                     [&](int64_t begin, int64_t end) { run(weights, begin, end); });
        leave(t);
      }
      finish();
    }

   private:
    // What a step reads and writes.
    struct Step {
      Block<T> x, h_before, h, kept;
    };

    int64_t width() const { return Cell::kGates * of_.size_; }
    int64_t row_room() const {
      return 3 * of_.size_ + width() + of_.kept_.width + panels_ * Weights::kWidth;
    }

    void enter(int64_t t) {
      step_.h_before = step_.h;
      step_.h = of_.h_.place(t, first_, states_[t % 2]);
      step_.x = of_.x_.load(t, first_, count_, x_);
      step_.kept = of_.kept_.place(t, first_, kept_);
    }
    void leave(int64_t t) const {
      of_.h_.store(t, first_, count_, step_.h);
      of_.kept_.store(t, first_, count_, step_.kept);
    }
    void finish() const {
      for (int64_t i = 0; Cell::kHasCell && i < count_; ++i) {
        of_.c_last_.write(0, first_ + i, c_ + i * of_.size_);
      }
    }

    // The step for units [begin, end), in blocks whose gates stay in cache.
    void run(const Weights& weights, int64_t begin, int64_t end) const {
      constexpr int64_t kUnitsTogether = 8 * Weights::kUnits;
      for (int64_t i = 0; i < count_; i += kRowsTogether) {
        const int64_t rows = min_of(kRowsTogether, count_ - i);
        for (int64_t unit = begin; unit < end; unit += kUnitsTogether) {
          const int64_t last = min_of(end, unit + kUnitsTogether);
          for (int64_t j = unit; j < last; j += Weights::kUnits) {
            weights.multiply(step_.h_before.from(i), gates(i, j), rows, j);
          }
          run_cells(i, i + rows, unit, last);
        }
      }
    }

    // What the state adds to a unit's gates, a panel's width of which lie side by side.
    T* gates(int64_t row, int64_t unit) const {
      constexpr int64_t kUnits = Weights::kUnits;
      return s_ + (unit / kUnits * count_ + row) * Weights::kWidth + unit % kUnits;
    }

    // The cell for rows [first, last) and units [begin, end), given their gates but for the bias.
    void run_cells(int64_t first, int64_t last, int64_t begin, int64_t end) const {
      constexpr int kGates = Cell::kGates;
      const auto for_vecs = [&](const auto& body) {
        for (int64_t i = first; i < last; ++i) {
          for_each_vec<T>(end - begin, [&](int64_t v, auto io) { body(i, begin + v, io); });
        }
      };
      for_vecs([&](int64_t i, int64_t j, auto io) {
        Vec<T> x[kGates], s[kGates];
        T* const at = gates(i, j);
#pragma GCC unroll 4
        for (int k = 0; k < kGates; ++k) {
          x[k] = io.load(step_.x.row(i) + k * of_.size_ + j);
          s[k] = load(at + k * Weights::kUnits) + io.load(bias_ + k * of_.size_ + j);
        }
        Cell::gates(x, s);
#pragma GCC unroll 4
        for (int k = 0; k < kGates; ++k) store(at + k * Weights::kUnits, s[k]);
      });
      for_vecs([&](int64_t i, int64_t j, auto io) {
        Vec<T> x[kGates], s[kGates], kept[Cell::kKept + 1], c = {};
#pragma GCC unroll 4
        for (int k = 0; k < kGates; ++k) {
          x[k] = io.load(step_.x.row(i) + k * of_.size_ + j);
          s[k] = load(gates(i, j) + k * Weights::kUnits);
        }
        if constexpr (Cell::kHasCell) c = io.load(c_ + i * of_.size_ + j);
        const Vec<T> h = Cell::state(x, s, io.load(step_.h_before.row(i) + j), c, kept);
        io.store(step_.h.row(i) + j, h);
        if constexpr (Cell::kHasCell) io.store(c_ + i * of_.size_ + j, c);
#pragma GCC unroll 5
        for (int k = 0; k < Cell::kKept; ++k) {
          io.store(step_.kept.row(i) + k * of_.size_ + j, kept[k]);
        }
      });
    }

    const Forward& of_;
    const int64_t first_, count_, panels_;
    const Workspace memory_;
    T *states_[2], *c_, *x_, *kept_, *s_, *bias_;  // states: this step's and the next's
    Step step_ = {};
  };

  const int64_t steps_, batch_, size_;
  const Lines<T> h_, kept_, c_last_, x_, h0_, c0_, w_, bias_;
};

// Backward ----------------------------------------------------------------------------------------

template <class T, class Cell>
class Backward {
 public:
  Backward(const RecurrenceAdjoints& adjoints, const RecurrenceOutputs& results,
           const RecurrenceInputs& in)
      : steps_(results.h->shape[0]),
        batch_(results.h->shape[1]),
        size_(results.h->shape[2]),
        h_(lines_of<T>(results.h)),
        kept_(lines_of<T>(results.kept)),
        c_(lines_of<T>(Cell::kHasCell ? results.kept : nullptr)),
        h0_(lines_of<T>(in.h0)),
        c0_(lines_of<T>(in.c0)),
        w_(lines_of<T>(in.w)),
        g_h_(lines_of<T>(adjoints.g_h)),
        g_c_(lines_of<T>(adjoints.g_c)),
        dx_(lines_of<T>(adjoints.dx)),
        ds_(lines_of<T>(adjoints.ds)),
        dh0_(lines_of<T>(adjoints.dh0)),
        dc0_(lines_of<T>(adjoints.dc0)) {
    c_.data += Cell::kGates * size_ * c_.col;
    c_.width = size_;
  }

  void run() const {
    const Weights weights(w_);
    if (goes_by_rows(batch_, w_)) {
      parallel_for(batch_, rows_of_task(batch_, w_), [&](int64_t begin, int64_t end) {
        Rows(*this, begin, end - begin).run_all(weights);
      });
    } else {
      Rows(*this, 0, batch_).run_all_by_units(weights);
    }
  }

 private:
  using Weights = TransposedPanels<T>;
  static constexpr int64_t kSize = sizeof(T);

  // Some rows of the batch, on their way back through the steps.
  class Rows {
   public:
    Rows(const Backward& of, int64_t first, int64_t count)
        : of_(of), first_(first), count_(count), memory_(count * room() * kSize, kept_by_task) {
      T* at = memory_.as<T>();
      const auto take = [&](int64_t cols) { return at += count * cols, at - count * cols; };
      const int64_t size = of.size_;
      buffers_ = {{take(size)},
                  {take(size)},
                  {take(size)},
                  {take(size)},
                  {take(of.kept_.width)},
                  {take(of.dx_.width)},
                  {}};
      for (T*& sums : sums_) sums = take(of.dx_.width);
      dh_ = {take(size), size};
      dc_ = {take(size), size};
      __builtin_memset(dh_.data, 0, count * size * kSize);
      for (int64_t i = 0; Cell::kHasCell && i < count; ++i) of.g_c_.read(dc_.row(i), 0, first + i);
    }

    void run_all(const Weights& weights) {
      for (int64_t t = of_.steps_ - 1; t >= 0; --t) {
        check_interrupt();
        enter(t);
        run(weights, 0, of_.size_);
        leave(t);
      }
      add_product(weights, step_.ds, 0, of_.size_);
      finish();
    }

    void run_all_by_units(const Weights& weights) {
      const auto for_units = [&](const auto& body) {
        parallel_for(of_.size_, units_of_task(of_.size_, Weights::kWidth), body);
      };
      for (int64_t t = of_.steps_ - 1; t >= 0; --t) {
        enter(t);
        for_units([&](int64_t begin, int64_t end) { run(weights, begin, end); });
        leave(t);
      }
      for_units([&](int64_t begin, int64_t end) { add_product(weights, step_.ds, begin, end); });
      finish();
    }

   private:
    // What a step reads and writes.
    struct Step {
      Block<T> g, h, h_before, c_before, kept, dx, ds;
    };

    int64_t room() const { return 6 * of_.size_ + of_.kept_.width + 3 * of_.dx_.width; }

    void enter(int64_t t) {
      after_ = step_.ds;
      step_.g = of_.g_h_.load(t, first_, count_, buffers_.g.data);
      step_.h = of_.h_.load(t, first_, count_, buffers_.h.data);
      step_.h_before = before(of_.h_, of_.h0_, t, buffers_.h_before.data);
      if constexpr (Cell::kHasCell) {
        step_.c_before = before(of_.c_, of_.c0_, t, buffers_.c_before.data);
      }
      step_.kept = of_.kept_.load(t, first_, count_, buffers_.kept.data);
      step_.dx = of_.dx_.place(t, first_, Cell::kSplits ? buffers_.dx.data : sums_[t % 2]);
      step_.ds = Cell::kSplits ? of_.ds_.place(t, first_, sums_[t % 2]) : step_.dx;
    }
    Block<T> before(const Lines<T>& lines, const Lines<T>& first, int64_t t, T* buffer) const {
      return t > 0 ? lines.load(t - 1, first_, count_, buffer)
                   : first.load(0, first_, count_, buffer);
    }
    void leave(int64_t t) const {
      of_.dx_.store(t, first_, count_, step_.dx);
      if constexpr (Cell::kSplits) of_.ds_.store(t, first_, count_, step_.ds);
    }
    void finish() const {
      for (int64_t i = 0; i < count_; ++i) {
        of_.dh0_.write(0, first_ + i, dh_.row(i));
        if constexpr (Cell::kHasCell) of_.dc0_.write(0, first_ + i, dc_.row(i));
      }
    }

    // The step for units [begin, end), given the sums' adjoints of the step after it.
    void run(const Weights& weights, int64_t begin, int64_t end) const {
      add_product(weights, after_, begin, end);
      for (int64_t i = 0; i < count_; ++i) run_cell(i, begin, end);
    }

    void add_product(const Weights& weights, const Block<T>& ds, int64_t begin, int64_t end) const {
      for (int64_t i = 0; ds.data != nullptr && i < count_; i += kRowsTogether) {
        const int64_t rows = min_of(kRowsTogether, count_ - i);
        weights.multiply(ds.from(i), dh_.from(i), rows, begin, end);
      }
    }

    void run_cell(int64_t i, int64_t begin, int64_t end) const {
      const int64_t size = of_.size_;
      for_each_vec<T>(end - begin, [&](int64_t v, auto io) {
        const auto at = [&](const Block<T>& block, int k = 0) __attribute__((always_inline)) {
          return block.row(i) + k * size + begin + v;
        };
        Before<T, Cell::kKept + 1> seen = {};
#pragma GCC unroll 5
        for (int k = 0; k < Cell::kKept; ++k) seen.kept[k] = io.load(at(step_.kept, k));
        seen.h = io.load(at(step_.h));
        seen.h_before = io.load(at(step_.h_before));
        if constexpr (Cell::kHasCell) seen.c_before = io.load(at(step_.c_before));
        Vec<T> dx[Cell::kGates], ds[Cell::kGates], dc = {};
        Vec<T> dh = io.load(at(dh_)) + io.load(at(step_.g));
        if constexpr (Cell::kHasCell) dc = io.load(at(dc_));
        Cell::backward(seen, dh, dc, dx, ds);
        io.store(at(dh_), dh);
        if constexpr (Cell::kHasCell) io.store(at(dc_), dc);
#pragma GCC unroll 4
        for (int k = 0; k < Cell::kGates; ++k) {
          io.store(at(step_.dx, k), dx[k]);
          if constexpr (Cell::kSplits) io.store(at(step_.ds, k), ds[k]);
        }
      });
    }

    const Backward& of_;
    const int64_t first_, count_;
    const Workspace memory_;
    Step buffers_, step_ = {};
    T* sums_[2];  // for the ds of a step and of that after it
    Block<T> after_ = {}, dh_, dc_;
  };

  const int64_t steps_, batch_, size_;
  const Lines<T> h_, kept_;
  Lines<T> c_;
  const Lines<T> h0_, c0_, w_, g_h_, g_c_, dx_, ds_, dh0_, dc0_;
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
  with_cell(cell, in.x->dtype,
            [&](auto kind, auto type) { Forward<decltype(type), decltype(kind)>(out, in).run(); });
}

void recurrence_backward(RecurrentCell cell, const RecurrenceAdjoints& adjoints,
                         const RecurrenceOutputs& results, const RecurrenceInputs& in) {
  with_cell(cell, results.h->dtype, [&](auto kind, auto type) {
    Backward<decltype(type), decltype(kind)>(adjoints, results, in).run();
  });
}

}  // namespace NEEDLE_ISA
}  // namespace needle
