// Order: argsort, searchsorted, and the positions of true elements.

#include "kernels/entries.h"
#include "sort_entries.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kGrain = 1 << 12;  // elements worth a task
constexpr int64_t kTile = 512;

// The first `count` of a row in the wanted order. Candidates are collected in a list of twice as
// many; whenever it is full, it is sorted, and its second half dropped: what comes later has to be
// before the last one that was kept. With count = n this is one sort.
template <class T, class Key>
class RowOrder {
 public:
  RowOrder(int64_t n, int64_t count, Key flip)
      : count_(count),
        room_(min_of(n, 2 * count)),
        flip_(flip),
        scratch_(2 * room_ * static_cast<int64_t>(sizeof(Entry<Key>))),
        entries_(scratch_.template as<Entry<Key>>()) {}

  void add(const T* x, int64_t n, int64_t first) {
    for (int64_t i = 0; i < n; ++i) {
      const Key key = key_of(x[i]) ^ flip_;
      if (is_bounded_ && key >= bound_) continue;
      if (size_ == room_) keep_best();
      if (!is_bounded_ || key < bound_) entries_[size_++] = {key, static_cast<Key>(first + i)};
    }
  }

  void write(char* to, int64_t stride) {
    const Entry<Key>* const sorted = sort_entries(entries_, entries_ + room_, size_);
    for (int64_t i = 0; i < count_; ++i) {
      *reinterpret_cast<int64_t*>(to + i * stride) = static_cast<int64_t>(sorted[i].index);
    }
  }

 private:
  void keep_best() {
    const Entry<Key>* const sorted = sort_entries(entries_, entries_ + room_, size_);
    for (int64_t i = 0; i < count_; ++i) entries_[i] = sorted[i];
    size_ = count_;
    bound_ = entries_[count_ - 1].key;
    is_bounded_ = true;
  }

  const int64_t count_, room_;
  const Key flip_;
  Scratch<16384> scratch_;
  Entry<Key>* const entries_;
  int64_t size_ = 0;
  bool is_bounded_ = false;
  Key bound_{};
};

// Apart from the walk over rows, whose variables would take its registers.
template <class T, class Key>
[[gnu::noinline]] void argsort_row(const Source<T>& source, const char* from, int64_t stride,
                                   int64_t n, char* to, int64_t out_stride, int64_t count,
                                   Key flip) {
  RowOrder<T, Key> order(n, count, flip);
  T buffer[kTile];
  for (int64_t start = 0; start < n; start += kTile) {
    const int64_t width = min_of(kTile, n - start);
    order.add(source.tile(from + start * stride, stride, width, buffer), width, start);
  }
  order.write(to, out_stride);
}

template <class T>
void argsort_rows(const View& out, const View& a, int axis, bool descending) {
  using Key = decltype(key_of(T{}));
  const Key flip = descending ? ~Key{0} : Key{0};
  const Source<T> source = source_of<T, T>(a.dtype);
  Nest<2> rows;
  for (int other = 0; other < a.ndim; ++other) {
    if (other != axis) rows.push(a.shape[other], {byte_stride(a, other), byte_stride(out, other)});
  }
  const int64_t n = a.shape[axis];
  parallel_for(rows.size, max_of(1, kGrain / n), [&](int64_t begin, int64_t end) {
    Cursor<2> at(rows, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      argsort_row(source, a.data + at.offset[0], byte_stride(a, axis), n, out.data + at.offset[1],
                  byte_stride(out, axis), out.shape[axis], flip);
    }
  });
}

// How many of n sorted elements lie before the value: those below it, or not above it (right).
template <class E, class Key>
int64_t rank_of(Key value, const char* sorted, int64_t stride, int64_t n, bool right) {
  int64_t first = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const E element = *reinterpret_cast<const E*>(sorted + (first + half) * stride);
    const Key key = key_of(cast<Compute<E>>(element));
    const bool before = right ? key <= value : key < value;
    first = before ? first + half + 1 : first;
    n = before ? n - half - 1 : half;
  }
  return first;
}

Source<uint8_t> truth_of(const View& a) { return source_of<uint8_t, bool_t>(a.dtype); }

int64_t count_true(const uint8_t* truth, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += truth[i] != 0;
  return count;
}

// The positions of true elements; branch-free, as what is random cannot be predicted.
int64_t list_true(int32_t* positions, const uint8_t* truth, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    positions[count] = static_cast<int32_t>(i);
    count += truth[i] != 0;
  }
  return count;
}

}  // namespace

void argsort(const View& out, const View& a, int axis, bool descending) {
  if (out.size() == 0) return;
  with_compute_type(a.dtype, [&](auto tag) {
    argsort_rows<typename decltype(tag)::type>(out, a, axis, descending);
  });
}

void searchsorted(const View& out, const View& sorted, const View& values, bool right) {
  Nest<2> nest;
  for (int axis = 0; axis < out.ndim; ++axis) {
    nest.push(out.shape[axis], {byte_stride(out, axis), byte_stride(values, axis)});
  }
  with_dtype(sorted.dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    parallel_for(nest.size, kGrain, [&](int64_t begin, int64_t end) {
      for_each_run(nest, begin, end, [&](auto& offsets, auto& strides, int64_t, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const char* from = values.data + offsets[1] + i * strides[1];
          const auto value = key_of(cast<Compute<E>>(*reinterpret_cast<const E*>(from)));
          *reinterpret_cast<int64_t*>(out.data + offsets[0] + i * strides[0]) =
              rank_of<E>(value, sorted.data, byte_stride(sorted, 0), sorted.shape[0], right);
        }
      });
    });
  });
}

int64_t count_nonzero(const View& a) {
  Nest<1> nest;
  for (int axis = 0; axis < a.ndim; ++axis) nest.push(a.shape[axis], {byte_stride(a, axis)});
  const Source<uint8_t> truth = truth_of(a);
  int64_t count = 0;
  parallel_for(nest.size, 16 * kGrain, [&](int64_t begin, int64_t end) {
    int64_t found = 0;
    for_each_run(nest, begin, end, [&](auto& offsets, auto& strides, int64_t, int64_t n) {
      uint8_t buffer[kTile];
      for (int64_t i = 0; i < n; i += kTile) {
        const int64_t width = min_of(kTile, n - i);
        const char* from = a.data + offsets[0] + i * strides[0];
        found += count_true(truth.tile(from, strides[0], width, buffer), width);
      }
    });
    __atomic_fetch_add(&count, found, __ATOMIC_RELAXED);
  });
  return count;
}

void nonzero(const View& a, int64_t* coordinates) {
  if (a.ndim == 0 || a.size() == 0) return;
  const Source<uint8_t> truth = truth_of(a);
  const int last = a.ndim - 1;
  const int64_t width = a.shape[last], stride = byte_stride(a, last);
  int64_t index[kMaxDims] = {};
  const char* row = a.data;
  uint8_t buffer[kTile];
  int32_t positions[kTile];
  for (int axis = last; axis >= 0;) {
    for (int64_t start = 0; start < width; start += kTile) {
      const int64_t n = min_of(kTile, width - start);
      const uint8_t* is_true = truth.tile(row + start * stride, stride, n, buffer);
      const int64_t count = list_true(positions, is_true, n);
      for (int d = 0; d < last; ++d) {
        for (int64_t i = 0; i < count; ++i) coordinates[i * a.ndim + d] = index[d];
      }
      for (int64_t i = 0; i < count; ++i) coordinates[i * a.ndim + last] = start + positions[i];
      coordinates += count * a.ndim;
    }
    for (axis = last - 1; axis >= 0; --axis) {
      row += byte_stride(a, axis);
      if (++index[axis] < a.shape[axis]) break;
      row -= index[axis] * byte_stride(a, axis);
      index[axis] = 0;
    }
  }
}

}  // namespace needle::NEEDLE_ISA
