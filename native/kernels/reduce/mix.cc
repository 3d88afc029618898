// Weighted sums along one axis, with a sparse matrix of weights: resizing, and its gradient.

#include <cstddef>

#include "kernels/alias.h"
#include "kernels/entries.h"
#include "kernels/transpose.h"
#include "kernels/workspace.h"
#include "reduce_axes.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kLines = 16;            // that lie side by side in a transposed block
constexpr int64_t kFewestLines = 4;       // that are worth one
constexpr int64_t kBlockBytes = 4 << 20;  // the most that one takes
constexpr int64_t kWidth = 2048;          // elements of a row at a time: a few rows stay in L1

// The matrix, checked, in memory that nobody else writes: the entries of row j are starts[j] to
// starts[j + 1] - 1.
template <class T>
class SparseMatrix {
 public:
  SparseMatrix(const View& starts, const View& places, const View& weights, int64_t columns)
      : rows_(starts.shape[0] - 1),
        entries_(places.shape[0]),
        memory_((rows_ + 1 + 2 * entries_) * static_cast<int64_t>(sizeof(int64_t))) {
    starts_ = memory_.as<int64_t>();
    places_ = starts_ + rows_ + 1;
    weights_ = reinterpret_cast<T*>(places_ + entries_);
    read(starts_, starts);
    read(places_, places);
    read(weights_, weights);
    int64_t least = 0;
    for (int64_t j = 0; j <= rows_; ++j) {
      if (starts_[j] < least || starts_[j] > entries_) {
        throw_index_error(0, starts_[j], entries_ + 1);
      }
      least = starts_[j];
    }
    for (int64_t e = 0; e < entries_; ++e) {
      if (places_[e] < 0 || places_[e] >= columns) throw_index_error(1, places_[e], columns);
    }
  }

  int64_t rows() const { return rows_; }
  int64_t first(int64_t row) const { return starts_[row]; }
  int64_t count(int64_t row) const { return starts_[row + 1] - starts_[row]; }
  const int64_t* places() const { return places_; }
  const T* weights() const { return weights_; }
  int64_t entries() const { return entries_; }

 private:
  template <class E>
  static void read(E* to, const View& from) {
    const E* const data = reinterpret_cast<const E*>(from.data);
    for (int64_t i = 0; i < from.shape[0]; ++i) to[i] = data[i * from.strides[0]];
  }

  const int64_t rows_, entries_;
  const Workspace memory_;
  int64_t* starts_;
  int64_t* places_;
  T* weights_;
};

// to = (or, if it has a beginning, +=) the sum of kCount weighted rows, added in order; n elements.
template <int kCount, bool kAdds, class T>
NEEDLE_INLINE void add_rows(T* __restrict to, const T* from, int64_t step, const int64_t* places,
                            const T* weights, int64_t n) {
  const T* row[kCount];
  T weight[kCount];
  for (int k = 0; k < kCount; ++k) {
    row[k] = from + places[k] * step;
    weight[k] = weights[k];
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T sum = kAdds ? to[i] + weight[0] * row[0][i] : weight[0] * row[0][i];
#pragma GCC unroll 4
    for (int k = 1; k < kCount; ++k) sum += weight[k] * row[k][i];
    to[i] = sum;
  }
}

template <bool kAdds, class T>
NEEDLE_INLINE void add_some(T* to, const T* from, int64_t step, const int64_t* places,
                            const T* weights, int64_t count, int64_t n) {
  switch (count) {
    case 1: return add_rows<1, kAdds>(to, from, step, places, weights, n);
    case 2: return add_rows<2, kAdds>(to, from, step, places, weights, n);
    case 3: return add_rows<3, kAdds>(to, from, step, places, weights, n);
    default: return add_rows<4, kAdds>(to, from, step, places, weights, n);
  }
}

// n elements, side by side, of row j of the result; places of a lie `step` elements apart. Up to
// four entries are one pass: linear interpolation has two, and its gradient at twice the size four.
template <class T>
NEEDLE_INLINE void mix_run(const SparseMatrix<T>& m, int64_t j, T* to, const T* from, int64_t step,
                           int64_t n) {
  constexpr int64_t kAtOnce = 4;
  const int64_t first = m.first(j), count = m.count(j);
  const int64_t* const places = m.places() + first;
  const T* const weights = m.weights() + first;
  if (count == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = 0;
    return;
  }
  add_some<false>(to, from, step, places, weights, min_of(count, kAtOnce), n);
  for (int64_t k = kAtOnce; k < count; k += kAtOnce) {
    add_some<true>(to, from, step, places + k, weights + k, min_of(count - k, kAtOnce), n);
  }
}

// Where an axis and all others lie in a and in out.
template <class T>
class Mix {
 public:
  Mix(const View& out, const View& a, const SparseMatrix<T>& m, int along)
      : to_(out.data), from_(a.data), m_(m), n_(a.shape[along]) {
    axis_[0] = byte_stride(a, along);
    axis_[1] = byte_stride(out, along);
    others_ = sorted_axes(a, out, [&](int other) { return other != along; });
    work_ = max_of(1, ceil_div(m.entries(), max_of(1, m.rows())));  // for each element
  }

  void run() const {
    if (has_steps(kSize) && others_.ndim > 0) return run_rows();
    const bool is_small = (n_ + m_.rows()) * kLines * kSize <= kBlockBytes;
    if (axis_[0] == kSize && axis_[1] == kSize && is_small && others_.size >= kFewestLines) {
      return run_lines();
    }
    run_elements();
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // Does the innermost of the other axes have this step, in both?
  bool has_steps(int64_t step) const {
    if (others_.ndim == 0) return false;
    const int64_t (&steps)[2] = others_.strides[others_.ndim - 1];
    return steps[0] == step && steps[1] == step && axis_[0] % kSize == 0;
  }

  // Rows of the result are sums of a's rows. A task has some of them, or some of their elements.
  void run_rows() const {
    Nest<2> outer = others_;
    int64_t steps[2];
    const int64_t width = outer.pop(steps), tiles = ceil_div(width, kWidth);
    const int64_t part = max_of(1, kGrain / (work_ * min_of(width, kWidth)));
    const int64_t parts = ceil_div(m_.rows(), part), units = outer.size * tiles * parts;
    const int64_t size = work_ * min_of(part, m_.rows()) * min_of(width, kWidth);
    parallel_for(units, max_of(1, kGrain / size), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Cursor<2> at(outer, unit / (tiles * parts));
        const int64_t column = unit / parts % tiles * kWidth, row = unit % parts * part;
        const int64_t n = min_of(kWidth, width - column);
        const T* const from = reinterpret_cast<const T*>(from_ + at.offset[0] + column * kSize);
        char* const to = to_ + at.offset[1] + column * kSize;
        for (int64_t j = row; j < min_of(m_.rows(), row + part); ++j) {
          mix_run(m_, j, reinterpret_cast<T*>(to + j * axis_[1]), from, axis_[0] / kSize, n);
        }
      }
    });
  }

  // The axis itself is innermost: lines along it are transposed, so that sums are of rows, and the
  // sums transposed back.
  void run_lines() const {
    const int64_t line = max_of(1, work_ * m_.rows());
    const int64_t groups = ceil_div(others_.size, kLines);
    parallel_for(groups, max_of(1, kGrain / (line * kLines)), [&](int64_t begin, int64_t end) {
      const Workspace memory((n_ + m_.rows()) * kLines * kSize, kept_by_task);
      T* const block = memory.as<T>();
      const int64_t last = min_of(others_.size, end * kLines);
      for_each_run(others_, begin * kLines, last, [&](auto& at, auto& steps, int64_t, int64_t n) {
        for (int64_t i = 0; i < n; i += kLines) {
          mix_lines(block, at[0] + i * steps[0], at[1] + i * steps[1], steps,
                    min_of(kLines, n - i));
        }
      });
    });
  }

  void mix_lines(T* block, int64_t from, int64_t to, const int64_t (&steps)[2],
                 int64_t lines) const {
    T* const sums = block + n_ * kLines;
    if (lines < kLines) __builtin_memset(block, 0, static_cast<size_t>(n_ * kLines * kSize));
    transpose(block, kLines, from_ + from, steps[0], lines, n_);
    for (int64_t j = 0; j < m_.rows(); ++j) {
      mix_run(m_, j, sums + j * kLines, block, kLines, kLines);
    }
    const char* const rows = reinterpret_cast<const char*>(sums);
    transpose(reinterpret_cast<T*>(to_ + to), steps[1] / kSize, rows, kLines * kSize, m_.rows(),
              lines);
  }

  // Any layout.
  void run_elements() const {
    const int64_t rows = m_.rows(), part = min_of(rows, kGrain), parts = ceil_div(rows, part);
    const int64_t grain = max_of(1, kGrain / (work_ * part));
    parallel_for(others_.size * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Cursor<2> at(others_, unit / parts);
        const int64_t first = unit % parts * part;
        for (int64_t j = first; j < min_of(rows, first + part); ++j) {
          *reinterpret_cast<T*>(to_ + at.offset[1] + j * axis_[1]) =
              element(from_ + at.offset[0], j);
        }
      }
    });
  }

  T element(const char* from, int64_t j) const {
    T sum = 0;
    for (int64_t e = m_.first(j); e < m_.first(j) + m_.count(j); ++e) {
      const T x = m_.weights()[e] * *reinterpret_cast<const T*>(from + m_.places()[e] * axis_[0]);
      sum = e == m_.first(j) ? x : sum + x;
    }
    return sum;
  }

  char* const to_;
  const char* const from_;
  const SparseMatrix<T>& m_;
  const int64_t n_;  // the length of the axis in a
  int64_t axis_[2];  // strides along it
  Nest<2> others_;
  int64_t work_;
};

template <class T>
void mix_as(const View& out, const View& a, const View& starts, const View& places,
            const View& weights, int axis) {
  const SparseMatrix<T> matrix(starts, places, weights, a.shape[axis]);
  if (out.size() == 0) return;
  const Unaliased from(a, out);
  Mix<T>(out, from.view(), matrix, axis).run();
}

}  // namespace

void mix(const View& out, const View& a, const View& starts, const View& places,
         const View& weights, int axis) {
  const auto run = out.dtype == DType::f64 ? mix_as<double> : mix_as<float>;
  run(out, a, starts, places, weights, axis);
}

}  // namespace needle::NEEDLE_ISA
