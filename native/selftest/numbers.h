// What needle_selftest compares with: elements as doubles, how they round, and random ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "common/view.h"

namespace needle {

// Half types by arithmetic on doubles, independent of the kernels' bit patterns.
// A format has `mantissa` bits after the point and exponents from `lowest` on.
inline double value_of_half(uint16_t bits, int mantissa, int lowest) {
  const int exponent_bits = 15 - mantissa;
  const int exponent = (bits >> mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << mantissa) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, lowest - mantissa);
  return sign * std::ldexp((1 << mantissa) + fraction, exponent - 1 + lowest - mantissa);
}

// x rounded to nearest even with that many bits.
inline double round_to(double x, int mantissa, int lowest, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), lowest);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
}

inline double rounded_as(double x, DType dtype) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(x);
    case DType::f16: return round_to(x, 10, -14, 65504);
    case DType::bf16: return round_to(static_cast<float>(x), 7, -126, 3.3895313892515355e38);
    default: return x;
  }
}

inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-13;
    case DType::f32: return 1e-6;
    case DType::f16: return 1.0 / 1024;
    case DType::bf16: return 1.0 / 128;
    default: return 0;
  }
}

// One element of a view, as a double.
inline double read(const View& v, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (int d = 0; d < v.ndim; ++d) at += index[static_cast<size_t>(d)] * v.strides[d];
  const char* p = v.data + at * item_size(v.dtype);
  const auto as = [p](auto zero) {
    std::memcpy(&zero, p, sizeof zero);
    return zero;
  };
  switch (v.dtype) {
    case DType::f32: return as(0.0f);
    case DType::f64: return as(0.0);
    case DType::f16: return value_of_half(as(uint16_t{0}), 10, -14);
    case DType::bf16: return value_of_half(as(uint16_t{0}), 7, -126);
    case DType::i8: return as(int8_t{0});
    case DType::i16: return as(int16_t{0});
    case DType::i32: return as(int32_t{0});
    case DType::i64: return static_cast<double>(as(int64_t{0}));
    default: return as(uint8_t{0});
  }
}

// Every index of a shape, in C order.
inline void for_each_index(const View& v,
                           const std::function<void(const std::vector<int64_t>&)>& body) {
  if (v.size() == 0) return;
  std::vector<int64_t> index(static_cast<size_t>(v.ndim), 0);
  while (true) {
    body(index);
    int d = v.ndim - 1;
    for (; d >= 0 && ++index[static_cast<size_t>(d)] == v.shape[d]; --d) {
      index[static_cast<size_t>(d)] = 0;
    }
    if (d < 0) return;
  }
}

inline std::mt19937 generator;

inline double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(generator);
}

inline double whole(int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(generator);
}

// Small whole numbers for integers, fractions for floats.
inline double small(DType dtype) {
  if (dtype == DType::b8) return whole(0, 1);
  if (dtype == DType::u8) return whole(0, 9);
  return tolerance(dtype) == 0 ? whole(-9, 9) : rounded_as(uniform(-3, 3), dtype);
}

inline bool close(double actual, double expected, DType dtype) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (actual == expected) return true;
  return std::fabs(actual - expected) <= tolerance(dtype) * std::max(1.0, std::fabs(expected));
}

}  // namespace needle
