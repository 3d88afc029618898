// Batched matrix products: which kernel a product takes, and how batches and threads share it.
#pragma once

#include "few_rows.h"
#include "gemm_long.h"
#include "kernels/alias.h"
#include "small_products.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kGrain = 1 << 15;       // multiplications worth a task
constexpr int64_t kFewDots = 4;           // rows of dot products with a matrix in cache
constexpr int64_t kOwnThreads = 1 << 23;  // products from here on are threaded inside
constexpr int64_t kManyProducts = 32;     // batches from here on are threaded over the products

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
  const bool is_large = p.k * p.n > kSmallMatrix;
  if (p.m == 1 || (p.m <= kFewDots && by_dots) || (p.m <= kFewRows && is_large)) {
    return multiply_few_rows(p, by_dots);
  }
  const Product<T> q = p.along_rows();
  if (has_long_sums(q)) return LongSums<T>(q).run();
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
  const int64_t work = p.m * p.n * p.k, grain = max_of(1, kGrain / max_of(1, work));
  const SmallProducts<T> small(p);
  if (batch.size > 1 && small.fit()) {
    return parallel_for(batch.size, grain,
                        [&](int64_t begin, int64_t end) { small.run(batch, begin, end); });
  }
  if (batch.size == 1 || (work >= kOwnThreads && batch.size < kManyProducts)) {
    return run(0, batch.size);
  }
  parallel_for(batch.size, grain, run);
}

// Elements are computed as As (those of b, beside floats, may be any that floats hold), in T:
// integers wrap around, a bool product is a count, then "not zero". `multiply` computes one
// product.
template <class As, class T = Wrapping<As>>
void multiply_views(const View& out, const View& a, const View& b, MultiplyFn<T> multiply) {
  const int row = out.ndim - 2, col = out.ndim - 1;
  Nest<3> batch;
  for (int axis = 0; axis < row; ++axis) {
    batch.push(out.shape[axis],
               {byte_stride(out, axis), byte_stride(a, axis), byte_stride(b, axis)});
  }
  const auto matrix = [&](const View& v) {
    const Source<T> source = source_of<T, As>(v.dtype);
    return Matrix<T>{v.data, byte_stride(v, row), byte_stride(v, col), source, v.dtype};
  };
  const Product<T> product = {{out.data, byte_stride(out, row), byte_stride(out, col),
                               store_of<T>(out.dtype), source_of<T, As>(out.dtype).is_plain},
                              matrix(a),
                              matrix(b),
                              out.shape[row],
                              out.shape[col],
                              a.shape[col]};
  multiply_batch(product, batch, multiply);
}

// Are the elements of each row nearer to each other than the rows? Sums along rows that lie across
// memory are added in another order, which depends on the number of rows.
inline bool lies_in_rows(const ThenOperands& o) {
  const int first = o.program.n_outputs;
  for (int k = 0; k < first + o.program.n_inputs + 1; ++k) {
    const View& view = *o.all[k];
    const bool is_factor = k == first || k == first + 1;
    const bool lies_across = length_of(view.strides[1]) > length_of(view.strides[0]);
    if (!is_factor && view.strides[0] != 0 && lies_across) return false;
  }
  return true;
}

// May a product with an epilogue be computed tile by tile, and the program run before all is read?
inline bool takes_tiles(const ThenOperands& o, int holder) {
  const View& out = o.output(0);
  if (out.ndim != 2 || o.a().shape[1] == 0) return false;
  if (out.shape[0] <= kFewRows || out.shape[1] <= kFewRows) return false;
  if (holder >= 0 && o.output(holder).strides[1] != 1) return false;
  if (!o.program.is_elementwise && !lies_in_rows(o)) return false;
  return o.writes_no_input();
}

// A product of floats with an epilogue, or a prologue. Its sums may be kept in `out` if
// `holds_sums`.
inline Product<float> product_of(const View& out, const View& a, const View& b, bool holds_sums) {
  const auto matrix = [&](const View& v) {
    return Matrix<float>{v.data, byte_stride(v, 0), byte_stride(v, 1),
                         source_of<float, float>(v.dtype), v.dtype};
  };
  const StoreFn<float> store = store_of<float>(DType::f32);
  return {{out.data, byte_stride(out, 0), byte_stride(out, 1), store, holds_sums},
          matrix(a),
          matrix(b),
          out.shape[0],
          out.shape[1],
          a.shape[1]};
}

inline Product<float> product_of(const ThenOperands& o, int holder) {
  return product_of(o.output(max_of(0, holder)), o.a(), o.b(), holder >= 0);
}

// The left factor of a product with a prologue, without memory.
inline View left_factor(const OfOperands& o) {
  View a = *o.all[0];
  a.data = nullptr;
  a.dtype = DType::f32;
  a.shape[a.ndim - 1] = o.b().shape[a.ndim - 2];
  a.set_compact_strides();
  return a;
}

// Calls `multiply` with a product of floats that is computed tile by tile, and its epilogue (or
// nullptr), while the prologue computes the left factor; false if that must be computed apart. Few
// rows are, those that are too long for a tile, and those of products that are cut along k.
template <class F>
bool with_tiles(const OfOperands& o, const View& a, const F& multiply) {
  const bool is_thin = a.shape[0] <= kThinRows || a.shape[1] > kMostComputed / kThinRows;
  if (o.all[0]->ndim != 2 || is_thin || !o.writes_no_input()) return false;
  if (has_long_sums(a.shape[0], o.b().shape[1], a.shape[1])) return false;
  const View* factors[kMaxProgramOperands + 1];
  o.list_factors(a, factors);
  if (o.then == nullptr) {
    const View& out = *factors[0];
    if (a.shape[1] == 0 || out.shape[1] <= kFewRows || out.strides[1] != 1) return false;
    if (out.data == o.b().data) return false;
    return multiply(product_of(out, a, o.b(), true), nullptr);
  }
  const ThenOperands rest = {*o.then, factors};
  const int holder = rest.holder();
  if (!takes_tiles(rest, holder)) return false;
  const Epilogue epilogue = rest.epilogue();
  return multiply(product_of(rest, holder), &epilogue);
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
