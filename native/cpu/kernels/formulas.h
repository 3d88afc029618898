// The formulas of elementwise.def as functions: name_unary::apply(x), name_binary::apply(x, y), for
// every compute type that they have a meaning for, and for Floats.
#pragma once

#include "../../common/elementwise.h"
#include "scalar.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// A formula may be a reference (c ? x : y); its result is a value.
template <class T>
using Value = std::remove_cvref_t<T>;

#define UNARY(name, kind, formula)                                     \
  struct name##_unary {                                                \
    template <class T>                                                 \
    NEEDLE_INLINE static auto apply(T x) -> Value<decltype(formula)> { \
      return formula;                                                  \
    }                                                                  \
  };
#define BINARY(name, kind, formula)                                         \
  struct name##_binary {                                                    \
    template <class T>                                                      \
    NEEDLE_INLINE static auto apply(T x, T y) -> Value<decltype(formula)> { \
      return formula;                                                       \
    }                                                                       \
  };
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY

template <UnaryOp op, class T>
NEEDLE_INLINE auto apply_unary(T x) {
#define UNARY(name, kind, formula) \
  if constexpr (op == UnaryOp::name) return name##_unary::apply(x);
#define BINARY(name, kind, formula)
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY
}

template <BinaryOp op, class T>
NEEDLE_INLINE auto apply_binary(T x, T y) {
#define UNARY(name, kind, formula)
#define BINARY(name, kind, formula) \
  if constexpr (op == BinaryOp::name) return name##_binary::apply(x, y);
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
