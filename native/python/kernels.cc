// The kernels of needle/backend/protocol.py, as module functions of the same names; those that work
// element by element and reductions have files of their own.
#include <algorithm>
#include <vector>

#include "bindings.h"

namespace needle {
namespace {

// The lowest 64 bits of a Python int.
uint64_t read_word(nb::handle value, const char* what) {
  if (!PyLong_Check(value.ptr())) {
    raise_type({"random"}, "%s must be int, got %s", what, class_name(value).c_str());
  }
  return PyLong_AsUnsignedLongLongMask(value.ptr());
}

const NameTable& random_names() {
  static const NameTable names = NameTable("random").add("uniform").add("normal");
  return names;
}

Operand read_random_output(nb::handle out) {
  Operand target = read_output(out, {"random", "out"});
  if (!is_floating(target.view.dtype)) raise_undefined("random", target.view.dtype);
  if (!is_compact(target.view)) raise_value({"random", "out"}, "must be compact");
  return target;
}

void random(nb::handle name, nb::handle out, nb::handle seed, nb::handle offset) {
  const auto op = static_cast<RandomOp>(random_names().position(name));
  const Operand target = read_random_output(out);
  const uint64_t key = read_word(seed, "seed"), first = read_word(offset, "offset");
  launch(4 * target.view.size(), {&target.view},
         [op, key, first](Views v) { kernels().random(op, *v[0], key, first); });
}

// As random, with the seed and the offset read from memory when it runs.
void random_from(nb::handle name, nb::handle out, nb::handle counter) {
  const auto op = static_cast<RandomOp>(random_names().position(name));
  const Operand target = read_random_output(out);
  const Operand source = read_operand(counter, {"random", "counter"});
  require_dtype(source.view.dtype, DType::i64, {"random", "counter"});
  constexpr int64_t kTwo = 2;
  require_shape(source.view, &kTwo, 1, {"random", "counter"});
  launch(4 * target.view.size(), {&target.view, &source.view}, [op](Views v) {
    const auto* const words = reinterpret_cast<const uint64_t*>(v[1]->data);
    kernels().random(op, *v[0], words[0], words[v[1]->strides[0]]);
  });
}

void matmul(nb::handle out, nb::handle a, nb::handle b) {
  const auto kernel = kernels().matmul;
  const Operand target = read_output(out, {"matmul", "out"});
  const Operand left = read_operand(a, {"matmul", "a"});
  const Operand right = read_operand(b, {"matmul", "b"});
  const View& to = target.view;
  const Factors factors = read_factors(left.view, right.view, to, to.dtype, "matmul");
  launch(factors.work, {&to, &factors.a, &factors.b},
         [=](Views v) { kernel(*v[0], *v[1], *v[2]); });
}

// The index operands of gather and scatter, broadcast to the first axes of `values`, which holds
// one element (or row) per index; `array` is what the indices point into.
std::vector<Operand> read_indices(nb::handle indices, const View& values, const View& array,
                                  const char* kernel, std::vector<View>& views) {
  if (!PyTuple_Check(indices.ptr())) {
    raise_type({kernel, "indices"}, "expected a tuple, got %s", class_name(indices).c_str());
  }
  const auto count = static_cast<int>(PyTuple_GET_SIZE(indices.ptr()));
  if (count < 1 || count > array.ndim) {
    raise_value({kernel, "indices"}, "expected 1 to %d index arrays, got %d", array.ndim, count);
  }
  const int leading = values.ndim - (array.ndim - count);
  bool fits = leading >= 0;
  for (int d = count; fits && d < array.ndim; ++d) {
    fits = values.shape[leading + d - count] == array.shape[d];
  }
  if (!fits) {
    raise_value({kernel}, "%d indices into shape %s do not give shape %s", count,
                shape_text(array).c_str(), shape_text(values).c_str());
  }
  require_dtype(values.dtype, array.dtype, {kernel, "out"});
  std::vector<Operand> operands;
  for (int i = 0; i < count; ++i) {
    operands.push_back(read_operand(PyTuple_GET_ITEM(indices.ptr(), i), {kernel, "indices"}));
    require_dtype(operands[static_cast<size_t>(i)].view.dtype, DType::i64, {kernel, "indices"});
    views.push_back(broadcast(operands[static_cast<size_t>(i)].view, values.shape, leading,
                              {kernel, "indices"}));
  }
  return operands;
}

// Launches kernel(out, a, indices, count); the indices stand side by side when it runs.
template <class F>
void launch_indexed(int64_t work, std::initializer_list<const View*> operands,
                    const std::vector<View>& indices, const F& kernel) {
  std::vector<const View*> all(operands);
  for (const View& index : indices) all.push_back(&index);
  const auto count = static_cast<int>(indices.size());
  launch(work, all, [kernel, count](Views v) {
    std::vector<View> side_by_side;
    for (int i = 0; i < count; ++i) side_by_side.push_back(*v[2 + i]);
    kernel(*v[0], *v[1], side_by_side.data(), count);
  });
}

void gather(nb::handle out, nb::handle a, nb::handle indices) {
  const auto kernel = kernels().gather;
  const Operand target = read_output(out, {"gather", "out"});
  const Operand source = read_operand(a, {"gather", "a"});
  std::vector<View> views;
  const auto held = read_indices(indices, target.view, source.view, "gather", views);
  launch_indexed(target.view.size(), {&target.view, &source.view}, views, kernel);
}

void scatter(nb::handle name, nb::handle out, nb::handle indices, nb::handle a) {
  static const NameTable names = NameTable("scatter").add("set").add("add");
  const auto op = static_cast<ScatterOp>(names.position(name));
  const auto kernel = kernels().scatter;
  const Operand target = read_output(out, {"scatter", "out"});
  const Operand source = read_operand(a, {"scatter", "a"});
  std::vector<View> views;
  const auto held = read_indices(indices, source.view, target.view, "scatter", views);
  launch_indexed(source.view.size(), {&target.view, &source.view}, views,
                 [=](const View& to, const View& from, const View* index, int count) {
                   kernel(op, to, index, count, from);
                 });
}

void argsort(nb::handle out, nb::handle a, nb::handle axis, bool descending) {
  const auto kernel = kernels().argsort;
  const Operand target = read_output(out, {"argsort", "out"});
  const Operand source = read_operand(a, {"argsort", "a"});
  const int dim = read_axis(axis, source.view.ndim, "argsort");
  require_dtype(target.view.dtype, DType::i64, {"argsort", "out"});
  View wanted = source.view;  // all of the axis, or the first of the order
  if (target.view.ndim == wanted.ndim) {
    wanted.shape[dim] = std::min(wanted.shape[dim], target.view.shape[dim]);
  }
  require_shape(target.view, wanted.shape, wanted.ndim, {"argsort", "out"});
  launch(8 * source.view.size(), {&target.view, &source.view},
         [=](Views v) { kernel(*v[0], *v[1], dim, descending); });
}

void searchsorted(nb::handle out, nb::handle sorted, nb::handle values, bool right) {
  const auto kernel = kernels().searchsorted;
  const Operand target = read_output(out, {"searchsorted", "out"});
  const Operand order = read_operand(sorted, {"searchsorted", "sorted_"});
  const Operand source = read_operand(values, {"searchsorted", "values"});
  require_dtype(target.view.dtype, DType::i64, {"searchsorted", "out"});
  require_dtype(source.view.dtype, order.view.dtype, {"searchsorted", "values"});
  require_shape(target.view, source.view.shape, source.view.ndim, {"searchsorted", "out"});
  if (order.view.ndim != 1) {
    raise_value({"searchsorted", "sorted_"}, "expected one axis, got shape %s",
                shape_text(order.view).c_str());
  }
  launch(8 * source.view.size(), {&target.view, &order.view, &source.view},
         [=](Views v) { kernel(*v[0], *v[1], *v[2], right); });
}

// Counts and lists the same snapshot: another thread may write to `a` meanwhile.
nb::object nonzero(nb::handle a) {
  const auto count_kernel = kernels().count_nonzero;
  const auto kernel = kernels().nonzero;
  const Operand source = read_operand(a, {"nonzero", "a"});
  const View& from = source.view;
  const Buffer truth(from.size(), DType::b8);
  View snapshot = from;
  snapshot.data = truth.data();
  snapshot.dtype = DType::b8;
  snapshot.set_compact_strides();
  int64_t count = 0;
  run_kernel(from.size(), [&] {
    kernels().copy(snapshot, from);
    count = count_kernel(snapshot);
  });
  nb::object result = new_buffer(count * from.ndim, DType::i64);
  auto* const coordinates = reinterpret_cast<int64_t*>(buffer_of(result, {"nonzero"}).data());
  run_kernel(from.size(), [&] { kernel(snapshot, coordinates); });
  return result;
}

}  // namespace

void bind_kernels(nb::module_& m) {
  using nb::arg;
  m.def("random", random, arg("name"), arg("out"), arg("seed"), arg("offset"));
  m.def("random_from", random_from, arg("name"), arg("out"), arg("counter"));
  m.def("matmul", matmul, arg("out"), arg("a"), arg("b"));
  m.def("gather", gather, arg("out"), arg("a"), arg("indices"));
  m.def("scatter", scatter, arg("name"), arg("out"), arg("indices"), arg("a"));
  m.def("argsort", argsort, arg("out"), arg("a"), arg("axis"), arg("descending"));
  m.def("searchsorted", searchsorted, arg("out"), arg("sorted_"), arg("values"), arg("right"));
  m.def("nonzero", nonzero, arg("a"));
}

}  // namespace needle
