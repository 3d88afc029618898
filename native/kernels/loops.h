// Loops over strided views: axes merged where memory allows, walked by a cursor; tiles of elements
// loaded into the type that they are computed in, and stored back.
#pragma once

#include <cstdint>
#include <new>

#include "common/view.h"
#include "core/parallel.h"
#include "kernels/simd/convert.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t length_of(int64_t step) { return step < 0 ? -step : step; }

template <class T>
struct Tag {
  using type = T;
};

// Calls body(Tag<storage type>) for a dtype known at run time.
template <class F>
inline void with_dtype(DType dtype, F&& body) {
  switch (dtype) {
    case DType::f32: return body(Tag<float>{});
    case DType::f64: return body(Tag<double>{});
    case DType::f16: return body(Tag<f16_t>{});
    case DType::bf16: return body(Tag<bf16_t>{});
    case DType::i8: return body(Tag<int8_t>{});
    case DType::i16: return body(Tag<int16_t>{});
    case DType::i32: return body(Tag<int32_t>{});
    case DType::i64: return body(Tag<int64_t>{});
    case DType::u8: return body(Tag<uint8_t>{});
    case DType::b8: return body(Tag<bool_t>{});
  }
}

// The type that elements of E are computed in: float, double, int32_t or int64_t. Narrow integers
// wrap around when they are stored.
template <class E>
using Compute =
    std::conditional_t<is_half<E>, float,
                       std::conditional_t<is_floating<E> || is_same<E, int64_t>, E, int32_t>>;

// Calls body(Tag<compute type>) for a dtype known at run time.
template <class F>
inline void with_compute_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return body(Tag<float>{});
    case DType::f64: return body(Tag<double>{});
    case DType::i64: return body(Tag<int64_t>{});
    default: return body(Tag<int32_t>{});
  }
}

// How a value of an element type is held while computing.
template <class T>
NEEDLE_INLINE T held(T x) {
  return x;
}
NEEDLE_INLINE uint8_t held(bool_t x) { return x.byte; }

// The compute type in which sums and products wrap around.
template <class T>
using Wrapping = std::conditional_t<is_same<T, int32_t>, uint32_t,
                                    std::conditional_t<is_same<T, int64_t>, uint64_t, T>>;

// 64-byte-aligned memory for the length of a scope, from the stack when it is small.
template <int64_t kStackBytes>
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    data_ = bytes <= kStackBytes ? stack_ : ::operator new(bytes, std::align_val_t{64});
  }
  ~Scratch() {
    if (data_ != stack_) ::operator delete(data_, std::align_val_t{64});
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }

 private:
  alignas(64) char stack_[kStackBytes];
  void* data_;
};

// The axes that N operands share, outermost first; strides in bytes. Axes of one element are
// dropped, and an axis joins the one outside it when every operand steps evenly over both.
template <int N>
struct Nest {
  int ndim = 0;
  int64_t size = 1;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims][N];

  void push(int64_t n, const int64_t (&steps)[N]) {
    size *= n;
    if (n == 1) return;
    if (ndim > 0 && joins(n, steps)) {
      shape[ndim - 1] *= n;
    } else {
      shape[ndim++] = n;
    }
    for (int i = 0; i < N; ++i) strides[ndim - 1][i] = steps[i];
  }

  // Removes the innermost axis; an empty nest gives an axis of one element.
  int64_t pop(int64_t (&steps)[N]) {
    for (int i = 0; i < N; ++i) steps[i] = ndim > 0 ? strides[ndim - 1][i] : 0;
    if (ndim == 0) return 1;
    const int64_t n = shape[--ndim];
    if (n > 0) size /= n;
    return n;
  }

 private:
  bool joins(int64_t n, const int64_t (&steps)[N]) const {
    for (int i = 0; i < N; ++i) {
      if (strides[ndim - 1][i] != n * steps[i]) return false;
    }
    return true;
  }
};

// A position in a nest that moves in C order; offset[i] is operand i's, in bytes.
template <int N>
class Cursor {
 public:
  int64_t offset[N] = {};

  Cursor(const Nest<N>& nest, int64_t linear) : nest_(nest) {
    for (int d = nest.ndim - 1; d >= 0; --d) {
      index_[d] = linear % nest.shape[d];
      linear /= nest.shape[d];
      for (int i = 0; i < N; ++i) offset[i] += index_[d] * nest.strides[d][i];
    }
  }

  void next() {
    for (int d = nest_.ndim - 1; d >= 0; --d) {
      for (int i = 0; i < N; ++i) offset[i] += nest_.strides[d][i];
      if (++index_[d] < nest_.shape[d]) return;
      for (int i = 0; i < N; ++i) offset[i] -= index_[d] * nest_.strides[d][i];
      index_[d] = 0;
    }
  }

 private:
  const Nest<N>& nest_;
  int64_t index_[kMaxDims];
};

// Calls body(offsets, strides, i, n) for positions [begin, end) of a nest, a run along the
// innermost axis at a time: n positions from i on, each `strides` bytes after the one before.
template <int N, class F>
void for_each_run(const Nest<N>& nest, int64_t begin, int64_t end, F&& body) {
  if (begin >= end) return;
  Nest<N> outer = nest;
  int64_t strides[N];
  const int64_t length = outer.pop(strides);
  Cursor<N> at(outer, begin / length);
  for (int64_t first = begin % length; begin < end; first = 0, at.next()) {
    const int64_t n = min_of(length - first, end - begin);
    int64_t offsets[N];
    for (int i = 0; i < N; ++i) offsets[i] = at.offset[i] + first * strides[i];
    body(offsets, strides, begin, n);
    begin += n;
  }
}

// Calls body(begin, end) for stretches of [0, n), and notices Ctrl-C between them.
template <class F>
inline void for_each_stretch(int64_t n, F&& body) {
  constexpr int64_t kStretch = 1 << 18;
  for (int64_t begin = 0; begin < n; begin += kStretch) {
    if (begin > 0) check_interrupt();
    body(begin, min_of(n, begin + kStretch));
  }
}

inline void prefetch(const void* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(static_cast<const char*>(from) + i);
}

inline int64_t byte_stride(const View& v, int axis) { return v.strides[axis] * item_size(v.dtype); }

}  // namespace

// Reads n elements that lie `stride` bytes apart into tile; and the reverse.
template <class T>
using LoadFn = void (*)(T* tile, const char* from, int64_t stride, int64_t n);
template <class T>
using StoreFn = void (*)(char* to, int64_t stride, const T* tile, int64_t n);

// A strided operand, read tile by tile: in place when its elements are Ts side by side.
template <class T>
struct Source {
  LoadFn<T> load;
  bool is_plain;  // the storage type is T itself

  NEEDLE_INLINE const T* tile(const char* from, int64_t stride, int64_t n, T* buffer) const {
    if (is_plain && stride == static_cast<int64_t>(sizeof(T))) {
      return reinterpret_cast<const T*>(from);
    }
    load(buffer, from, stride, n);
    return buffer;
  }
};

// Elements of a dtype, cast to the element type As, held in T (of As's size); tiles.cc.
template <class T, class As>
Source<T> source_of(DType dtype);

// How Ts are stored as elements of a dtype.
template <class T>
StoreFn<T> store_of(DType dtype);

#define NEEDLE_SOURCES(X) \
  X(float, float)         \
  X(double, double)       \
  X(int32_t, int32_t)     \
  X(int64_t, int64_t)     \
  X(uint32_t, int32_t) X(uint64_t, int64_t) X(uint8_t, bool_t) X(float, bool_t) X(double, bool_t)
#define NEEDLE_STORES(X) X(float) X(double) X(int32_t) X(int64_t) X(uint32_t) X(uint64_t) X(uint8_t)

#define NEEDLE_DECLARE(T, As) \
  template <>                 \
  Source<T> source_of<T, As>(DType dtype);
NEEDLE_SOURCES(NEEDLE_DECLARE)
#undef NEEDLE_DECLARE
#define NEEDLE_DECLARE(T) \
  template <>             \
  StoreFn<T> store_of<T>(DType dtype);
NEEDLE_STORES(NEEDLE_DECLARE)
#undef NEEDLE_DECLARE

}  // namespace needle::NEEDLE_ISA
