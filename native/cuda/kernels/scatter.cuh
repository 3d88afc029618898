// Scattering without atomics: the places that numbers go to are sorted first (stable, so that what
// goes to one place stays in order), and one thread sees to all that go to its place.
#pragma once

#include "operand.cuh"

namespace needle {

// Over (j, r...): j counts the sorted places.
template <int R>
struct Scatter {
  Operands<4, R> x;  // out at r, places at j, the order of places at j, a at r
  i64 step;          // of a from one j to the next, in its own order
  u32 count;         // of j

  ELEMENT i64 order(i64 j) const { return x.template at<i64>(2, j)[0]; }
  ELEMENT i64 place(i64 j) const { return x.template at<i64>(1, order(j))[0]; }
};

}  // namespace needle
