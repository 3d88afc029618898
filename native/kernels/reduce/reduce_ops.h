// The operations that reductions are made of, on scalars and SIMD vectors alike (others are in
// reductions.h), and the reduction of one contiguous block.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/loops.h"
#include "kernels/simd/vec.h"

namespace needle::NEEDLE_ISA {
namespace {

// Sums of integers run on unsigned types, so they wrap. In every operation, Total is the type in
// which the results of blocks are combined.
struct Sum {
  template <class T>
  using Total = std::conditional_t<is_floating<T>, double, T>;
  template <class T>
  static constexpr T identity() {
    return 0;
  }
  template <class T>
  NEEDLE_INLINE static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

// Max and Min keep a NaN: b replaces a when it is better or NaN, and nothing is better than NaN.
template <bool kIsMax>
struct Extreme {
  template <class T>
  using Total = T;
  template <class T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    if (is_floating<T>) return kIsMax ? -Limits::infinity() : Limits::infinity();
    return kIsMax ? Limits::lowest() : Limits::max();
  }
  template <class T>
  NEEDLE_INLINE static bool is_better(T a, T b) {
    return kIsMax ? a > b : a < b;
  }
  template <class T>
  NEEDLE_INLINE static T better_of(T a, T b) {  // b where they do not compare
    return kIsMax ? larger_of(a, b) : smaller_of(a, b);
  }
  template <class T>
  NEEDLE_INLINE static T apply(T a, T b) {
    const T better = better_of(b, a);
    return b != b ? b : better;
  }
};
using Max = Extreme<true>;
using Min = Extreme<false>;

template <class Op>
constexpr bool is_extreme = is_same<Op, Max> || is_same<Op, Min>;

// A block is short enough for float sums to lose little; blocks are added up in double.
constexpr int64_t kBlock = 1024;

// v's lanes from `First` on, `sizeof...(I)` of them.
template <int First, class V, int... I>
NEEDLE_INLINE auto lanes_from(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (First + I)...);
}

template <int By, class V, int... I>
NEEDLE_INLINE V rotated(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, ((By + I) % static_cast<int>(sizeof...(I)))...);
}

// The lanes of a vector meet in a tree: lane i and lane i + half, then again in the lower half.
template <class Op, class T, int Lanes, class V>
NEEDLE_INLINE T reduce_lanes(V v) {
  if constexpr (Lanes == 1) {
    return v[0];
  } else if constexpr (Lanes * sizeof(T) > 16) {
    using Half = std::make_integer_sequence<int, Lanes / 2>;
    const auto low = lanes_from<0>(v, Half{}), high = lanes_from<Lanes / 2>(v, Half{});
    return reduce_lanes<Op, T, Lanes / 2>(Op::apply(low, high));
  } else {
    // Vectors do not get shorter than 16 bytes: lanes above Lanes are passengers.
    constexpr int kAll = 16 / sizeof(T);
    const auto high = rotated<Lanes / 2>(v, std::make_integer_sequence<int, kAll>{});
    return reduce_lanes<Op, T, Lanes / 2>(Op::apply(v, high));
  }
}

// Max or Min where nothing is NaN: of the two zeros it keeps the one that they keep.
template <class Op>
struct OfNumbers {
  template <class T>
  NEEDLE_INLINE static T apply(T a, T b) {
    return Op::better_of(b, a);
  }
};

// The same for vectors, and then for the lanes of the last one.
template <class Op, class T, int kVecs>
NEEDLE_INLINE T meet(Vec<T> (&acc)[kVecs]) {
#pragma GCC unroll 4
  for (int half = kVecs / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int v = 0; v < half; ++v) acc[v] = Op::apply(acc[v], acc[v + half]);
  }
  if constexpr (is_extreme<Op> && is_same<T, float>) {
    NanWatch<T> watch;
    watch.look(acc[0], acc[0]);
    if (!watch.found()) [[likely]]
      return reduce_lanes<OfNumbers<Op>, T, kLanes<T>>(acc[0]);
  }
  return reduce_lanes<Op, T, kLanes<T>>(acc[0]);
}

// Elements that lie side by side: whole vectors, or the first ones of a vector of `others`.
template <class T>
struct Elements {
  const T* x;
  NEEDLE_INLINE Vec<T> whole(int64_t i) const { return load(x + i); }
  NEEDLE_INLINE Vec<T> first(int64_t i, int64_t n, Vec<T> others) const {
    __builtin_memcpy(&others, x + i, static_cast<size_t>(n) * sizeof(T));
    return others;
  }
};

// The products of two such runs.
template <class T>
struct Products {
  const T *a, *b;
  NEEDLE_INLINE Vec<T> whole(int64_t i) const { return load(a + i) * load(b + i); }
  NEEDLE_INLINE Vec<T> first(int64_t i, int64_t n, Vec<T> others) const {
    for (int64_t k = 0; k < n; ++k) others[k] = a[i + k] * b[i + k];
    return others;
  }
};

// Reduces n <= kBlock elements. Element i goes to lane i % (256 bytes), then the lanes meet in a
// tree: the order of operations is the same on every instruction set.
template <class Op, class T, class From>
NEEDLE_INLINE T reduce_run(const From& from, int64_t n) {
  constexpr int kVecs = 256 / kVecBytes, kWidth = kVecs * kLanes<T>;
  const Vec<T> identity = splat(Op::template identity<T>());
  Vec<T> acc[kVecs];
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v) acc[v] = identity;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; ++v) acc[v] = Op::apply(acc[v], from.whole(i + v * kLanes<T>));
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v, i += kLanes<T>) {
    if (i >= n) break;
    const bool is_whole = i + kLanes<T> <= n;
    acc[v] = Op::apply(acc[v], is_whole ? from.whole(i) : from.first(i, n - i, identity));
  }
  return meet<Op, T>(acc);
}

template <class Op, class T>
[[gnu::noinline]] T reduce_elements(const T* x, int64_t n) {
  return reduce_run<Op, T>(Elements<T>{x}, n);
}

// The largest or smallest of n floats, in two thirds of the time that reduce_run takes, in the same
// order: the vectors of a pair are looked at for NaN together.
template <class Op, class T>
NEEDLE_INLINE T best_of_many(const T* x, int64_t n) {
  using Best = OfNumbers<Op>;
  constexpr int kVecs = 256 / kVecBytes, kWidth = kVecs * kLanes<T>;
  const Elements<T> from{x};
  const Vec<T> identity = splat(Op::template identity<T>());
  Vec<T> acc[kVecs];
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v) acc[v] = identity;
  NanWatch<T> watch;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
#pragma GCC unroll 16
    for (int v = 0; v < kVecs; v += 2) {
      const Vec<T> a = from.whole(i + v * kLanes<T>), b = from.whole(i + (v + 1) * kLanes<T>);
      watch.look(a, b);
      acc[v] = Best::apply(acc[v], a);
      acc[v + 1] = Best::apply(acc[v + 1], b);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVecs; ++v, i += kLanes<T>) {
    if (i >= n) break;
    const Vec<T> a = i + kLanes<T> <= n ? from.whole(i) : from.first(i, n - i, identity);
    watch.look(a, a);
    acc[v] = Best::apply(acc[v], a);
  }
  if (watch.found()) return reduce_elements<Op>(x, n);
  return meet<Best, T>(acc);
}

template <class Op, class T>
T reduce_block(const T* x, int64_t n) {
  if constexpr (is_extreme<Op> && is_floating<T>) {
    if (n * static_cast<int64_t>(sizeof(T)) >= 256) return best_of_many<Op>(x, n);
  }
  return reduce_elements<Op>(x, n);
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
}  // namespace needle::NEEDLE_ISA
