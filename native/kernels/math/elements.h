// The functions of one element for the kernels. Those of vectors of floats are in
// kernels/simd/floats.h, the formulas of elementwise.def in formulas.h.
#pragma once

#include <type_traits>

#include "numbers.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class X, class Y>
NEEDLE_INLINE std::common_type_t<X, Y> choose(bool condition, X x, Y y) {
  return condition ? x : y;
}

#include "common/elements/elements.h"

}  // namespace
}  // namespace needle::NEEDLE_ISA
