// Reductions over any set of axes.
//
// Axes are sorted by how far a steps along them. When the innermost one is reduced, an output is
// the reduction of *rows*; when it is kept, a tile of neighbouring outputs takes *columns*
// together. Work is cut by shape alone, so results do not depend on the number of threads.

#include "kernels/entries.h"
#include "reduce_axes.h"
#include "reductions.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kStretch = 128;  // rows that columns add up in float, then in double

// How the axes of a reduction are walked. A unit of work is a tile of outputs along the innermost
// kept axis.
struct Plan {
  Nest<2> outer, reduced;  // without the axes below; strides of a and of out
  bool by_columns;
  int64_t count;         // elements that each output reduces
  int64_t width;         // the length of the innermost kept axis,
  int64_t steps[2];      // and the strides of a and of out along it
  int64_t tile = kTile;  // outputs in a unit
  int64_t row = 1;       // rows: the length of the innermost reduced axis,
  int64_t row_steps[2];  // and its strides
  int64_t fold = 1;      // columns: narrow rows that are taken as one
  int64_t tiles;         // units along width

  [[gnu::noinline]] Plan(const View& out, const View& a) {
    outer = sorted_axes(a, out, [&](int axis) { return out.shape[axis] != 1; });
    reduced = sorted_axes(a, out, [&](int axis) { return out.shape[axis] == 1; });
    count = reduced.size;
    const int last = reduced.ndim - 1;
    by_columns = last < 0 || prefers_columns(outer, reduced.shape[last], reduced.strides[last][0]);
    width = outer.pop(steps);
    if (by_columns) {
      const bool is_even = reduced.ndim == 1 && reduced.strides[0][0] == width * steps[0];
      if (is_even && width > 0) fold = max_of(1, kTile / 4 / width);
    } else {
      row = reduced.pop(row_steps);
      // Rows that lie apart are met in the order of memory, many outputs at a time.
      if (reduced.ndim == 0) tile = min_of(kTile, max_of(1, kGrain / max_of(1, count)));
    }
    tiles = ceil_div(width, tile);
  }
};

template <class Op, class T>
class Reduction {
 public:
  using Total = typename Op::template Total<T>;

  Reduction(const View& out, const View& a, Source<T> source, StoreFn<Total> store)
      : plan_(out, a), out_(out.data), from_(a.data), source_(source), store_(store) {}

  void run() {
    const int64_t units = plan_.outer.size * plan_.tiles;
    const int64_t unit_width = min_of(plan_.width, plan_.tile);
    if (units == 0) return;
    const int64_t total = plan_.outer.size * plan_.width * plan_.count;
    const int64_t wanted = min_of(total / kGrain, kChunkedTasks / units);
    if (wanted > 1 && plan_.count > 1) return run_chunked(units, unit_width, wanted);
    const int64_t grain = max_of(1, kGrain / max_of(1, unit_width * plan_.count));
    parallel_for(units, grain, [&](int64_t begin, int64_t end) {
      Total totals[kTile];
      Cursor<2> at(plan_.outer, begin / plan_.tiles);
      for (int64_t unit = begin; unit < end; ++unit) {
        reduce_unit(totals, at.offset[0], unit % plan_.tiles, 0, plan_.count);
        finish_unit(totals, at.offset[1], unit % plan_.tiles);
        if ((unit + 1) % plan_.tiles == 0) at.next();
      }
    });
  }

 private:
  // Few outputs of many elements: the reduced range is cut into chunks, combined in order.
  void run_chunked(int64_t units, int64_t unit_width, int64_t wanted) {
    const int64_t multiple = plan_.by_columns ? kStretch : kBlock;
    const int64_t length = ceil_div(ceil_div(plan_.count, wanted), multiple) * multiple;
    const int64_t chunks = ceil_div(plan_.count, length);
    Scratch<4096> scratch(chunks * units * unit_width * static_cast<int64_t>(sizeof(Total)));
    Total* const partial = scratch.template as<Total>();
    parallel_for(chunks * units, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t unit = task % units, first = task / units * length;
        const Cursor<2> at(plan_.outer, unit / plan_.tiles);
        reduce_unit(partial + task * unit_width, at.offset[0], unit % plan_.tiles, first,
                    min_of(first + length, plan_.count));
      }
    });
    for (int64_t unit = 0; unit < units; ++unit) {
      Total* const totals = partial + unit * unit_width;
      const int64_t n = tile_width(unit % plan_.tiles);
      for (int64_t chunk = 1; chunk < chunks; ++chunk) {
        const Total* part = totals + chunk * units * unit_width;
        for (int64_t i = 0; i < n; ++i) totals[i] = Op::apply(totals[i], part[i]);
      }
      finish_unit(totals, Cursor<2>(plan_.outer, unit / plan_.tiles).offset[1], unit % plan_.tiles);
    }
  }

  int64_t tile_width(int64_t tile) const {
    return min_of(plan_.tile, plan_.width - tile * plan_.tile);
  }

  void reduce_unit(Total* totals, int64_t offset, int64_t tile, int64_t begin, int64_t end) const {
    const char* const from = from_ + offset + tile * plan_.tile * plan_.steps[0];
    const int64_t n = tile_width(tile);
    for (int64_t i = 0; i < n; ++i) totals[i] = Op::template identity<Total>();
    if (begin == end) return;
    if (plan_.fold > 1) {
      reduce_folded(totals, from + begin * n * plan_.steps[0], n, end - begin);
    } else {
      plan_.by_columns ? reduce_columns(totals, from, n, begin, end)
                       : reduce_rows_of(totals, from, n, begin, end);
    }
  }

  void finish_unit(const Total* totals, int64_t offset, int64_t tile) const {
    char* const to = out_ + offset + tile * plan_.tile * plan_.steps[1];
    store_(to, plan_.steps[1], totals, tile_width(tile));
  }

  // n outputs: elements [begin, end) of the reduced axes, which are rows of plan_.row elements.
  [[gnu::noinline]] void reduce_rows_of(Total* totals, const char* from, int64_t n, int64_t begin,
                                        int64_t end) const {
    const int64_t step = plan_.row_steps[0];
    T buffer[kBlock];
    Cursor<2> row(plan_.reduced, begin / plan_.row);
    for (int64_t first = begin % plan_.row; begin < end; first = 0, row.next()) {
      const int64_t stop = min_of(plan_.row, first + end - begin);
      begin += stop - first;
      for (int64_t i = 0; i < n; ++i) {
        const char* const at = from + row.offset[0] + i * plan_.steps[0];
        for (int64_t column = first; column < stop; column += kBlock) {
          const int64_t length = min_of(kBlock, stop - column);
          const T* const x = source_.tile(at + column * step, step, length, buffer);
          totals[i] = Op::apply(totals[i], static_cast<Total>(reduce_block<Op>(x, length)));
        }
      }
    }
  }

  // n outputs side by side: rows [begin, end) of the reduced axes.
  [[gnu::noinline]] void reduce_columns(Total* totals, const char* from, int64_t n, int64_t begin,
                                        int64_t end) const {
    Cursor<2> row(plan_.reduced, begin);
    add_rows(totals, n, end - begin, [&](T* buffer) {
      const T* x = source_.tile(from + row.offset[0], plan_.steps[0], n, buffer);
      row.next();
      return x;
    });
  }

  // Narrow rows that follow each other in memory: several make one row, and the outputs are brought
  // together at the end.
  void reduce_folded(Total* totals, const char* from, int64_t n, int64_t rows) const {
    const int64_t width = n * plan_.fold, row_bytes = width * plan_.steps[0];
    Total wide[kTile];
    for (int64_t i = 0; i < width; ++i) wide[i] = Op::template identity<Total>();
    add_rows(wide, width, rows / plan_.fold, [&](T* buffer) {
      const T* x = source_.tile(from, plan_.steps[0], width, buffer);
      from += row_bytes;
      return x;
    });
    const int64_t rest = rows % plan_.fold * n;
    add_rows(wide, rest, rest > 0,
             [&](T* buffer) { return source_.tile(from, plan_.steps[0], rest, buffer); });
    for (int64_t i = 0; i < n; ++i) totals[i] = wide[i];
    for (int64_t i = n; i < width; ++i) totals[i % n] = Op::apply(totals[i % n], wide[i]);
  }

  // Adds rows of n elements, each read by next_row(buffer), to totals: a stretch of rows at a time,
  // so that float sums stay accurate.
  template <class NextRow>
  void add_rows(Total* totals, int64_t n, int64_t rows, NextRow&& next_row) const {
    T acc[kTile], buffers[4][kTile];
    while (rows > 0) {
      int64_t stretch = min_of(rows, kStretch);
      rows -= stretch;
      for (int64_t i = 0; i < n; ++i) acc[i] = Op::template identity<T>();
      for (; stretch >= 4; stretch -= 4) {
        const T *x0 = next_row(buffers[0]), *x1 = next_row(buffers[1]);
        const T *x2 = next_row(buffers[2]), *x3 = next_row(buffers[3]);
        reduce_rows<Op>(acc, x0, x1, x2, x3, n);
      }
      for (; stretch > 0; --stretch) reduce_row<Op>(acc, next_row(buffers[0]), n);
      for (int64_t i = 0; i < n; ++i) {
        totals[i] = Op::apply(totals[i], static_cast<Total>(acc[i]));
      }
    }
  }

  Plan plan_;
  char* out_;
  const char* from_;
  Source<T> source_;
  StoreFn<Total> store_;
};

template <class Op, class T, class As>
void reduce_as(const View& out, const View& a) {
  using Total = typename Op::template Total<T>;
  Reduction<Op, T>(out, a, source_of<T, As>(a.dtype), store_of<Total>(out.dtype)).run();
}

template <class Op>
void reduce_truth(const View& out, const View& a) {
  reduce_as<Op, uint8_t, bool_t>(out, a);
}

// a is cast to out's type. All but sums of floats are taken in double, where products neither
// overflow nor underflow half-way.
template <class Op>
void reduce_total(const View& out, const View& a) {
  if (out.dtype == DType::b8) {
    using Truth = std::conditional_t<is_same<Op, Prod>, Min, Op>;
    return reduce_truth<std::conditional_t<is_same<Op, Sum>, Max, Truth>>(out, a);
  }
  with_compute_type(out.dtype, [&](auto tag) {
    using As = typename decltype(tag)::type;
    if constexpr (!is_same<Op, Sum> && is_floating<As>) {
      reduce_as<Op, double, double>(out, a);
    } else {
      reduce_as<Op, Wrapping<As>, As>(out, a);
    }
  });
}

template <class Op>
void reduce_extreme(const View& out, const View& a) {
  if (a.dtype == DType::b8) return reduce_truth<Op>(out, a);
  with_compute_type(a.dtype, [&](auto tag) {
    using As = typename decltype(tag)::type;
    reduce_as<Op, As, As>(out, a);
  });
}

}  // namespace

void reduce(ReduceOp op, const View& out, const View& a) {
  switch (op) {
#define REDUCTION(name, kind, ...) \
  case ReduceOp::name: return reduce_##kind<ReductionOf<ReduceOp::name>>(out, a);
#include "common/reduce.def"
  }
}

}  // namespace needle::NEEDLE_ISA
