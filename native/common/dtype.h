// Element types. The order is the order of needle/dtype.py's DTYPES.
#pragma once

#include <cstdint>

namespace needle {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, b8 };
constexpr int kNumDTypes = 10;

// Storage of the two half types: their bits. Conversions live in cpu/kernels/convert.h.
struct f16_t {
  uint16_t bits;
};
struct bf16_t {
  uint16_t bits;
};
// Storage of bool: one byte, 0 or 1. A type of its own, so that casts to it mean "!= 0".
struct bool_t {
  uint8_t byte;
};

constexpr int item_size(DType d) {
  constexpr int sizes[kNumDTypes] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(d)];
}

}  // namespace needle
