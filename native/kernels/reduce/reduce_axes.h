// The axes of reductions and scans, and how their work is cut.
#pragma once

#include "kernels/loops.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kTile = 512;         // outputs that the column form takes together
constexpr int64_t kShortRow = 16;      // rows shorter than this are taken as columns
constexpr int64_t kGrain = 1 << 14;    // elements worth a task
constexpr int64_t kChunkedTasks = 64;  // tasks to aim for when there are few outputs

// The axes of a for which `wanted` holds, by falling stride (broadcast axes first), with `other`'s.
template <class Wanted>
Nest<2> sorted_axes(const View& a, const View& other, Wanted&& wanted) {
  int axes[kMaxDims], count = 0;
  const auto distance = [&](int axis) {
    const int64_t stride = a.strides[axis];
    return stride == 0 ? INT64_MAX : length_of(stride);
  };
  for (int axis = 0; axis < a.ndim; ++axis) {
    if (!wanted(axis)) continue;
    int at = count++;
    for (; at > 0 && distance(axes[at - 1]) < distance(axis); --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  Nest<2> nest;
  for (int i = 0; i < count; ++i) {
    const int axis = axes[i];
    // Nothing moves along an axis of one element, so that such axes join.
    const int64_t along = other.shape[axis] == 1 ? 0 : byte_stride(other, axis);
    nest.push(a.shape[axis], {byte_stride(a, axis), along});
  }
  return nest;
}

// Whether neighbouring outputs are nearer in memory than the elements that one of them reduces.
inline bool prefers_columns(const Nest<2>& kept, int64_t reduced, int64_t reduced_stride) {
  if (kept.ndim == 0) return false;
  const int64_t kept_stride = length_of(kept.strides[kept.ndim - 1][0]);
  const bool short_rows = reduced < kShortRow && kept.shape[kept.ndim - 1] >= kShortRow;
  return short_rows || kept_stride < length_of(reduced_stride);
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
