// The elementwise functions as enumerations, in the order of elementwise.def.
#pragma once

#if !defined(__CUDACC_RTC__)  // which has no headers
#include <cstdint>
#endif

namespace needle {

enum class UnaryOp : uint8_t {
#define UNARY(name, ...) name,
#include "elementwise.def"
};

enum class BinaryOp : uint8_t {
#define BINARY(name, ...) name,
#include "elementwise.def"
};

enum class ElementwiseKind : uint8_t { same, number, integer, bits, floating, predicate };

}  // namespace needle
