// The kernels of needle/backend/protocol.py, as module functions of the same names.
#include <algorithm>
#include <vector>

#include "../common/elementwise.h"
#include "bindings.h"

namespace needle {
namespace {

struct OpInfo {
  const char* name;
  ElementwiseKind kind;
};

constexpr OpInfo kUnaryInfo[] = {
#define UNARY(name, kind, formula) {#name, ElementwiseKind::kind},
#define BINARY(name, kind, formula)
#include "../common/elementwise.def"
#undef UNARY
#undef BINARY
};

constexpr OpInfo kBinaryInfo[] = {
#define UNARY(name, kind, formula)
#define BINARY(name, kind, formula) {#name, ElementwiseKind::kind},
#include "../common/elementwise.def"
#undef UNARY
#undef BINARY
};

// Names of operations as a Python dict to positions: an interned name is found in nanoseconds.
class NameTable {
 public:
  explicit NameTable(const char* kernel) : kernel_(kernel), dict_(PyDict_New()) {}

  NameTable& add(const char* name) {
    nb::object position = nb::steal(PyLong_FromSsize_t(PyDict_Size(dict_)));
    PyDict_SetItemString(dict_, name, position.ptr());
    return *this;
  }

  int position(nb::handle name) const {
    if (!PyUnicode_Check(name.ptr())) {
      raise_type({kernel_, nullptr}, "name must be a str, got %s", Py_TYPE(name.ptr())->tp_name);
    }
    PyObject* const found = PyDict_GetItemWithError(dict_, name.ptr());
    if (found != nullptr) return static_cast<int>(PyLong_AsLong(found));
    if (PyErr_Occurred()) throw nb::python_error();
    const char* const text = PyUnicode_AsUTF8(name.ptr());
    if (text == nullptr) throw nb::python_error();
    raise_value({kernel_, nullptr}, "there is no operation named '%.100s'", text);
  }

 private:
  const char* kernel_;
  PyObject* dict_;  // never freed: tables live as long as the process
};

const NameTable& unary_names() {
  static const NameTable* const table = [] {
    auto* names = new NameTable("unary");
    for (const OpInfo& info : kUnaryInfo) names->add(info.name);
    return names;
  }();
  return *table;
}

const NameTable& binary_names() {
  static const NameTable* const table = [] {
    auto* names = new NameTable("binary");
    for (const OpInfo& info : kBinaryInfo) names->add(info.name);
    return names;
  }();
  return *table;
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

void check_result_dtype(ElementwiseKind kind, DType out, DType input, const char* name) {
  require_dtype(out, kind == ElementwiseKind::predicate ? DType::b8 : input, {name, "out"});
}

[[noreturn]] void raise_undefined(const char* name, DType dtype) {
  raise_type({name, nullptr}, "is not defined for dtype %s", dtype_name(dtype));
}

int read_axis(nb::handle value, int ndim, const char* kernel) {
  const int64_t axis = read_int(value, {kernel, nullptr}, "axis");
  if (axis < -ndim || axis >= ndim) {
    raise_value({kernel, nullptr}, "axis %lld is out of range for %d axes",
                static_cast<long long>(axis), ndim);
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

// A Python number as a 0-d view. It has the array's dtype, except that halves meet it in float32.
struct ScalarOperand {
  alignas(8) char storage[8];

  static bool accepts(nb::handle object) {
    return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
  }

  View read(nb::handle object, DType array_dtype, Site site) {
    const bool is_half = array_dtype == DType::f16 || array_dtype == DType::bf16;
    const DType dtype = is_half ? DType::f32 : array_dtype;
    alignas(8) char number[8];
    View source, target;
    source.data = number;
    source.dtype = DType::f64;
    target.data = storage;
    target.dtype = dtype;
    source.ndim = target.ndim = 0;
    if (PyFloat_Check(object.ptr())) {
      *reinterpret_cast<double*>(number) = PyFloat_AS_DOUBLE(object.ptr());
    } else if (is_floating(dtype)) {
      const double value = PyLong_AsDouble(object.ptr());
      if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
      *reinterpret_cast<double*>(number) = value;
    } else {
      source.dtype = DType::i64;
      *reinterpret_cast<int64_t*>(number) = read_int(object, site, "the scalar");
    }
    kernels().copy(target, source);
    return target;
  }
};

void fill(nb::handle out, nb::handle value) {
  const Operand target = read_output(out, {"fill", "out"});
  if (!ScalarOperand::accepts(value)) {
    raise_type({"fill", "value"}, "expected bool, int or float, got %s",
               Py_TYPE(value.ptr())->tp_name);
  }
  ScalarOperand scalar;
  const DType dtype = target.view.dtype;
  const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
  // float64 to float16 rounds once, so a half takes the number itself.
  const View source = scalar.read(value, is_half ? DType::f64 : dtype, {"fill", "value"});
  const View wide = broadcast(source, target.view.shape, target.view.ndim, {"fill", "value"});
  launch(target.view.size(), {&target.view, &wide}, [](Views v) { kernels().copy(*v[0], *v[1]); });
}

void copy(nb::handle out, nb::handle a) {
  const Operand target = read_output(out, {"copy", "out"});
  const Operand source = read_operand(a, {"copy", "a"});
  const View wide = broadcast(source.view, target.view.shape, target.view.ndim, {"copy", "a"});
  launch(target.view.size(), {&target.view, &wide}, [](Views v) { kernels().copy(*v[0], *v[1]); });
}

void unary(nb::handle name, nb::handle out, nb::handle a) {
  const int position = unary_names().position(name);
  const OpInfo& info = kUnaryInfo[position];
  const auto op = static_cast<UnaryOp>(position);
  const Operand target = read_output(out, {info.name, "out"});
  const Operand source = read_operand(a, {info.name, "a"});
  if (!kernels().has_unary(op, source.view.dtype)) raise_undefined(info.name, source.view.dtype);
  check_result_dtype(info.kind, target.view.dtype, source.view.dtype, info.name);
  const View wide = broadcast(source.view, target.view.shape, target.view.ndim, {info.name, "a"});
  launch(target.view.size(), {&target.view, &wide},
         [op](Views v) { kernels().unary(op, *v[0], *v[1]); });
}

void binary(nb::handle name, nb::handle out, nb::handle a, nb::handle b) {
  const int position = binary_names().position(name);
  const OpInfo& info = kBinaryInfo[position];
  const auto op = static_cast<BinaryOp>(position);
  const Operand target = read_output(out, {info.name, "out"});
  const Site site_a{info.name, "a"}, site_b{info.name, "b"};
  ScalarOperand scalar;
  Operand left, right;
  if (ScalarOperand::accepts(a)) {
    right = read_operand(b, site_b);
    left.view = scalar.read(a, right.view.dtype, site_a);
  } else {
    left = read_operand(a, site_a);
    if (ScalarOperand::accepts(b)) {
      right.view = scalar.read(b, left.view.dtype, site_b);
    } else {
      right = read_operand(b, site_b);
      require_dtype(right.view.dtype, left.view.dtype, site_b);
    }
  }
  const DType dtype = left.handle.is_valid() ? left.view.dtype : right.view.dtype;
  if (!kernels().has_binary(op, dtype)) raise_undefined(info.name, dtype);
  check_result_dtype(info.kind, target.view.dtype, dtype, info.name);
  const View& shape = target.view;
  const View wide_a = broadcast(left.view, shape.shape, shape.ndim, site_a);
  const View wide_b = broadcast(right.view, shape.shape, shape.ndim, site_b);
  launch(shape.size(), {&shape, &wide_a, &wide_b},
         [op](Views v) { kernels().binary(op, *v[0], *v[1], *v[2]); });
}

void where(nb::handle out, nb::handle cond, nb::handle a, nb::handle b) {
  const Operand target = read_output(out, {"where", "out"});
  const View& to = target.view;
  const Operand condition = read_operand(cond, {"where", "cond"});
  const Operand left = read_operand(a, {"where", "a"});
  const Operand right = read_operand(b, {"where", "b"});
  require_dtype(condition.view.dtype, DType::b8, {"where", "cond"});
  require_dtype(left.view.dtype, to.dtype, {"where", "a"});
  require_dtype(right.view.dtype, to.dtype, {"where", "b"});
  const View wide_condition = broadcast(condition.view, to.shape, to.ndim, {"where", "cond"});
  const View wide_a = broadcast(left.view, to.shape, to.ndim, {"where", "a"});
  const View wide_b = broadcast(right.view, to.shape, to.ndim, {"where", "b"});
  launch(to.size(), {&to, &wide_condition, &wide_a, &wide_b},
         [](Views v) { kernels().where(*v[0], *v[1], *v[2], *v[3]); });
}

// The lowest 64 bits of a Python int.
uint64_t read_word(nb::handle value, const char* what) {
  if (!PyLong_Check(value.ptr())) {
    raise_type({"random", nullptr}, "%s must be int, got %s", what, Py_TYPE(value.ptr())->tp_name);
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

void reduce(nb::handle name, nb::handle out, nb::handle a) {
  static const NameTable names =
      NameTable("reduce").add("sum").add("prod").add("max").add("min").add("any").add("all");
  const auto op = static_cast<ReduceOp>(names.position(name));
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
  const bool is_extremum = op == ReduceOp::max || op == ReduceOp::min;
  if (is_extremum) require_dtype(to.dtype, from.dtype, {"reduce", "out"});
  const bool is_test = op == ReduceOp::any || op == ReduceOp::all;
  if (is_test) require_dtype(to.dtype, DType::b8, {"reduce", "out"});
  if (is_extremum && from.size() == 0 && to.size() > 0) {
    raise_value({"reduce", "a"}, "no maximum or minimum of zero elements, shape %s",
                shape_text(from).c_str());
  }
  launch(from.size(), {&to, &from}, [=](Views v) { kernel(op, *v[0], *v[1]); });
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
    raise_type({kernel, "indices"}, "expected a tuple, got %s", Py_TYPE(indices.ptr())->tp_name);
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
    raise_value({kernel, nullptr}, "%d indices into shape %s do not give shape %s", count,
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
  launch_indexed(target.view.size(), {&target.view, &source.view}, views,
                 [=](const View& to, const View& from, const View* index, int count) {
                   kernel(to, from, index, count);
                 });
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
  set_compact_strides(snapshot);
  int64_t count = 0;
  run_kernel(from.size(), [&] {
    kernels().copy(snapshot, from);
    count = count_kernel(snapshot);
  });
  nb::object result = new_buffer(count * from.ndim, DType::i64);
  auto* const coordinates =
      reinterpret_cast<int64_t*>(buffer_of(result, {"nonzero", nullptr}).data());
  run_kernel(from.size(), [&] { kernel(snapshot, coordinates); });
  return result;
}

}  // namespace

void bind_kernels(nb::module_& m) {
  using nb::arg;
  m.def("fill", fill, arg("out"), arg("value"));
  m.def("copy", copy, arg("out"), arg("a"));
  m.def("unary", unary, arg("name"), arg("out"), arg("a"));
  m.def("binary", binary, arg("name"), arg("out"), arg("a"), arg("b"));
  m.def("where", where, arg("out"), arg("cond"), arg("a"), arg("b"));
  m.def("random", random, arg("name"), arg("out"), arg("seed"), arg("offset"));
  m.def("random_from", random_from, arg("name"), arg("out"), arg("counter"));
  m.def("reduce", reduce, arg("name"), arg("out"), arg("a"));
  m.def("arg_reduce", arg_reduce, arg("name"), arg("out"), arg("a"), arg("axis"));
  m.def("scan", scan, arg("name"), arg("out"), arg("a"), arg("axis"));
  m.def("matmul", matmul, arg("out"), arg("a"), arg("b"));
  m.def("gather", gather, arg("out"), arg("a"), arg("indices"));
  m.def("scatter", scatter, arg("name"), arg("out"), arg("indices"), arg("a"));
  m.def("argsort", argsort, arg("out"), arg("a"), arg("axis"), arg("descending"));
  m.def("searchsorted", searchsorted, arg("out"), arg("sorted_"), arg("values"), arg("right"));
  m.def("nonzero", nonzero, arg("a"));
}

}  // namespace needle
