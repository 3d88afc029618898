// The operations that reductions are made of, on scalars and SIMD vectors alike, and the reduction
// of one contiguous block.
#pragma once

#include <limits>
#include <type_traits>

#include "loops.h"
#include "vec.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

template <class T>
constexpr bool is_floating = is_same<T, float> || is_same<T, double>;

// Sum and Prod of integers run on unsigned types, so they wrap. In every operation, Total is the
// type in which the results of blocks are combined.
struct Sum {
  template <class T>
  using Total = std::conditional_t<is_floating<T>, double, T>;
  template <class T>
  static constexpr T identity() {
    return 0;
  }
  template <class T>
  [[gnu::always_inline]] static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Prod {
  template <class T>
  using Total = T;
  template <class T>
  static constexpr T identity() {
    return 1;
  }
  template <class T>
  [[gnu::always_inline]] static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};

// Max and Min keep a NaN: b replaces a when it is better or NaN, and nothing is better than NaN.
struct Max {
  template <class T>
  using Total = T;
  template <class T>
  static constexpr T identity() {
    if (is_floating<T>) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::lowest();
  }
  template <class T>
  [[gnu::always_inline]] static auto is_better(T a, T b) {
    return a > b;
  }
  template <class T>
  [[gnu::always_inline]] static T apply(T a, T b) {
    return (b > a) | (b != b) ? b : a;
  }
};

struct Min {
  template <class T>
  using Total = T;
  template <class T>
  static constexpr T identity() {
    if (is_floating<T>) return std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::max();
  }
  template <class T>
  [[gnu::always_inline]] static auto is_better(T a, T b) {
    return a < b;
  }
  template <class T>
  [[gnu::always_inline]] static T apply(T a, T b) {
    return (b < a) | (b != b) ? b : a;
  }
};

// A block is short enough for float sums to lose little; blocks are added up in double.
constexpr int64_t kBlock = 1024;

// The lanes of a vector meet in a tree: lane i and lane i + half, then again in the lower half.
template <class Op, class T, int Bytes, class V>
[[gnu::always_inline]] inline T reduce_lanes(V v) {
  if constexpr (Bytes > 16) {
    typedef T Half __attribute__((vector_size(Bytes / 2)));
    Half halves[2];
    __builtin_memcpy(halves, &v, sizeof halves);
    return reduce_lanes<Op, T, Bytes / 2>(Op::apply(halves[0], halves[1]));
  } else {
    T lanes[16 / sizeof(T)];
    __builtin_memcpy(lanes, &v, sizeof lanes);
#pragma GCC unroll 4
    for (int half = 8 / sizeof(T); half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) {
        lanes[lane] = Op::apply(lanes[lane], lanes[lane + half]);
      }
    }
    return lanes[0];
  }
}

// Reduces n <= kBlock contiguous elements. Element i goes to lane i % (256 bytes), then the lanes
// meet in a tree: the order of operations is the same on every instruction set.
template <class Op, class T>
T reduce_block(const T* x, int64_t n) {
  constexpr int kVecs = 256 / kVecBytes, kWidth = kVecs * kLanes<T>;
  const Vec<T> identity = splat(Op::template identity<T>());
  Vec<T> acc[kVecs];
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v) acc[v] = identity;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) acc[v] = Op::apply(acc[v], load(x + i + v * kLanes<T>));
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v, i += kLanes<T>) {
    if (i >= n) break;
    Vec<T> last = identity;
    if (i + kLanes<T> <= n) {
      last = load(x + i);
    } else {
      __builtin_memcpy(&last, x + i, (n - i) * sizeof(T));
    }
    acc[v] = Op::apply(acc[v], last);
  }
#pragma GCC unroll 4
  for (int half = kVecs / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int v = 0; v < half; ++v) acc[v] = Op::apply(acc[v], acc[v + half]);
  }
  return reduce_lanes<Op, T, kVecBytes>(acc[0]);
}

// acc[i] = acc[i] op x0[i] op ... op x3[i]: four rows at a time spare three passes over acc.
template <class Op, class T>
void reduce_rows(T* __restrict acc, const T* x0, const T* x1, const T* x2, const T* x3, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    const Vec<T> low = Op::apply(load(x0 + i), load(x1 + i));
    const Vec<T> high = Op::apply(load(x2 + i), load(x3 + i));
    store(acc + i, Op::apply(load(acc + i), Op::apply(low, high)));
  }
  for (; i < n; ++i) {
    acc[i] = Op::apply(acc[i], Op::apply(Op::apply(x0[i], x1[i]), Op::apply(x2[i], x3[i])));
  }
}

template <class Op, class T>
void reduce_row(T* __restrict acc, const T* x, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    store(acc + i, Op::apply(load(acc + i), load(x + i)));
  }
  for (; i < n; ++i) acc[i] = Op::apply(acc[i], x[i]);
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
