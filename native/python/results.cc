// The shape and the memory order of a result: the rules that the kernels' fast paths and the array
// interface (needle/ndarray) share.
#include <algorithm>

#include "bindings.h"

namespace needle {
namespace {

// Do the strides show memory without gaps, in whatever order of the axes?
bool is_dense(const View& view) {
  int axes[kMaxDims];
  for (int d = 0; d < view.ndim; ++d) axes[d] = d;
  std::sort(axes, axes + view.ndim, [&](int a, int b) {
    return view.strides[a] != view.strides[b] ? view.strides[a] < view.strides[b]
                                              : view.shape[a] < view.shape[b];
  });
  int64_t step = 1;
  for (int k = 0; k < view.ndim; ++k) {
    const int d = axes[k];
    if (view.shape[d] == 1) continue;
    if (view.strides[d] != step) return false;
    step *= view.shape[d];
  }
  return true;
}

bool has_shape_of(const View& a, const View& out) {
  return a.ndim == out.ndim && std::equal(a.shape, a.shape + a.ndim, out.shape);
}

nb::object joined_shape(nb::handle shapes) {
  View joined, shape;
  joined.ndim = 0;
  for (const nb::handle each : nb::borrow<nb::tuple>(shapes)) {
    read_shape(each, shape, {"broadcast", "shapes"});
    if (const int axis = join_shape(joined, shape); axis < 0) return nb::int_(axis);
  }
  return make_tuple(joined.shape, joined.ndim);
}

nb::object result_strides(nb::handle shape, nb::handle operands) {
  View out;
  read_shape(shape, out, {"empty", "shape"});
  std::vector<View> views;
  for (const nb::handle operand : nb::borrow<nb::tuple>(operands)) {
    const ArrayFields* const array = array_fields(operand);
    if (array == nullptr || array->shape == nullptr || array->strides == nullptr) continue;
    views.emplace_back();
    read_shape(array->shape, views.back(), {"empty", "operands"});
    const int count = read_tuple(array->strides, views.back().strides, {"empty"}, "strides");
    if (count != views.back().ndim) raise_value({"empty"}, "expected a stride for each axis");
  }
  std::vector<const View*> all;
  for (const View& view : views) all.push_back(&view);
  set_result_strides(out, all);
  return is_compact(out) ? nb::none() : make_tuple(out.strides, out.ndim);
}

}  // namespace

int join_shape(View& shape, const View& a) {
  const int added = std::max(0, a.ndim - shape.ndim);
  std::copy_backward(shape.shape, shape.shape + shape.ndim, shape.shape + shape.ndim + added);
  std::fill(shape.shape, shape.shape + added, 1);
  shape.ndim += added;
  for (int d = 0; d < a.ndim; ++d) {
    int64_t& n = shape.shape[shape.ndim - a.ndim + d];
    if (n == 1) n = a.shape[d];
    if (a.shape[d] != 1 && a.shape[d] != n) return d - a.ndim;
  }
  return 0;
}

void set_result_strides(View& out, std::span<const View* const> operands) {
  out.set_compact_strides();
  if (out.ndim < 2) return;
  for (const View* a : operands) {
    if (!has_shape_of(*a, out)) continue;
    if (a->strides[a->ndim - 1] != 1 && is_dense(*a) && !is_compact(*a)) {
      std::copy(a->strides, a->strides + a->ndim, out.strides);
      return;
    }
    if (out.ndim == 2) return;
  }
}

void bind_results(nb::module_& m) {
  using nb::arg;
  m.def(
      "joined_shape", joined_shape, arg("shapes"),
      "The shape that shapes broadcast to; or, as a negative number, the axis where they differ.");
  m.def("result_strides", result_strides, arg("shape"), arg("operands"),
        "The strides of a result of these operands; None if it is row-major.");
}

}  // namespace needle
