// The common space of elementwise operands: few axes, in the order of the first operand's memory.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "common/view.h"

namespace needle::cuda {

// Strided operands over one shape, as native/cuda/kernels/operand.cuh takes them.
struct Space {
  static constexpr int kMaxRank = 8;
  int rank;  // 1, 2, 4 or 8
  uint32_t size;
  uint32_t shape[kMaxRank];
  std::vector<std::array<int64_t, kMaxRank>> strides;  // of each operand
  std::vector<int64_t> starts;                         // of each operand, in elements
};

// Calls body with the spaces that together are the views' shape: one, if it has fewer than 2^31
// elements and few enough axes. All views have the shape of the first.
void for_each_space(std::span<const View* const> views, const std::function<void(Space&)>& body);

}  // namespace needle::cuda
