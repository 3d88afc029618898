// Batched matrix products: which kernel a product takes, and how batches and threads share it.
#pragma once

#include "alias.h"
#include "gemm.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int64_t kGrain = 1 << 15;       // multiplications worth a task
constexpr int64_t kFewRows = 4;           // up to here, dot products read b as it lies
constexpr int64_t kOwnThreads = 1 << 23;  // products from here on are threaded inside
constexpr int64_t kManyProducts = 32;     // batches from here on are threaded over the products

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  constexpr int kVecs = 4, kStep = kVecs * kLanes<T>;
  Vec<T> acc[kVecs] = {};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const int64_t at = i + v * kLanes<T>;
      acc[v] = multiply_add(load(x + at), load(y + at), acc[v]);
    }
  }
  const Vec<T> sums = (acc[0] + acc[1]) + (acc[2] + acc[3]);
  T lanes[kLanes<T>];
  store(lanes, sums);
  for (int lane = 0; i < n; ++i, lane = (lane + 1) % kLanes<T>) lanes[lane] += x[i] * y[i];
  for (int half = kLanes<T> / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// A few rows x (m x k, compact) times b whose columns lie contiguous: a dot product for each pair.
template <class T>
void rows_times_columns(const Product<T>& p, const T* x) {
  parallel_for(p.n, max_of(1, kGrain / (p.m * p.k)), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;
    T buffer[kBlock];
    for (int64_t j = begin; j < end; ++j) {
      const char* const column = p.b.data + j * p.b.col_stride;
      T sums[kFewRows] = {};
      for (int64_t k = 0; k < p.k; k += kBlock) {
        const int64_t n = min_of(kBlock, p.k - k);
        const char* const from = column + k * p.b.row_stride;
        const T* const y = p.b.source.tile(from, p.b.row_stride, n, buffer);
        for (int64_t i = 0; i < p.m; ++i) sums[i] += dot(x + i * p.k + k, y, n);
      }
      p.out.store(p.out.data + j * p.out.col_stride, p.out.row_stride, sums, p.m);
    }
  });
}

// acc += x[0] y0 + x[1] y1 + x[2] y2 + x[3] y3
template <class T>
void add_scaled_rows(T* __restrict acc, const T* x, const T* y0, const T* y1, const T* y2,
                     const T* y3, int64_t n) {
  int64_t i = 0;
  const Vec<T> x0 = splat(x[0]), x1 = splat(x[1]), x2 = splat(x[2]), x3 = splat(x[3]);
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    Vec<T> sum = multiply_add(x0, load(y0 + i), load(acc + i));
    sum = multiply_add(x1, load(y1 + i), sum);
    sum = multiply_add(x2, load(y2 + i), sum);
    store(acc + i, multiply_add(x3, load(y3 + i), sum));
  }
  for (; i < n; ++i) acc[i] += x[0] * y0[i] + x[1] * y1[i] + x[2] * y2[i] + x[3] * y3[i];
}

// A row vector x times b whose rows lie contiguous: a sum of rows, a tile of columns at a time.
template <class T>
void row_times_rows(const Product<T>& p, const T* x) {
  constexpr int64_t kTile = 1024;
  const int64_t eighth = ceil_div(p.n, 8 * kLanes<T>) * kLanes<T>;
  const int64_t tile = min_of(kTile, max_of(eighth, kGrain / p.k));
  parallel_for(ceil_div(p.n, tile), 1, [&](int64_t begin, int64_t end) {
    T acc[kTile], buffers[4][kTile];
    for (int64_t j = begin * tile; j < min_of(p.n, end * tile); j += tile) {
      const int64_t n = min_of(tile, p.n - j);
      const auto row = [&](int64_t k, int slot) {
        const char* from = p.b.data + k * p.b.row_stride + j * p.b.col_stride;
        return p.b.source.tile(from, p.b.col_stride, n, buffers[slot]);
      };
      for (int64_t i = 0; i < n; ++i) acc[i] = 0;
      int64_t k = 0;
      for (; k + 4 <= p.k; k += 4) {
        add_scaled_rows(acc, x + k, row(k, 0), row(k + 1, 1), row(k + 2, 2), row(k + 3, 3), n);
      }
      for (; k < p.k; ++k) {
        const T* y = row(k, 0);
        for (int64_t i = 0; i < n; ++i) acc[i] += x[k] * y[i];
      }
      p.out.store(p.out.data + j * p.out.col_stride, p.out.col_stride, acc, n);
    }
  });
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
      p.a.source.load(buffer + i * p.k, p.a.data + i * p.a.row_stride, p.a.col_stride, p.k);
    }
  }
  by_dots ? rows_times_columns(p, x) : row_times_rows(p, x);
}

template <class T>
void store_zeros(const Product<T>& p) {
  const T zero = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      p.out.store(p.out.data + i * p.out.row_stride + j * p.out.col_stride, 0, &zero, 1);
    }
  }
}

template <class T>
void multiply(const Product<T>& p) {
  if (p.k == 0) return store_zeros(p);
  if (p.m > p.n && p.n <= kFewRows) return multiply(p.transposed());
  const bool by_dots = length_of(p.b.row_stride) < length_of(p.b.col_stride) || p.n == 1;
  if (p.m == 1 || (p.m <= kFewRows && by_dots)) return multiply_few_rows(p, by_dots);
  constexpr int64_t kSize = sizeof(T);
  const bool by_columns = length_of(p.out.row_stride) < length_of(p.out.col_stride);
  Product<T> q = by_columns ? p.transposed() : p;
  q.out.is_plain = q.out.is_plain && q.out.col_stride == kSize;
  Gemm<T>(q).run();
}

// The last batch axis becomes more rows when b is the same along it and rows continue evenly.
template <class T>
void fold_batch(Product<T>& p, Nest<3>& batch) {
  while (batch.ndim > 0) {
    const int64_t n = batch.shape[batch.ndim - 1];
    const int64_t (&steps)[3] = batch.strides[batch.ndim - 1];
    const bool even =
        p.m == 1 || (steps[0] == p.m * p.out.row_stride && steps[1] == p.m * p.a.row_stride);
    if (steps[2] != 0 || !even) return;
    if (p.m == 1) {
      p.out.row_stride = steps[0];
      p.a.row_stride = steps[1];
    }
    p.m *= n;
    int64_t dropped[3];
    batch.pop(dropped);
  }
}

template <class T>
using MultiplyFn = void (*)(const Product<T>&);

template <class T>
void multiply_batch(Product<T> p, Nest<3> batch, MultiplyFn<T> multiply) {
  fold_batch(p, batch);
  const auto run = [&](int64_t begin, int64_t end) {
    Cursor<3> at(batch, begin);
    for (int64_t i = begin; i < end; ++i, at.next()) {
      Product<T> one = p;
      one.out.data += at.offset[0];
      one.a.data += at.offset[1];
      one.b.data += at.offset[2];
      multiply(one);
    }
  };
  const int64_t work = p.m * p.n * p.k;
  if (batch.size == 1 || (work >= kOwnThreads && batch.size < kManyProducts)) {
    return run(0, batch.size);
  }
  parallel_for(batch.size, max_of(1, kGrain / max_of(1, work)), run);
}

// Elements are E, and computed in T: integers wrap around, a bool product is a count, then "not
// zero". `multiply` computes one product.
template <class E, class T = Wrapping<Compute<E>>>
void multiply_views(const View& out, const View& a, const View& b, MultiplyFn<T> multiply) {
  using As = Compute<E>;
  const int row = out.ndim - 2, col = out.ndim - 1;
  Nest<3> batch;
  for (int axis = 0; axis < row; ++axis) {
    batch.push(out.shape[axis],
               {byte_stride(out, axis), byte_stride(a, axis), byte_stride(b, axis)});
  }
  const Source<T> source = {load_tile<T, As, E>, is_same<As, E>};
  const Product<T> product = {
      {out.data, byte_stride(out, row), byte_stride(out, col), store_tile<E, T>, is_same<As, E>},
      {a.data, byte_stride(a, row), byte_stride(a, col), source},
      {b.data, byte_stride(b, row), byte_stride(b, col), source},
      out.shape[row],
      out.shape[col],
      a.shape[col]};
  multiply_batch(product, batch, multiply);
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
