// Reductions, scans and weighted sums, and the common call of a reduction with the result in a new
// array.
#include <utility>

#include "bindings.h"
#include "common/reduce.h"

namespace needle {
namespace {

const NameTable& reduce_names() {
  static const NameTable* const table = [] {
    auto* names = new NameTable("reduce");
    for (const ReduceInfo& info : kReduceInfo) names->add(info.name);
    return names;
  }();
  return *table;
}

void reduce(nb::handle name, nb::handle out, nb::handle a) {
  const auto op = static_cast<ReduceOp>(reduce_names().position(name));
  const auto kernel = kernels().reduce;
  const Operand target = read_output(out, {"reduce", "out"});
  const Operand source = read_operand(a, {"reduce", "a"});
  const View &to = target.view, &from = source.view;
  bool fits = to.ndim == from.ndim;
  for (int d = 0; fits && d < to.ndim; ++d) fits = to.shape[d] == 1 || to.shape[d] == from.shape[d];
  if (!fits) {
    raise_value({"reduce", "out"}, "shape %s is not %s with reduced axes of size 1",
                shape_text(to).c_str(), shape_text(from).c_str());
  }
  const bool is_extreme = kind_of(op) == ReduceKind::extreme;
  if (is_extreme) require_dtype(to.dtype, from.dtype, {"reduce", "out"});
  const bool is_truth = kind_of(op) == ReduceKind::truth;
  if (is_truth) require_dtype(to.dtype, DType::b8, {"reduce", "out"});
  if (is_extreme && from.size() == 0 && to.size() > 0) {
    raise_value({"reduce", "a"}, "no maximum or minimum of zero elements, shape %s",
                shape_text(from).c_str());
  }
  launch(from.size(), {&to, &from}, [=](Views v) { kernel(op, *v[0], *v[1]); });
}

// The axes of a new_reduce: None, an int, or a tuple of them, each once and in range. False for all
// else, which is Python's to explain.
bool mark_axes(nb::handle axes, int ndim, bool* reduced) {
  for (int d = 0; d < ndim; ++d) reduced[d] = axes.is_none();
  const auto mark = [&](PyObject* axis) {
    if (!PyLong_CheckExact(axis)) return false;
    int overflow;
    const long value = PyLong_AsLongAndOverflow(axis, &overflow);
    if (overflow != 0 || value < -ndim || value >= ndim) return false;
    bool& place = reduced[value < 0 ? value + ndim : value];
    return !std::exchange(place, true);
  };
  if (axes.is_none()) return true;
  if (!PyTuple_CheckExact(axes.ptr())) return mark(axes.ptr());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(axes.ptr()); ++i) {
    if (!mark(PyTuple_GET_ITEM(axes.ptr(), i))) return false;
  }
  return PyTuple_GET_SIZE(axes.ptr()) > 0;
}

nb::object new_reduce(nb::handle name, nb::handle a, nb::handle axes, bool keepdims) {
  const ArrayFields* const like = array_fields(a);
  if (like == nullptr || !is_floating_array(*like)) return nb::none();
  const auto op = static_cast<ReduceOp>(reduce_names().position(name));
  const Operand source = read_operand(a, {"reduce", "a"});
  const View& from = source.view;
  bool reduced[kMaxDims];
  if (kind_of(op) == ReduceKind::truth || from.ndim == 0 || from.size() == 0 ||
      !mark_axes(axes, from.ndim, reduced)) {
    return nb::none();
  }
  View shape, out, kept;  // of the result, with its memory, and with all axes
  shape.dtype = kept.dtype = from.dtype;
  shape.ndim = 0;
  kept.ndim = from.ndim;
  for (int d = 0; d < from.ndim; ++d) {
    kept.shape[d] = reduced[d] ? 1 : from.shape[d];
    if (keepdims || !reduced[d]) shape.shape[shape.ndim++] = kept.shape[d];
  }
  nb::object result = new_array(*like, like->dtype, shape, {}, out);
  kept.set_compact_strides();
  kept.data = out.data;
  launch(from.size(), {&kept, &from}, [op](Views v) { kernels().reduce(op, *v[0], *v[1]); });
  return result;
}

void arg_reduce(nb::handle name, nb::handle out, nb::handle a, nb::handle axis) {
  static const NameTable names = NameTable("arg_reduce").add("argmax").add("argmin");
  const auto op = static_cast<ArgOp>(names.position(name));
  const auto kernel = kernels().arg_reduce;
  const Operand target = read_output(out, {"arg_reduce", "out"});
  const Operand source = read_operand(a, {"arg_reduce", "a"});
  const int dim = read_axis(axis, source.view.ndim, "arg_reduce");
  require_dtype(target.view.dtype, DType::i64, {"arg_reduce", "out"});
  View expected = source.view;
  expected.shape[dim] = 1;
  require_shape(target.view, expected.shape, expected.ndim, {"arg_reduce", "out"});
  if (source.view.shape[dim] == 0 && expected.size() > 0) {
    raise_value({"arg_reduce", "a"}, "axis %d of shape %s is empty", dim,
                shape_text(source.view).c_str());
  }
  launch(source.view.size(), {&target.view, &source.view},
         [=](Views v) { kernel(op, *v[0], *v[1], dim); });
}

void scan(nb::handle name, nb::handle out, nb::handle a, nb::handle axis) {
  static const NameTable names = NameTable("scan").add("cumsum").add("cumprod");
  const auto op = static_cast<ScanOp>(names.position(name));
  const auto kernel = kernels().scan;
  const Operand target = read_output(out, {"scan", "out"});
  const Operand source = read_operand(a, {"scan", "a"});
  const int dim = read_axis(axis, source.view.ndim, "scan");
  require_shape(target.view, source.view.shape, source.view.ndim, {"scan", "out"});
  launch(source.view.size(), {&target.view, &source.view},
         [=](Views v) { kernel(op, *v[0], *v[1], dim); });
}

void mix(nb::handle out, nb::handle a, nb::handle starts, nb::handle places, nb::handle weights,
         nb::handle axis) {
  const auto kernel = kernels().mix;
  const Operand target = read_output(out, {"mix", "out"});
  const Operand source = read_operand(a, {"mix", "a"});
  const Operand rows = read_operand(starts, {"mix", "starts"});
  const Operand columns = read_operand(places, {"mix", "places"});
  const Operand factors = read_operand(weights, {"mix", "weights"});
  const int dim = read_axis(axis, source.view.ndim, "mix");
  if (target.view.dtype != DType::f32) require_dtype(target.view.dtype, DType::f64, {"mix", "out"});
  require_dtype(source.view.dtype, target.view.dtype, {"mix", "a"});
  require_dtype(factors.view.dtype, target.view.dtype, {"mix", "weights"});
  require_dtype(rows.view.dtype, DType::i64, {"mix", "starts"});
  require_dtype(columns.view.dtype, DType::i64, {"mix", "places"});
  if (rows.view.ndim != 1 || rows.view.shape[0] < 1) {
    raise_value({"mix", "starts"}, "expected one axis, not empty, got shape %s",
                shape_text(rows.view).c_str());
  }
  if (columns.view.ndim != 1) {
    raise_value({"mix", "places"}, "expected one axis, got shape %s",
                shape_text(columns.view).c_str());
  }
  require_shape(factors.view, columns.view.shape, 1, {"mix", "weights"});
  View expected = source.view;
  expected.shape[dim] = rows.view.shape[0] - 1;
  require_shape(target.view, expected.shape, expected.ndim, {"mix", "out"});
  launch(2 * target.view.size(),
         {&target.view, &source.view, &rows.view, &columns.view, &factors.view},
         [=](Views v) { kernel(*v[0], *v[1], *v[2], *v[3], *v[4], dim); });
}

}  // namespace

void bind_reductions(nb::module_& m) {
  using nb::arg;
  constexpr const char* kKinds[] = {"total", "extreme", "truth"};
  nb::dict table;
  for (const ReduceInfo& info : kReduceInfo) {
    table[info.name] = nb::make_tuple(kKinds[static_cast<int>(info.kind)], info.nothing);
  }
  m.attr("REDUCE") = table;
  m.def("reduce", reduce, arg("name"), arg("out"), arg("a"));
  m.def("new_reduce", new_reduce, arg("name"), arg("a"), arg("axes").none(), arg("keepdims"),
        "Over some axes of a floating array of this device, in a new array; None where there is "
        "more to decide.");
  m.def("arg_reduce", arg_reduce, arg("name"), arg("out"), arg("a"), arg("axis"));
  m.def("scan", scan, arg("name"), arg("out"), arg("a"), arg("axis"));
  m.def("mix", mix, arg("out"), arg("a"), arg("starts"), arg("places"), arg("weights"),
        arg("axis"));
}

}  // namespace needle
