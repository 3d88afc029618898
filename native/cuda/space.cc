#include "space.h"

#include <algorithm>
#include <cstdlib>

namespace needle::cuda {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

// The axes of all views, outermost first.
struct Axis {
  int64_t size;
  std::vector<int64_t> strides;
};

std::vector<Axis> axes_of(std::span<const View* const> views) {
  std::vector<Axis> axes;
  for (int d = 0; d < views[0]->ndim; ++d) {
    if (views[0]->shape[d] == 1) continue;
    axes.push_back({views[0]->shape[d], {}});
    for (const View* const view : views) axes.back().strides.push_back(view->strides[d]);
  }
  // Neighbours in the output's memory are to be neighbours in a warp.
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::abs(a.strides[0]) > std::abs(b.strides[0]);
  });
  return axes;
}

// Is axis `a` a step over all of axis b, in every operand?
bool continues(const Axis& a, const Axis& b) {
  for (size_t n = 0; n < a.strides.size(); ++n) {
    if (a.strides[n] != b.strides[n] * b.size) return false;
  }
  return true;
}

std::vector<Axis> joined(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (!result.empty() && continues(result.back(), axis)) {
      const int64_t outer = result.back().size;
      result.back() = axis;
      result.back().size *= outer;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

int rank_of(size_t axes) { return axes <= 1 ? 1 : axes <= 2 ? 2 : axes <= 4 ? 4 : 8; }

void visit(const std::vector<Axis>& axes, const std::vector<int64_t>& starts,
           const std::function<void(Space&)>& body) {
  int64_t size = 1;
  for (const Axis& axis : axes) size *= axis.size;
  if (axes.size() > Space::kMaxRank || size >= kMostElements) {
    Axis first = axes[0];  // cut along the outermost axis
    const bool is_long = axes.size() == 1;
    const int64_t step = is_long ? kMostElements / 2 : 1;
    for (int64_t i = 0; i < first.size; i += step) {
      std::vector<Axis> inner(axes.begin() + !is_long, axes.end());
      if (is_long) inner[0].size = std::min(step, first.size - i);
      std::vector<int64_t> moved = starts;
      for (size_t n = 0; n < moved.size(); ++n) moved[n] += i * first.strides[n];
      visit(inner, moved, body);
    }
    return;
  }
  Space space = {rank_of(axes.size()), static_cast<uint32_t>(size), {}, {}, starts};
  const size_t missing = static_cast<size_t>(space.rank) - axes.size();
  std::fill_n(space.shape, space.rank, 1);
  space.strides.resize(starts.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    space.shape[missing + d] = static_cast<uint32_t>(axes[d].size);
    for (size_t n = 0; n < starts.size(); ++n) space.strides[n][missing + d] = axes[d].strides[n];
  }
  body(space);
}

}  // namespace

void for_each_space(std::span<const View* const> views, const std::function<void(Space&)>& body) {
  if (views[0]->size() == 0) return;
  visit(joined(axes_of(views)), std::vector<int64_t>(views.size()), body);
}

}  // namespace needle::cuda
