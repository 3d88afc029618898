// Reading and writing tiles of elements: one loop for each type that they are computed in, and each
// that they are stored in.
#pragma once

#include "loops.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T, class As, class From>
void load_tile(T* __restrict tile, const char* from, int64_t stride, int64_t n) {
  const auto element = [](const From& x) { return static_cast<T>(held(cast<As>(x))); };
  if (stride == static_cast<int64_t>(sizeof(From))) {
    const From* source = reinterpret_cast<const From*>(from);
    int64_t i = 0;
    if constexpr (is_same<As, T>) i = convert_vectors(tile, source, n);
    for (; i < n; ++i) tile[i] = element(source[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i, from += stride) {
    tile[i] = element(*reinterpret_cast<const From*>(from));
  }
}

template <class To, class T>
void store_tile(char* to, int64_t stride, const T* __restrict tile, int64_t n) {
  if (stride == static_cast<int64_t>(sizeof(To))) {
    To* target = reinterpret_cast<To*>(to);
    for (int64_t i = convert_vectors(target, tile, n); i < n; ++i) target[i] = cast<To>(tile[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i, to += stride) {
    *reinterpret_cast<To*>(to) = cast<To>(tile[i]);
  }
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
