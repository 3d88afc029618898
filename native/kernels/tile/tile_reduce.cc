// Reductions of tiles: the totals of rows, and sums down columns.
#include "kernels/reduce/reductions.h"
#include "tile.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class Op, class T>
using TotalOf = typename Op::template Total<T>;

template <class Op, class T>
void start_rows(void* totals, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    static_cast<TotalOf<Op, T>*>(totals)[r] = Op::template identity<TotalOf<Op, T>>();
  }
}

template <class Op, class T>
void add_rows(void* totals, const void* tile, int64_t rows, int64_t cols) {
  auto* const total = static_cast<TotalOf<Op, T>*>(totals);
  const T* x = static_cast<const T*>(tile);
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    total[r] = Op::apply(total[r], static_cast<TotalOf<Op, T>>(reduce_block<Op>(x, cols)));
  }
}

template <class T>
void add_row_products(void* totals, const void* a, const void* b, int64_t rows, int64_t cols) {
  auto* const total = static_cast<TotalOf<Sum, T>*>(totals);
  Products<T> products = {static_cast<const T*>(a), static_cast<const T*>(b)};
  for (int64_t r = 0; r < rows; ++r, products.a += cols, products.b += cols) {
    total[r] += static_cast<TotalOf<Sum, T>>(reduce_run<Sum, T>(products, cols));
  }
}

template <class Op, class T>
void add_upright(void* totals, const void* tile, int64_t rows, int64_t cols) {
  auto* const total = static_cast<TotalOf<Op, T>*>(totals);
  const T* x = static_cast<const T*>(tile);
  for (int64_t i = 0; i < cols; ++i, x += rows) {
#pragma GCC ivdep
    for (int64_t r = 0; r < rows; ++r) {
      total[r] = Op::apply(total[r], static_cast<TotalOf<Op, T>>(x[r]));
    }
  }
}

template <class T>
void add_upright_products(void* totals, const void* a, const void* b, int64_t rows, int64_t cols) {
  auto* const total = static_cast<TotalOf<Sum, T>*>(totals);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (int64_t i = 0; i < cols; ++i, x += rows, y += rows) {
#pragma GCC ivdep
    for (int64_t r = 0; r < rows; ++r) total[r] += static_cast<TotalOf<Sum, T>>(x[r] * y[r]);
  }
}

template <class Op, class T>
void finish_rows(void* out, const void* totals, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    static_cast<T*>(out)[r] = static_cast<T>(static_cast<const TotalOf<Op, T>*>(totals)[r]);
  }
}

// Totals that are no sums, such as products, take floats one by one in double, where they neither
// overflow nor underflow half-way.
template <class Op>
struct InWide : Op {
  template <class T>
  using Total = std::conditional_t<is_floating<T>, double, T>;
};

template <class Op, class T>
void add_one_by_one(void* totals, const void* tile, int64_t rows, int64_t cols) {
  auto* const total = static_cast<TotalOf<Op, T>*>(totals);
  const T* x = static_cast<const T*>(tile);
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    for (int64_t i = 0; i < cols; ++i) {
      total[r] = Op::apply(total[r], static_cast<TotalOf<Op, T>>(x[i]));
    }
  }
}

template <class Op, class T>
constexpr RowReduction row_reduction() {
  RowReduction row = {};
  row.start = start_rows<Op, T>;
  row.add = add_rows<Op, T>;
  row.add_upright = add_upright<Op, T>;
  row.finish = finish_rows<Op, T>;
  if constexpr (is_same<Op, Sum> && is_floating<T>) {
    row.add_products = add_row_products<T>;
    row.add_upright_products = add_upright_products<T>;
  }
  return row;
}

template <class Op, class T>
constexpr RowReduction one_by_one() {
  RowReduction row = row_reduction<Op, T>();
  row.add = add_one_by_one<Op, T>;
  return row;
}

template <ReduceOp op>
constexpr RowReductionRow row_of() {
  using Op = ReductionOf<op>;
  if constexpr (op == ReduceOp::sum) {
    return {{row_reduction<Op, float>(),
             row_reduction<Op, double>(),
             row_reduction<Op, int32_t>(),
             row_reduction<Op, int64_t>(),
             {}}};
  } else if constexpr (kind_of(op) == ReduceKind::total) {
    using Wide = InWide<Op>;
    return {{one_by_one<Wide, float>(),
             one_by_one<Wide, double>(),
             one_by_one<Wide, int32_t>(),
             one_by_one<Wide, int64_t>(),
             {}}};
  } else if constexpr (kind_of(op) == ReduceKind::extreme) {
    return {{row_reduction<Op, float>(), row_reduction<Op, double>(), row_reduction<Op, int32_t>(),
             row_reduction<Op, int64_t>(), row_reduction<Op, uint8_t>()}};
  } else {
    return {};
  }
}

// Sums down columns: `sums` in the tile's type for a stretch of rows, then in the wider total.
template <class T>
void add_columns(void* sums, const void* tile, int64_t rows, int64_t cols) {
  T* const to = static_cast<T*>(sums);
  const T* x = static_cast<const T*>(tile);
  for (; rows >= kRowsAtOnce; rows -= kRowsAtOnce, x += kRowsAtOnce * cols) {
    reduce_rows<Sum>(to, x, x + cols, x + 2 * cols, x + 3 * cols, cols);
  }
  for (; rows > 0; --rows, x += cols) reduce_row<Sum>(to, x, cols);
}

// As if the products were a tile: the same order of sums.
template <class T>
void add_column_products(void* sums, const void* a, const void* b, int64_t rows, int64_t cols) {
  T* const to = static_cast<T*>(sums);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (; rows >= kRowsAtOnce;
       rows -= kRowsAtOnce, x += kRowsAtOnce * cols, y += kRowsAtOnce * cols) {
#pragma GCC ivdep
    for (int64_t i = 0; i < cols; ++i) {
      const T low = x[i] * y[i] + x[cols + i] * y[cols + i];
      const int64_t third = 2 * cols + i, fourth = 3 * cols + i;
      to[i] += low + (x[third] * y[third] + x[fourth] * y[fourth]);
    }
  }
  for (; rows > 0; --rows, x += cols, y += cols) {
#pragma GCC ivdep
    for (int64_t i = 0; i < cols; ++i) to[i] += x[i] * y[i];
  }
}

template <class T>
void flush_columns(void* totals, void* sums, int64_t n) {
  auto* const total = static_cast<TotalOf<Sum, T>*>(totals);
  T* const from = static_cast<T*>(sums);
  for (int64_t i = 0; i < n; ++i) {
    total[i] += static_cast<TotalOf<Sum, T>>(from[i]);
    from[i] = 0;
  }
}

template <class T>
void combine_columns(void* totals, const void* others, int64_t n) {
  auto* const total = static_cast<TotalOf<Sum, T>*>(totals);
  const auto* const other = static_cast<const TotalOf<Sum, T>*>(others);
  for (int64_t i = 0; i < n; ++i) total[i] += other[i];
}

template <class T>
constexpr ColumnSum column_sum(ComputeType total) {
  ColumnSum sum = {add_columns<T>, nullptr, flush_columns<T>, combine_columns<T>, total};
  if constexpr (is_floating<T>) sum.add_products = add_column_products<T>;
  return sum;
}

}  // namespace

constexpr RowReductionRow kRowReduce[] = {
#define REDUCTION(name, ...) row_of<ReduceOp::name>(),
#include "common/reduce.def"
};

constexpr ColumnSum kColumnSum[kNumComputeTypes] = {column_sum<float>(ComputeType::f64),
                                                    column_sum<double>(ComputeType::f64),
                                                    column_sum<int32_t>(ComputeType::i32),
                                                    column_sum<int64_t>(ComputeType::i64),
                                                    {}};

}  // namespace needle::NEEDLE_ISA
