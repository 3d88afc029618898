// Element types. The order is the order of needle/dtype.py's DTYPES.
#pragma once

#if !defined(__CUDACC_RTC__)  // which has no headers
#include <cstdint>
#endif

namespace needle {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, b8 };
constexpr int kNumDTypes = 10;

// Storage of the two half types: their bits. Conversions live in kernels/simd/convert.h.
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

#if !defined(__CUDACC_RTC__)  // where functions are for one of both sides
constexpr int item_size(DType d) {
  constexpr int sizes[kNumDTypes] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(d)];
}

// The types that elements are computed in: halves in float, small integers in int32.
enum class ComputeType : uint8_t { f32, f64, i32, i64, b8 };
constexpr int kNumComputeTypes = 5;

constexpr ComputeType compute_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return ComputeType::f64;
    case DType::i64: return ComputeType::i64;
    case DType::b8: return ComputeType::b8;
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::u8: return ComputeType::i32;
    default: return ComputeType::f32;
  }
}

constexpr int compute_size(ComputeType type) {
  constexpr int sizes[kNumComputeTypes] = {4, 8, 4, 8, 1};
  return sizes[static_cast<int>(type)];
}

// Stored as its compute type?
constexpr bool is_native(DType dtype) {
  return item_size(dtype) == compute_size(compute_type(dtype));
}
#endif

}  // namespace needle
