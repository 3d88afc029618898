// gather and scatter by integer index arrays. Positions j run over the index arrays, in C order;
// each names a place along the indexed axes, from which the *rest* of the axes is moved.

#include "kernels/alias.h"
#include "kernels/entries.h"
#include "kernels/tiles.h"
#include "sort_entries.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements worth a task
// Positions resolved at once: 50 of each row of 1000 x 1000 floats, one thread, take 79 us with 256
// of them, and 72 so.
constexpr int64_t kBlock = 1024;

// One index array: where its values lie, and what a step along the indexed axis is worth.
struct Index {
  const char* data;
  Nest<1> nest;
  Nest<1> distinct;  // without the axes along which it is broadcast
  int64_t size, stride;
};

// The index arrays of a call, and the axes they index in `indexed`.
class Positions {
 public:
  Positions(const View& indexed, const View* indices, int count) : count_(count) {
    for (int k = 0; k < count; ++k) {
      Index& index = indices_[k];
      index.data = indices[k].data;
      for (int axis = 0; axis < indices[k].ndim; ++axis) {
        const int64_t n = indices[k].shape[axis], stride = byte_stride(indices[k], axis);
        index.nest.push(n, {stride});
        if (stride != 0) index.distinct.push(n, {stride});
      }
      index.size = indexed.shape[k];
      index.stride = byte_stride(indexed, k);
    }
    size_ = indices_[0].nest.size;
  }

  int64_t size() const { return size_; }

  // Throws for the first index outside its axis, also when it is broadcast to no positions at all.
  void check() const {
    for (int k = 0; k < count_; ++k) {
      bool is_bad = false;
      parallel_for(indices_[k].distinct.size, kGrain, [&](int64_t begin, int64_t end) {
        if (has_bad(indices_[k], begin, end)) __atomic_store_n(&is_bad, true, __ATOMIC_RELAXED);
      });
      if (is_bad) throw_first_bad(k);
    }
  }

  // offsets[i] = the byte offset in the indexed array of position begin + i. Another thread may
  // have written to an index array since check(): what is outside now means place 0.
  void resolve(int64_t* offsets, int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < end - begin; ++i) offsets[i] = 0;
    for (int k = 0; k < count_; ++k) {
      const Index& index = indices_[k];
      for_each_run(index.nest, begin, end, [&](auto& at, auto& strides, int64_t j, int64_t n) {
        add_places(offsets + (j - begin), {index.data + at[0], strides[0], n}, index.size,
                   index.stride);
      });
    }
  }

 private:
  // Values of an index array that lie in a line.
  struct Line {
    const char* data;
    int64_t stride, size;

    int64_t operator[](int64_t i) const {
      return *reinterpret_cast<const int64_t*>(data + i * stride);
    }
  };

  // Calls body with the line; in a copy of the code for lines without gaps, which vectorises.
  template <class F>
  static void with_line(Line line, F&& body) {
    constexpr int64_t kSize = sizeof(int64_t);
    if (line.stride == kSize) return body(Line{line.data, kSize, line.size});
    body(line);
  }

  // The byte offset of an index, whatever it is: what is outside means place 0.
  NEEDLE_INLINE static int64_t offset_of(int64_t value, int64_t size, int64_t stride) {
    const int64_t place = value + (size & -(value < 0));
    const bool is_inside = static_cast<uint64_t>(place) < static_cast<uint64_t>(size);
    return (place * stride) & -int64_t{is_inside};
  }

  // These take what they need by value: the loops of has_bad and resolve, 4 times as fast as with
  // sizes that any store might change.
  static void add_places(int64_t* __restrict offsets, Line all, int64_t size, int64_t stride) {
    if (all.stride == 0) {
      const int64_t offset = offset_of(all[0], size, stride);
      for (int64_t i = 0; i < all.size; ++i) offsets[i] += offset;
      return;
    }
    with_line(all, [=](Line line) NEEDLE_INLINE_LAMBDA {
      for (int64_t i = 0; i < line.size; ++i) offsets[i] += offset_of(line[i], size, stride);
    });
  }

  static bool any_outside(Line all, int64_t size) {
    bool found = false;
    with_line(all, [&found, size](Line line) NEEDLE_INLINE_LAMBDA {
      int64_t outside = 0;
      for (int64_t i = 0; i < line.size; ++i) outside |= is_outside(line[i], size) ? 1 : 0;
      found = outside != 0;
    });
    return found;
  }

  static bool is_outside(int64_t value, int64_t size) { return (value < -size) | (value >= size); }

  static bool has_bad(const Index& index, int64_t begin, int64_t end) {
    bool found = false;
    for_each_run(index.distinct, begin, end, [&](auto& at, auto& strides, int64_t, int64_t n) {
      found |= any_outside({index.data + at[0], strides[0], n}, index.size);
    });
    return found;
  }

  void throw_first_bad(int k) const {
    const Index& index = indices_[k];
    const int64_t count = index.distinct.size;
    for_each_run(index.distinct, 0, count, [&](auto& at, auto& strides, int64_t, int64_t n) {
      const Line line{index.data + at[0], strides[0], n};
      for (int64_t i = 0; i < n; ++i) {
        if (is_outside(line[i], index.size)) throw_index_error(k, line[i], index.size);
      }
    });
  }

  int count_;
  int64_t size_;
  Index indices_[kMaxDims];
};

// The axes after the index arrays' (of the array that is moved) and after the indexed ones.
Nest<2> rest_axes(const View& moved, const View& indexed, int n_indices) {
  Nest<2> rest;
  const int shift = moved.ndim - (indexed.ndim - n_indices) - n_indices;
  for (int axis = n_indices; axis < indexed.ndim; ++axis) {
    rest.push(indexed.shape[axis], {byte_stride(moved, axis + shift), byte_stride(indexed, axis)});
  }
  return rest;
}

Nest<1> leading_axes(const View& moved, int count) {
  Nest<1> nest;
  for (int axis = 0; axis < count; ++axis) nest.push(moved.shape[axis], {byte_stride(moved, axis)});
  return nest;
}

template <class F>
void with_item_size(int size, F&& body) {
  switch (size) {
    case 1: return body(Tag<uint8_t>{});
    case 2: return body(Tag<uint16_t>{});
    case 4: return body(Tag<uint32_t>{});
    default: return body(Tag<uint64_t>{});
  }
}

// What is done with each element that meets its place: To is written, From is read.
template <class E>
struct Assign {
  NEEDLE_INLINE static void apply(E* to, const E* from) { *to = *from; }
};

template <class E>
struct Add {
  NEEDLE_INLINE static void apply(E* to, const E* from) {
    if constexpr (is_same<E, bool_t>) {
      to->byte |= from->byte;
    } else {
      using T = Wrapping<Compute<E>>;
      *to = static_cast<E>(static_cast<T>(*to) + static_cast<T>(*from));
    }
  }
};

template <class E, class Action>
NEEDLE_INLINE void apply_run(char* to, int64_t to_stride, const char* from, int64_t from_stride,
                             int64_t n) {
  constexpr int64_t kSize = sizeof(E);
  if (to_stride == kSize && from_stride == kSize) {
    E* const x = reinterpret_cast<E*>(to);
    const E* const y = reinterpret_cast<const E*>(from);
    for (int64_t i = 0; i < n; ++i) Action::apply(x + i, y + i);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    Action::apply(reinterpret_cast<E*>(to + i * to_stride),
                  reinterpret_cast<const E*>(from + i * from_stride));
  }
}

// Elements [begin, end) of the rest, of one position; operand To of the nest is written.
template <class E, class Action, int To>
void move_rest(const Nest<2>& rest, char* to, const char* from, int64_t begin, int64_t end) {
  if (rest.ndim <= 1) {
    const int64_t to_stride = rest.ndim == 0 ? 0 : rest.strides[0][To];
    const int64_t from_stride = rest.ndim == 0 ? 0 : rest.strides[0][1 - To];
    return apply_run<E, Action>(to + begin * to_stride, to_stride, from + begin * from_stride,
                                from_stride, end - begin);
  }
  for_each_run(rest, begin, end, [&](auto& at, auto& strides, int64_t, int64_t n) {
    apply_run<E, Action>(to + at[To], strides[To], from + at[1 - To], strides[1 - To], n);
  });
}

// Calls body(offset in moved, offset in indexed) for positions [begin, end), in order.
template <class F>
void for_each_position(const Positions& positions, const Nest<1>& leading, int64_t begin,
                       int64_t end, F&& body) {
  int64_t offsets[kBlock];
  for (const int64_t first = begin; begin < end; begin += kBlock) {
    if (begin > first) check_interrupt();
    const int64_t stop = min_of(end, begin + kBlock);
    positions.resolve(offsets, begin, stop);
    for_each_run(leading, begin, stop, [&](auto& at, auto& strides, int64_t j, int64_t n) {
      const int64_t* const resolved = offsets + (j - begin);
      for (int64_t i = 0; i < n; ++i) body(at[0] + i * strides[0], resolved[i]);
    });
  }
}

// Positions are independent: tasks take ranges of them, or pieces of the rest when it is long.
template <class E>
void gather_items(const View& out, const View& a, const Positions& positions,
                  const Nest<1>& leading, const Nest<2>& rest) {
  const int64_t piece = min_of(rest.size, kGrain), pieces = ceil_div(rest.size, piece);
  const int64_t grain = pieces > 1 ? 1 : max_of(1, kGrain / piece);
  parallel_for(positions.size() * pieces, grain, [&](int64_t begin, int64_t end) {
    if (rest.ndim == 0) {  // single elements
      char* const to_data = out.data;
      const char* const from_data = a.data;
      return for_each_position(positions, leading, begin, end, [=](int64_t to, int64_t from) {
        Assign<E>::apply(reinterpret_cast<E*>(to_data + to),
                         reinterpret_cast<const E*>(from_data + from));
      });
    }
    const int64_t first = pieces > 1 ? begin % pieces * piece : 0;
    const int64_t last = min_of(rest.size, first + piece);
    const auto move = [&](int64_t to, int64_t from) {
      move_rest<E, Assign<E>, 0>(rest, out.data + to, a.data + from, first, last);
    };
    if (pieces == 1) return for_each_position(positions, leading, begin, end, move);
    for_each_position(positions, leading, begin / pieces, begin / pieces + 1, move);
  });
}

// Tasks own pieces of the rest, and meet all positions in order.
template <class E, class Action>
void scatter_items(const View& out, const View& a, const Positions& positions,
                   const Nest<1>& leading, const Nest<2>& rest) {
  constexpr int64_t kMinPiece = 1024 / sizeof(E), kMaxPieces = 16;
  const bool is_big = positions.size() * rest.size > kGrain;
  const int64_t piece = is_big ? max_of(kMinPiece, ceil_div(rest.size, kMaxPieces)) : rest.size;
  parallel_for(ceil_div(rest.size, piece), 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * piece, last = min_of(rest.size, end * piece);
    for_each_position(positions, leading, 0, positions.size(), [&](int64_t from, int64_t to) {
      move_rest<E, Action, 1>(rest, out.data + to, a.data + from, first, last);
    });
  });
}

// to[i] += source(j)[i] for j in [begin, end), n elements, rounded once.
template <class E, class F>
void add_up_halves(char* to, int64_t to_stride, F&& source, int64_t stride, int64_t begin,
                   int64_t end, int64_t n) {
  float sums[kBlock], row[kBlock];
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t width = min_of(kBlock, n - start);
    load_tile<float, float, E>(sums, to + start * to_stride, to_stride, width);
    for (int64_t j = begin; j < end; ++j) {
      load_tile<float, float, E>(row, source(j) + start * stride, stride, width);
      for (int64_t i = 0; i < width; ++i) sums[i] += row[i];
    }
    store_tile<E>(to + start * to_stride, to_stride, sums, width);
  }
}

// Half types add up in float and round once: positions are brought together by their place (the
// sort is stable, so each place still meets them in order), and tasks own places.
template <class E>
void scatter_add_halves(const View& out, const View& a, const Positions& positions,
                        const Nest<1>& leading, const Nest<2>& rest) {
  const int64_t count = positions.size();
  Scratch<16384> scratch(3 * count * static_cast<int64_t>(sizeof(Entry<uint64_t>)));
  Entry<uint64_t>* const entries = scratch.template as<Entry<uint64_t>>();
  int64_t* const sources = reinterpret_cast<int64_t*>(entries + 2 * count);
  int64_t* next = sources;
  Entry<uint64_t>* entry = entries;
  for_each_position(positions, leading, 0, count, [&](int64_t from, int64_t to) {
    *entry = {key_of(to), static_cast<uint64_t>(entry - entries)};
    ++entry;
    *next++ = from;
  });
  const Entry<uint64_t>* const sorted = sort_entries(entries, entries + count, count);
  parallel_for(count, max_of(1, kGrain / rest.size), [&](int64_t begin, int64_t end) {
    // A place belongs to the task in which its first position falls.
    while (begin > 0 && begin < end && sorted[begin].key == sorted[begin - 1].key) ++begin;
    while (begin < end) {
      int64_t stop = begin + 1;
      while (stop < count && sorted[stop].key == sorted[begin].key) ++stop;
      char* const to = out.data + static_cast<int64_t>(sorted[begin].key ^ (uint64_t{1} << 63));
      for_each_run(rest, 0, rest.size, [&](auto& at, auto& strides, int64_t, int64_t n) {
        const auto source = [&](int64_t j) { return a.data + sources[sorted[j].index] + at[0]; };
        add_up_halves<E>(to + at[1], strides[1], source, strides[0], begin, stop, n);
      });
      begin = stop;
    }
  });
}

}  // namespace

void gather(const View& out, const View& a, const View* indices, int n_indices) {
  const Positions positions(a, indices, n_indices);
  positions.check();
  if (out.size() == 0) return;
  const Unaliased from(a, out);
  const Positions resolved(from.view(), indices, n_indices);
  const int leading = out.ndim - (a.ndim - n_indices);
  with_item_size(item_size(out.dtype), [&](auto tag) {
    gather_items<typename decltype(tag)::type>(out, from.view(), resolved,
                                               leading_axes(out, leading),
                                               rest_axes(out, from.view(), n_indices));
  });
}

void scatter(ScatterOp op, const View& out, const View* indices, int n_indices, const View& a) {
  Positions(out, indices, n_indices).check();
  if (a.size() == 0) return;
  for (int k = 0; k < n_indices; ++k) {
    if (indices[k].data != out.data) continue;
    View copies[kMaxDims];
    for (int other = 0; other < n_indices; ++other) copies[other] = indices[other];
    const Unaliased apart(indices[k], out);
    copies[k] = apart.view();
    return scatter(op, out, copies, n_indices, a);
  }
  const Unaliased from(a, out);
  const Positions positions(out, indices, n_indices);
  const Nest<1> leading = leading_axes(from.view(), a.ndim - (out.ndim - n_indices));
  const Nest<2> rest = rest_axes(from.view(), out, n_indices);
  if (op == ScatterOp::set) {
    return with_item_size(item_size(out.dtype), [&](auto tag) {
      using E = typename decltype(tag)::type;
      scatter_items<E, Assign<E>>(out, from.view(), positions, leading, rest);
    });
  }
  with_dtype(out.dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    if constexpr (is_half<E>) {
      scatter_add_halves<E>(out, from.view(), positions, leading, rest);
    } else {
      scatter_items<E, Add<E>>(out, from.view(), positions, leading, rest);
    }
  });
}

}  // namespace needle::NEEDLE_ISA
