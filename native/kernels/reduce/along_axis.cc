// Along one axis: argmax and argmin, cumulative sums and products.

#include "kernels/entries.h"
#include "kernels/tiles.h"
#include "reduce_axes.h"
#include "reductions.h"

namespace needle::NEEDLE_ISA {
namespace {

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
NEEDLE_INLINE bool beats(T challenger, T best) {
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

// A function of its own, where it is known that nothing overlaps: argmax of 256 x 384 takes 16 us,
// otherwise 26.
template <class Op, class T>
[[gnu::noinline]] void beat_row(T* __restrict best, int64_t* __restrict index,
                                const T* __restrict x, int64_t n, int64_t row) {
  for (int64_t i = 0; i < n; ++i) {
    const bool wins = beats<Op>(x[i], best[i]);
    best[i] = wins ? x[i] : best[i];
    index[i] = wins ? row : index[i];
  }
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
      beat_row<Op>(best, index, x, n, row);
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
  with_compute_type(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    arg_reduce_as<Op, T>(out, a, axis, source_of<T, T>(a.dtype));
  });
}

// Running totals of n neighbouring outputs, a row of them at a time.
template <class Op, class T>
void scan_columns(const AxisWalk& walk, const Source<T>& source, StoreFn<T> store, const char* from,
                  char* to, int64_t n) {
  T acc[kTile], buffer[kTile];
  for (int64_t i = 0; i < n; ++i) acc[i] = Op::template identity<T>();
  for_each_stretch(walk.n, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const char* const x = from + row * walk.axis[0];
      reduce_row<Op>(acc, source.tile(x, walk.steps[0], n, buffer), n);
      store(to + row * walk.axis[1], walk.steps[1], acc, n);
    }
  });
}

// A function of its own, as compilers keep a total that outlives the calls around it in memory.
template <class Op, class T>
[[gnu::noinline]] T scan_run(T* to, const T* x, int64_t n, T total) {
  for (int64_t i = 0; i < n; ++i) to[i] = total = Op::apply(total, x[i]);
  return total;
}

template <class Op, class T>
void scan_row(const AxisWalk& walk, const Source<T>& source, StoreFn<T> store, const char* from,
              char* to) {
  T acc[kTile], buffer[kTile];
  T total = Op::template identity<T>();
  for_each_stretch(walk.n, [&](int64_t begin, int64_t end) {
    for (int64_t start = begin; start < end; start += kTile) {
      const int64_t count = min_of(kTile, end - start);
      const T* const x = source.tile(from + start * walk.axis[0], walk.axis[0], count, buffer);
      total = scan_run<Op>(acc, x, count, total);
      store(to + start * walk.axis[1], walk.axis[1], acc, count);
    }
  });
}

template <class Op, class T, class As>
void scan_as(const View& out, const View& a, int axis) {
  const AxisWalk walk(out, a, axis);
  const Source<T> source = source_of<T, As>(a.dtype);
  const StoreFn<T> store = store_of<T>(out.dtype);
  walk.for_each_tile([&](int64_t from, int64_t to, int64_t n) {
    if (walk.by_columns) {
      scan_columns<Op>(walk, source, store, a.data + from, out.data + to, n);
    } else {
      scan_row<Op>(walk, source, store, a.data + from, out.data + to);
    }
  });
}

// Floats accumulate in double, integers wrap around, bool sums are "any" and products "all".
template <class Op>
void scan_with(const View& out, const View& a, int axis) {
  if (out.dtype == DType::b8) {
    using Truth = std::conditional_t<is_same<Op, Sum>, Max, Min>;
    return scan_as<Truth, uint8_t, bool_t>(out, a, axis);
  }
  with_compute_type(out.dtype, [&](auto tag) {
    using As = typename decltype(tag)::type;
    if constexpr (is_floating<As>) {
      scan_as<Op, double, double>(out, a, axis);
    } else {
      scan_as<Op, Wrapping<As>, As>(out, a, axis);
    }
  });
}

}  // namespace

void arg_reduce(ArgOp op, const View& out, const View& a, int axis) {
  if (out.size() == 0) return;
  op == ArgOp::argmax ? arg_reduce_with<Max>(out, a, axis) : arg_reduce_with<Min>(out, a, axis);
}

void scan(ScanOp op, const View& out, const View& a, int axis) {
  if (out.size() == 0) return;
  op == ScanOp::cumsum ? scan_with<Sum>(out, a, axis) : scan_with<Prod>(out, a, axis);
}

}  // namespace needle::NEEDLE_ISA
