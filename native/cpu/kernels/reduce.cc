// Reductions over any set of axes, argmax/argmin and cumulative sums along one.
//
// Axes are sorted by how far a steps along them. When the innermost one is reduced, an output is
// the reduction of *rows*; when it is kept, a tile of neighbouring outputs takes *columns*
// together. Work is cut by shape alone, so results do not depend on the number of threads.

#include "entries.h"
#include "reduce_ops.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int64_t kTile = 512;         // outputs that the column form takes together
constexpr int64_t kStretch = 128;      // rows that it adds up in float, then in double
constexpr int64_t kShortRow = 16;      // rows shorter than this are taken as columns
constexpr int64_t kGrain = 1 << 14;    // elements worth a task
constexpr int64_t kChunkedTasks = 64;  // tasks to aim for when there are few outputs

// The axes of a for which `wanted` holds, by falling stride (broadcast axes first), with `other`'s.
template <class Wanted>
Nest<2> sorted_axes(const View& a, const View& other, Wanted&& wanted) {
  int axes[kMaxDims], count = 0;
  const auto distance = [&](int axis) {
    const int64_t stride = a.strides[axis];
    return stride == 0 ? INT64_MAX : length_of(stride);
  };
  for (int axis = 0; axis < a.ndim; ++axis) {
    if (!wanted(axis)) continue;
    int at = count++;
    for (; at > 0 && distance(axes[at - 1]) < distance(axis); --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  Nest<2> nest;
  for (int i = 0; i < count; ++i) {
    const int axis = axes[i];
    // Nothing moves along an axis of one element, so that such axes join.
    const int64_t along = other.shape[axis] == 1 ? 0 : byte_stride(other, axis);
    nest.push(a.shape[axis], {byte_stride(a, axis), along});
  }
  return nest;
}

// Whether neighbouring outputs are nearer in memory than the elements that one of them reduces.
bool prefers_columns(const Nest<2>& kept, int64_t reduced, int64_t reduced_stride) {
  if (kept.ndim == 0) return false;
  const int64_t kept_stride = length_of(kept.strides[kept.ndim - 1][0]);
  const bool short_rows = reduced < kShortRow && kept.shape[kept.ndim - 1] >= kShortRow;
  return short_rows || kept_stride < length_of(reduced_stride);
}

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

template <class Op, class T, class As, class Out>
void reduce_as(const View& out, const View& a) {
  using Total = typename Op::template Total<T>;
  Reduction<Op, T>(out, a, source_of<T, As>(a.dtype), store_tile<Out, Total>).run();
}

template <class Op>
void reduce_truth(const View& out, const View& a) {
  reduce_as<Op, uint8_t, bool_t, bool_t>(out, a);
}

// sum and prod: a is cast to out's type. Products of floats are taken in double, where they
// neither overflow nor underflow half-way.
template <class Op>
void accumulate(const View& out, const View& a) {
  with_dtype(out.dtype, [&](auto tag) {
    using Out = typename decltype(tag)::type;
    if constexpr (is_same<Out, bool_t>) {
      is_same<Op, Sum> ? reduce_truth<Max>(out, a) : reduce_truth<Min>(out, a);
    } else if constexpr (is_same<Op, Prod> && is_floating<Compute<Out>>) {
      reduce_as<Op, double, double, Out>(out, a);
    } else {
      reduce_as<Op, Wrapping<Compute<Out>>, Compute<Out>, Out>(out, a);
    }
  });
}

template <class Op>
void find_extreme(const View& out, const View& a) {
  with_dtype(a.dtype, [&](auto tag) {
    using Out = typename decltype(tag)::type;
    if constexpr (is_same<Out, bool_t>) {
      reduce_truth<Op>(out, a);
    } else {
      reduce_as<Op, Compute<Out>, Compute<Out>, Out>(out, a);
    }
  });
}

// One axis of a, and the walk over all others (strides of a and of out). Outputs come one by one,
// or in tiles of up to kTile along the innermost of the other axes.
struct AxisWalk {
  Nest<2> outer;
  int64_t n;          // the length of the axis
  int64_t axis[2];    // strides along it
  int64_t width = 1;  // outputs along the innermost of the other axes, when taken in tiles
  int64_t steps[2] = {};
  bool by_columns;

  [[gnu::noinline]] AxisWalk(const View& out, const View& a, int along) : n(a.shape[along]) {
    axis[0] = byte_stride(a, along);
    axis[1] = byte_stride(out, along);
    outer = sorted_axes(a, out, [&](int other) { return other != along; });
    by_columns = prefers_columns(outer, n, axis[0]);
    if (by_columns) width = outer.pop(steps);
  }

  // Calls body(offset in a, offset in out, number of outputs) for each tile of outputs.
  template <class F>
  void for_each_tile(F&& body) const {
    const int64_t tiles = ceil_div(width, kTile), units = outer.size * tiles;
    const int64_t grain = max_of(1, kGrain / max_of(1, n * min_of(width, kTile)));
    parallel_for(units, grain, [&](int64_t begin, int64_t end) {
      Cursor<2> at(outer, begin / tiles);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % tiles * kTile;
        body(at.offset[0] + first * steps[0], at.offset[1] + first * steps[1],
             min_of(kTile, width - first));
        if ((unit + 1) % tiles == 0) at.next();
      }
    });
  }
};

template <class T>
struct Best {
  T value;
  int64_t index;
};

// NaN beats everything but an earlier NaN.
template <class Op, class T>
[[gnu::always_inline]] inline bool beats(T challenger, T best) {
  return Op::is_better(challenger, best) | ((challenger != challenger) & (best == best));
}

// The first place of a value that is among x, where NaN equals NaN; 64 elements at a time first.
template <class T>
int64_t first_of(const T* x, int64_t n, T value) {
  const auto is_it = [value](T element) {
    return (element == value) | ((element != element) & (value != value));
  };
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    T found = 0;
    for (int64_t j = 0; j < 64; ++j) found = is_it(x[i + j]) ? T{1} : found;
    if (found != 0) break;
  }
  while (!is_it(x[i])) ++i;
  return i;
}

// The best of elements [begin, end) of a row: the first best block, then the place in it.
template <class Op, class T>
Best<T> best_of_row(const Source<T>& source, const char* from, int64_t stride, int64_t begin,
                    int64_t end) {
  T buffer[kBlock];
  const auto block = [&](int64_t start) {
    return source.tile(from + start * stride, stride, min_of(kBlock, end - start), buffer);
  };
  Best<T> best = {reduce_block<Op>(block(begin), min_of(kBlock, end - begin)), begin};
  for (int64_t start = begin + kBlock; start < end; start += kBlock) {
    const T value = reduce_block<Op>(block(start), min_of(kBlock, end - start));
    if (beats<Op>(value, best.value)) best = {value, start};
  }
  best.index += first_of(block(best.index), min_of(kBlock, end - best.index), best.value);
  return best;
}

template <class Op, class T>
void best_of_columns(const AxisWalk& walk, const Source<T>& source, const char* from, char* to,
                     int64_t n) {
  T best[kTile], buffer[kTile];
  int64_t index[kTile];
  const T* x = source.tile(from, walk.steps[0], n, buffer);
  for (int64_t i = 0; i < n; ++i) {
    best[i] = x[i];
    index[i] = 0;
  }
  for_each_stretch(walk.n, [&](int64_t begin, int64_t end) {
    for (int64_t row = max_of(1, begin); row < end; ++row) {
      x = source.tile(from + row * walk.axis[0], walk.steps[0], n, buffer);
      for (int64_t i = 0; i < n; ++i) {
        const bool wins = beats<Op>(x[i], best[i]);
        best[i] = wins ? x[i] : best[i];
        index[i] = wins ? row : index[i];
      }
    }
  });
  store_tile<int64_t>(to, walk.steps[1], index, n);
}

// One long row: chunks of fixed length, compared in order.
template <class Op, class T>
int64_t best_of_long_row(const Source<T>& source, const char* from, int64_t stride, int64_t n) {
  const int64_t length = max_of(kGrain, ceil_div(ceil_div(n, kChunkedTasks), kBlock) * kBlock);
  Best<T> bests[kChunkedTasks];
  parallel_for(ceil_div(n, length), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bests[i] = best_of_row<Op>(source, from, stride, i * length, min_of(n, (i + 1) * length));
    }
  });
  Best<T> best = bests[0];
  for (int64_t i = 1; i < ceil_div(n, length); ++i) {
    if (beats<Op>(bests[i].value, best.value)) best = bests[i];
  }
  return best.index;
}

template <class Op, class T>
void arg_reduce_as(const View& out, const View& a, int axis, const Source<T>& source) {
  const AxisWalk walk(out, a, axis);
  if (!walk.by_columns && walk.outer.size == 1) {
    *reinterpret_cast<int64_t*>(out.data) =
        best_of_long_row<Op>(source, a.data, walk.axis[0], walk.n);
    return;
  }
  walk.for_each_tile([&](int64_t from, int64_t to, int64_t n) {
    if (walk.by_columns) {
      best_of_columns<Op>(walk, source, a.data + from, out.data + to, n);
    } else {
      *reinterpret_cast<int64_t*>(out.data + to) =
          best_of_row<Op>(source, a.data + from, walk.axis[0], 0, walk.n).index;
    }
  });
}

template <class Op>
void arg_reduce_with(const View& out, const View& a, int axis) {
  with_dtype(a.dtype, [&](auto tag) {
    using T = Compute<typename decltype(tag)::type>;
    arg_reduce_as<Op, T>(out, a, axis, source_of<T, T>(a.dtype));
  });
}

// Running totals of n neighbouring outputs, a row of them at a time.
template <class Op, class Out, class T>
void scan_columns(const AxisWalk& walk, const Source<T>& source, const char* from, char* to,
                  int64_t n) {
  T acc[kTile], buffer[kTile];
  for (int64_t i = 0; i < n; ++i) acc[i] = Op::template identity<T>();
  for_each_stretch(walk.n, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const char* const x = from + row * walk.axis[0];
      reduce_row<Op>(acc, source.tile(x, walk.steps[0], n, buffer), n);
      store_tile<Out>(to + row * walk.axis[1], walk.steps[1], acc, n);
    }
  });
}

template <class Op, class Out, class T>
void scan_row(const AxisWalk& walk, const Source<T>& source, const char* from, char* to) {
  T acc[kTile], buffer[kTile];
  T total = Op::template identity<T>();
  for_each_stretch(walk.n, [&](int64_t begin, int64_t end) {
    for (int64_t start = begin; start < end; start += kTile) {
      const int64_t count = min_of(kTile, end - start);
      const T* const x = source.tile(from + start * walk.axis[0], walk.axis[0], count, buffer);
      for (int64_t i = 0; i < count; ++i) acc[i] = total = Op::apply(total, x[i]);
      store_tile<Out>(to + start * walk.axis[1], walk.axis[1], acc, count);
    }
  });
}

template <class Op, class T, class As, class Out>
void scan_as(const View& out, const View& a, int axis) {
  const AxisWalk walk(out, a, axis);
  const Source<T> source = source_of<T, As>(a.dtype);
  walk.for_each_tile([&](int64_t from, int64_t to, int64_t n) {
    if (walk.by_columns) {
      scan_columns<Op, Out>(walk, source, a.data + from, out.data + to, n);
    } else {
      scan_row<Op, Out>(walk, source, a.data + from, out.data + to);
    }
  });
}

// Floats accumulate in double, integers wrap around, bool sums are "any" and products "all".
template <class Op>
void scan_with(const View& out, const View& a, int axis) {
  with_dtype(out.dtype, [&](auto tag) {
    using Out = typename decltype(tag)::type;
    if constexpr (is_same<Out, bool_t>) {
      using Truth = std::conditional_t<is_same<Op, Sum>, Max, Min>;
      scan_as<Truth, uint8_t, bool_t, bool_t>(out, a, axis);
    } else if constexpr (is_floating<Compute<Out>>) {
      scan_as<Op, double, double, Out>(out, a, axis);
    } else {
      scan_as<Op, Wrapping<Compute<Out>>, Compute<Out>, Out>(out, a, axis);
    }
  });
}

}  // namespace

void reduce(ReduceOp op, const View& out, const View& a) {
  switch (op) {
    case ReduceOp::sum: return accumulate<Sum>(out, a);
    case ReduceOp::prod: return accumulate<Prod>(out, a);
    case ReduceOp::max: return find_extreme<Max>(out, a);
    case ReduceOp::min: return find_extreme<Min>(out, a);
    case ReduceOp::any: return reduce_truth<Max>(out, a);
    case ReduceOp::all: return reduce_truth<Min>(out, a);
  }
}

void arg_reduce(ArgOp op, const View& out, const View& a, int axis) {
  if (out.size() == 0) return;
  op == ArgOp::argmax ? arg_reduce_with<Max>(out, a, axis) : arg_reduce_with<Min>(out, a, axis);
}

void scan(ScanOp op, const View& out, const View& a, int axis) {
  if (out.size() == 0) return;
  op == ScanOp::cumsum ? scan_with<Sum>(out, a, axis) : scan_with<Prod>(out, a, axis);
}

}  // namespace NEEDLE_ISA
}  // namespace needle
