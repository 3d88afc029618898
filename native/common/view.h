// A strided view of memory: what every kernel takes. Plain data, validated by the bindings.
#pragma once

#include <cstdint>

#include "dtype.h"

namespace needle {

constexpr int kMaxDims = 32;

struct View {
  char* data;  // address of the element at index (0, ..., 0)
  DType dtype;
  int ndim;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims];  // in elements; 0 for broadcast axes, may be negative

  // Always inline: an out-of-line copy would be a weak symbol in every per-ISA object.
  __attribute__((always_inline)) int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }

  // C order without gaps.
  __attribute__((always_inline)) void set_compact_strides() {
    int64_t stride = 1;
    for (int axis = ndim - 1; axis >= 0; --axis) {
      strides[axis] = stride;
      stride *= shape[axis];
    }
  }
};

}  // namespace needle
