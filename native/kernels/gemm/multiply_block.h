// The microkernel of brgemm.h for one shape of blocks, and the table of all shapes.
#pragma once

#include <utility>

#include "brgemm.h"

namespace needle::NEEDLE_ISA {
namespace {

// IsMasked, IsHalf: the last vector.
template <class T, int Rows, int Vecs, bool IsMasked, bool IsHalf = false>
void multiply_block(const PanelSum<T>& sum, int64_t row, int64_t col, T* c, int64_t c_row, int last,
                    bool accumulate) {
  constexpr int kGroup = 3;  // rows per pointer into A: x86 adds 0, 1 or 2 steps in an address
  constexpr int kGroups = (Rows + kGroup - 1) / kGroup;
  const Lanes<T> lanes(last);
  const auto load_vec = [&](const T* from, int v) NEEDLE_INLINE_LAMBDA {
    return IsMasked && v == Vecs - 1 ? lanes.load(from + v * kLanes<T>)
                                     : load(from + v * kLanes<T>);
  };
  const auto ask_for_c = [&](int i) NEEDLE_INLINE_LAMBDA {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) __builtin_prefetch(c + i * c_row + v * kLanes<T>, 1);
  };
  // Two rows of C with each line of k, while there are enough: all at once are more than a core
  // can wait for (640 x 128 x 10000 on one Zen 4 core: 105 GFLOP/s, at once 102).
  constexpr int64_t kLine = 64 / sizeof(T);
  int asked = 0;
  for (; sum.count * sum.depth < Rows / 2 * kLine && asked < Rows; ++asked) ask_for_c(asked);
  const int64_t a_row = sum.a_row, a_col = sum.a_col, b_row = sum.b_row, depth = sum.depth;
  const char* next = sum.ahead.at;
  Vec<T> acc[Rows][Vecs] = {};
  for (int64_t p = 0; p < sum.count; ++p) {
    const T* b = sum.list[p].b + col;
    const T* a[kGroups];
#pragma GCC unroll 16
    for (int g = 0; g < kGroups; ++g) a[g] = sum.list[p].a + (row + g * kGroup) * a_row;
    for (int64_t k = 0; k < depth; k += kLine) {
      for (int end = min_of(Rows, asked + 2); asked < end; ++asked) ask_for_c(asked);
      if (next != nullptr) {
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) __builtin_prefetch(next + i * sum.ahead.across);
        next += sum.ahead.along;
      }
      for (int64_t left = min_of(kLine, depth - k); left > 0; --left, b += b_row) {
        Vec<T> b_vecs[Vecs];
#pragma GCC unroll 4
        for (int v = 0; v < Vecs; ++v) b_vecs[v] = load_vec(b, v);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
          const T* const at = &a[i / kGroup][i % kGroup * a_row];
          const Vec<T> x = IsHalf && Vecs == 1 ? splat_low(*at) : splat(*at);
#pragma GCC unroll 4
          for (int v = 0; v < Vecs; ++v) {
            acc[i][v] = IsHalf && v == Vecs - 1 ? multiply_add_low(x, b_vecs[v], acc[i][v])
                                                : multiply_add(x, b_vecs[v], acc[i][v]);
          }
        }
#pragma GCC unroll 16
        for (int g = 0; g < kGroups; ++g) a[g] += a_col;
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    T* const c_at = c + i * c_row;
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const Vec<T> total = accumulate ? acc[i][v] + load_vec(c_at, v) : acc[i][v];
      if (IsMasked && v == Vecs - 1) {
        lanes.store(c_at + v * kLanes<T>, total);
      } else {
        store(c_at + v * kLanes<T>, total);
      }
    }
  }
}

template <class T, int Rows, int Vecs, int IsShort>
constexpr BlockFn<T> block_fn() {
  if constexpr (Vecs > block_vecs(Rows)) {
    return nullptr;
  } else {
    constexpr bool kIsHalf = IsShort && kTakesHalves<T>;
    return multiply_block < T, Rows, Vecs, kMaskIsFree || IsShort, kIsHalf > ;
  }
}

template <class T, int... cells>
constexpr Blocks<T> make_blocks(std::integer_sequence<int, cells...>) {
  Blocks<T> blocks{};
  ((blocks.fn[cells / 8][cells / 2 % 4][cells % 2] =
        block_fn<T, cells / 8 + 1, cells / 2 % 4 + 1, cells % 2>()),
   ...);
  return blocks;
}

template <class T>
constexpr Blocks<T> make_blocks() {
  static_assert(kMostVecs == 4);
  return make_blocks<T>(std::make_integer_sequence<int, kMostRows * kMostVecs * 2>{});
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
