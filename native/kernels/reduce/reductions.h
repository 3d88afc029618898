// The reductions of reduce.def: ReductionOf<ReduceOp::sum> is an operation of reduce_ops.h.
#pragma once

#include "common/reduce.h"
#include "kernels/math/formulas.h"
#include "reduce_ops.h"

namespace needle::NEEDLE_ISA {
namespace {

template <ReduceOp op>
struct ByFormula;

#define REDUCTION(name, kind, nothing, step)                                                  \
  template <>                                                                                 \
  struct ByFormula<ReduceOp::name> {                                                          \
    template <class T>                                                                        \
    using Total = T;                                                                          \
    template <class T>                                                                        \
    static constexpr T identity() {                                                           \
      [[maybe_unused]] constexpr T LOWEST = Max::identity<T>(), HIGHEST = Min::identity<T>(); \
      return nothing;                                                                         \
    }                                                                                         \
    template <class T>                                                                        \
    NEEDLE_INLINE static T apply(T x, T y) {                                                  \
      return step;                                                                            \
    }                                                                                         \
  };
#include "common/reduce.def"

using Prod = ByFormula<ReduceOp::prod>;

// Some are quicker than by formula.
template <ReduceOp op>
struct Chosen {
  using type = ByFormula<op>;
};
#define QUICK(name, Op)           \
  template <>                     \
  struct Chosen<ReduceOp::name> { \
    using type = Op;              \
  };
QUICK(sum, Sum)
QUICK(max, Max)
QUICK(min, Min)
QUICK(any, Max)
QUICK(all, Min)
#undef QUICK

template <ReduceOp op>
using ReductionOf = typename Chosen<op>::type;

}  // namespace
}  // namespace needle::NEEDLE_ISA
