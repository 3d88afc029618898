// The formulas of elementwise.def as functions: Formula<UnaryOp::exp>::apply(x), for every compute
// type that they have a meaning for, and for Floats.
#pragma once

#include "common/elementwise.h"
#include "scalar.h"

namespace needle::NEEDLE_ISA {
namespace {

// A formula may be a reference (c ? x : y); its result is a value.
template <class T>
using Value = std::remove_cvref_t<T>;

template <auto op>  // a UnaryOp or BinaryOp
struct Formula;

#define UNARY(name, kind, formula)                                     \
  template <>                                                          \
  struct Formula<UnaryOp::name> {                                      \
    static constexpr ElementwiseKind kKind = ElementwiseKind::kind;    \
    template <class T>                                                 \
    NEEDLE_INLINE static auto apply(T x) -> Value<decltype(formula)> { \
      return formula;                                                  \
    }                                                                  \
  };
#define BINARY(name, kind, formula)                                         \
  template <>                                                               \
  struct Formula<BinaryOp::name> {                                          \
    static constexpr ElementwiseKind kKind = ElementwiseKind::kind;         \
    template <class T>                                                      \
    NEEDLE_INLINE static auto apply(T x, T y) -> Value<decltype(formula)> { \
      return formula;                                                       \
    }                                                                       \
  };
#include "common/elementwise.def"

}  // namespace
}  // namespace needle::NEEDLE_ISA
