// The elementwise functions as enumerations, in the order of elementwise.def.
#pragma once

#include <cstdint>

namespace needle {

enum class UnaryOp : uint8_t {
#define UNARY(name, kind, formula) name,
#include "elementwise.def"
};

enum class BinaryOp : uint8_t {
#define BINARY(name, kind, formula) name,
#include "elementwise.def"
};

enum class ElementwiseKind : uint8_t { same, floating, predicate };

}  // namespace needle
