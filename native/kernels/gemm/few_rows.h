// A few rows times a matrix, which is read once, in the order of memory, and widened in registers:
// with a matrix beyond the caches the time is that of memory. Rows are taken four, two or one at a
// time, so that each vector of the matrix serves several of them.
#pragma once

#include "gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

// GB/s of two threads of a Zen 3, of weights beyond the caches (bfloat16, 768 x 2304, one row):
//     in rows, 27 with 8 runs of k and 24 with 16; 27 with the next lines fetched, 22 without
//     in columns, 23 when fetched 1 KB ahead and 20 not
// and of a Zen 4, with AVX-512 (float32, bfloat16 and int8, 768 x 3072):
//     in rows, 34, 29 and 31 when the next lines go to the second-level cache; 28, 24 and 20 when
//     they go to the first, which is too small for them
//     in columns, 33, 23 and 29 when fetched 4 KB ahead, all lines; 29, 20 and 18 every other, 1 KB
constexpr int64_t kFewRows = 8;
constexpr int64_t kMostTasks = 16, kMostRuns = 8;
constexpr int64_t kTaskElements = 1 << 15;  // of the matrix, worth a task
constexpr int64_t kTileSums = 3072;         // sums of all rows that stay in the first-level cache
constexpr int kDepthAtOnce = 4;             // lines that are added to them at once
constexpr int64_t kAhead = 4096;            // bytes

// The lines of a matrix, columns or rows, whose elements lie `stride` bytes apart: Es that are read
// where they are, or (E = T, not in_place) loaded into a buffer first.
template <class E>
struct Lines {
  int64_t stride;
  bool in_place;

  template <class T>
  const E* read(const Source<T>& source, const char* from, int64_t n, T* buffer) const {
    if constexpr (is_same<T, E>) {
      return source.tile(from, stride, n, buffer);
    } else {
      return reinterpret_cast<const E*>(from);
    }
  }
};

// Calls body(lines): in the stored type if they are contiguous and it can be widened in registers.
template <class T, class F>
void with_lines(const Matrix<T>& b, int64_t stride, F&& body) {
  const bool is_widened = with_widened<T>(
      b.dtype, stride, [&](auto tag) { body(Lines<typename decltype(tag)::type>{stride, true}); });
  if (is_widened) return;
  body(Lines<T>{stride, b.source.is_plain && stride == static_cast<int64_t>(sizeof(T))});
}

template <int N>
struct Count {
  static constexpr int value = N;
};

// Calls body(first row, Count<rows>) for all rows, four, two or one at a time.
template <class F>
NEEDLE_INLINE void for_row_groups(int64_t rows, F&& body) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) body(i, Count<4>{});
  for (; i + 2 <= rows; i += 2) body(i, Count<2>{});
  for (; i < rows; ++i) body(i, Count<1>{});
}

template <class T>
NEEDLE_INLINE T sum_of_lanes(Vec<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int half = kLanes<T> / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// sums[i] += x_i . y over n elements, for Rows rows x_i that lie `step` elements apart.
template <int Rows, class T, class E>
[[gnu::noinline]] void add_dots(T* sums, const T* x, int64_t step, const E* y, int64_t n) {
  constexpr int kVecs = Rows == 4 ? 2 : 4, kStep = kVecs * kLanes<T>;
  Vec<T> acc[Rows][kVecs] = {};
  int64_t k = 0;
  for (; k + kStep <= n; k += kStep) {
#pragma GCC unroll 4
    for (int64_t line = 0; line < kStep; line += 64 / sizeof(E)) {
      __builtin_prefetch(y + k + line + kAhead / sizeof(E));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const int64_t at = k + v * kLanes<T>;
      const Vec<T> w = widened(y + at);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) {
        acc[i][v] = multiply_add(load(x + i * step + at), w, acc[i][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    Vec<T> total = acc[i][0] + acc[i][1];
    if constexpr (kVecs == 4) total = total + (acc[i][2] + acc[i][3]);
    T sum = sum_of_lanes<T>(total);
    for (int64_t rest = k; rest < n; ++rest) sum += x[i * step + rest] * cast<T>(y[rest]);
    sums[i] += sum;
  }
}

// Rows x (m x k, compact) times b whose columns are lines: a dot product for each pair.
template <class T, class E>
void rows_times_columns(const Product<T>& p, const T* x, const Lines<E>& columns) {
  constexpr int64_t kBlock = 1024, kBuffer = is_same<T, E> ? kBlock : 1;
  const int64_t block = columns.in_place ? p.k : kBlock;
  const int64_t grain = max_of(ceil_div(p.n, kMostTasks), kTaskElements / p.k);
  parallel_for(p.n, max_of(1, grain), [&](int64_t begin, int64_t end) {
    T buffer[kBuffer];
    for (int64_t j = begin; j < end; ++j) {
      T sums[kFewRows] = {};
      for (int64_t k = 0; k < p.k; k += block) {
        const int64_t n = min_of(block, p.k - k);
        const E* const y = columns.read(p.b.source, p.b.at(k, j), n, buffer);
        for_row_groups(p.m, [&](int64_t i, auto rows) {
          add_dots<rows.value>(sums + i, x + i * p.k + k, p.k, y, n);
        });
      }
      p.out.store(p.out.at(0, j), p.out.row_stride, sums, p.m);
    }
  });
}

// acc_i += sum over r < Depth of x_i[r] y_r, for Rows rows acc_i and x_i, n elements each. Rows of
// acc, x and y lie acc_step, x_step and y_step elements apart; fetches what follows in y.
template <int Rows, int Depth, class T, class E>
[[gnu::noinline]] void add_scaled_lines(T* acc, int64_t acc_step, const T* x, int64_t x_step,
                                        const E* y, int64_t y_step, int64_t n) {
  constexpr int64_t kCacheLine = 64 / sizeof(E);
  Vec<T> factors[Rows][Depth];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < Depth; ++r) factors[i][r] = splat(x[i * x_step + r]);
  }
  const auto add = [&](int64_t j) NEEDLE_INLINE_LAMBDA {
    Vec<T> w[Depth];
#pragma GCC unroll 4
    for (int r = 0; r < Depth; ++r) w[r] = widened(y + r * y_step + j);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      Vec<T> sum = load(acc + i * acc_step + j);
#pragma GCC unroll 4
      for (int r = 0; r < Depth; ++r) sum = multiply_add(factors[i][r], w[r], sum);
      store(acc + i * acc_step + j, sum);
    }
  };
  int64_t j = 0;
  for (; j + kCacheLine <= n; j += kCacheLine) {
#pragma GCC unroll 4
    for (int r = 0; r < Depth; ++r) __builtin_prefetch(y + (Depth + r) * y_step + j, 0, 2);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kCacheLine; v += kLanes<T>) add(j + v);
  }
  for (; j + kLanes<T> <= n; j += kLanes<T>) add(j);
  for (; j < n; ++j) {
    for (int i = 0; i < Rows; ++i) {
      for (int r = 0; r < Depth; ++r) {
        acc[i * acc_step + j] += x[i * x_step + r] * cast<T>(y[r * y_step + j]);
      }
    }
  }
}

// sums (m x tile) = x times the rows [k, end) of b, which are lines, and columns from col on.
template <class T, class E>
void sum_lines(const Product<T>& p, const T* x, const Lines<E>& lines, T* sums, int64_t tile,
               int64_t col, int64_t k, int64_t end) {
  T buffer[kDepthAtOnce * (is_same<T, E> ? kTileSums : 1)];
  const int64_t n = min_of(tile, p.n - col);
  for (int64_t i = 0; i < p.m * tile; ++i) sums[i] = 0;
  const auto add = [&](auto depth) {
    const E* y = reinterpret_cast<const E*>(p.b.at(k, col));
    int64_t y_step = p.b.row_stride / static_cast<int64_t>(sizeof(E));
    if (!lines.in_place) {
      for (int r = 0; r < depth.value; ++r) {
        y = lines.read(p.b.source, p.b.at(k + r, col), n, buffer + r * n);
      }
      y -= (depth.value - 1) * n;
      y_step = n;
    }
    for_row_groups(p.m, [&](int64_t i, auto rows) {
      add_scaled_lines<rows.value, depth.value>(sums + i * tile, tile, x + i * p.k + k, p.k, y,
                                                y_step, n);
    });
    k += depth.value;
  };
  while (k + kDepthAtOnce <= end) add(Count<kDepthAtOnce>{});
  while (k < end) add(Count<1>{});
}

// Rows x (m x k, compact) times b whose rows are lines: sums of lines, in columns that stay in the
// first-level cache, and in runs of k where columns alone are too few tasks.
template <class T, class E>
void rows_times_rows(const Product<T>& p, const T* x, const Lines<E>& lines) {
  const int64_t tile = even_part(p.n, max_of(kLanes<T>, kTileSums / p.m), kLanes<T>);
  const int64_t across = ceil_div(p.n, tile);
  const int64_t tasks = min_of(kMostRuns, ceil_div(p.k * p.n, kTaskElements));
  const int64_t run = even_part(p.k, ceil_div(p.k, ceil_div(tasks, across)), 4);
  const int64_t runs = ceil_div(p.k, run);
  const Workspace workspace(across * runs * p.m * tile * static_cast<int64_t>(sizeof(T)),
                            kept_by_task);
  const auto sums_of = [&](int64_t task) { return workspace.as<T>() + task * p.m * tile; };
  const auto finish = [&](int64_t column) {
    T* const sums = sums_of(column * runs);
    const int64_t n = min_of(tile, p.n - column * tile);
    for (int64_t r = 1; r < runs; ++r) {
      const T* const more = sums_of(column * runs + r);
      for (int64_t i = 0; i < p.m * tile; ++i) sums[i] += more[i];
    }
    for (int64_t i = 0; i < p.m; ++i) {
      p.out.store(p.out.at(i, column * tile), p.out.col_stride, sums + i * tile, n);
    }
  };
  parallel_for(across * runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t col = task / runs * tile, k = task % runs * run;
      sum_lines(p, x, lines, sums_of(task), tile, col, k, min_of(p.k, k + run));
      if (runs == 1) finish(task);
    }
  });
  for (int64_t column = 0; runs > 1 && column < across; ++column) finish(column);
}

template <class T>
void multiply_few_rows(const Product<T>& p, bool by_dots) {
  const Workspace workspace(p.m * p.k * static_cast<int64_t>(sizeof(T)));
  T* const buffer = workspace.as<T>();
  const T* x = buffer;
  if (p.m == 1) {
    x = p.a.source.tile(p.a.data, p.a.col_stride, p.k, buffer);
  } else {
    for (int64_t i = 0; i < p.m; ++i) {
      p.a.source.load(buffer + i * p.k, p.a.at(i, 0), p.a.col_stride, p.k);
    }
  }
  with_lines(p.b, by_dots ? p.b.row_stride : p.b.col_stride, [&](const auto& lines) {
    by_dots ? rows_times_columns(p, x, lines) : rows_times_rows(p, x, lines);
  });
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
