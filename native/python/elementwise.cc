// Kernels that work element by element, and their common calls with the result in a new array.
#include <algorithm>

#include "bindings.h"
#include "common/elementwise.h"

namespace needle {
namespace {

struct OpInfo {
  const char* name;
  ElementwiseKind kind;
};

constexpr OpInfo kUnaryInfo[] = {
#define UNARY(name, kind, ...) {#name, ElementwiseKind::kind},
#include "common/elementwise.def"
};

constexpr OpInfo kBinaryInfo[] = {
#define BINARY(name, kind, ...) {#name, ElementwiseKind::kind},
#include "common/elementwise.def"
};

constexpr const char* kKinds[] = {"same", "number", "integer", "bits", "floating", "predicate"};

// The kind of each function, by name.
template <size_t kCount>
nb::dict kinds_of(const OpInfo (&functions)[kCount]) {
  nb::dict kinds;
  for (const OpInfo& info : functions) kinds[info.name] = kKinds[static_cast<int>(info.kind)];
  return kinds;
}

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

void check_result_dtype(ElementwiseKind kind, DType out, DType input, const char* name) {
  require_dtype(out, kind == ElementwiseKind::predicate ? DType::b8 : input, {name, "out"});
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
    raise_type({"fill", "value"}, "expected bool, int or float, got %s", class_name(value).c_str());
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

// The operands of a binary operation: two arrays of one dtype, or an array and a number.
struct Pair {
  Operand left, right;
  ScalarOperand scalar;
  DType dtype;

  Pair(nb::handle a, nb::handle b, const char* name) {
    const Site site_a{name, "a"}, site_b{name, "b"};
    if (ScalarOperand::accepts(a)) {
      right = read_operand(b, site_b);
      dtype = right.view.dtype;
      left.view = scalar.read(a, dtype, site_a);
      return;
    }
    left = read_operand(a, site_a);
    dtype = left.view.dtype;
    if (ScalarOperand::accepts(b)) {
      right.view = scalar.read(b, dtype, site_b);
    } else {
      right = read_operand(b, site_b);
      require_dtype(right.view.dtype, dtype, site_b);
    }
  }
  Pair(const Pair&) = delete;  // a number's view points into it
  Pair& operator=(const Pair&) = delete;

  void launch_on(BinaryOp op, const View& out, const char* name) const {
    const View wide_a = broadcast(left.view, out.shape, out.ndim, {name, "a"});
    const View wide_b = broadcast(right.view, out.shape, out.ndim, {name, "b"});
    launch(out.size(), {&out, &wide_a, &wide_b},
           [op](Views v) { kernels().binary(op, *v[0], *v[1], *v[2]); });
  }
};

void binary(nb::handle name, nb::handle out, nb::handle a, nb::handle b) {
  const int position = binary_names().position(name);
  const OpInfo& info = kBinaryInfo[position];
  const auto op = static_cast<BinaryOp>(position);
  const Operand target = read_output(out, {info.name, "out"});
  const Pair pair(a, b, info.name);
  if (!kernels().has_binary(op, pair.dtype)) raise_undefined(info.name, pair.dtype);
  check_result_dtype(info.kind, target.view.dtype, pair.dtype, info.name);
  pair.launch_on(op, target.view, info.name);
}

void launch_where(const View& to, const View& condition, const View& a, const View& b) {
  const View wide_condition = broadcast(condition, to.shape, to.ndim, {"where", "cond"});
  const View wide_a = broadcast(a, to.shape, to.ndim, {"where", "a"});
  const View wide_b = broadcast(b, to.shape, to.ndim, {"where", "b"});
  launch(to.size(), {&to, &wide_condition, &wide_a, &wide_b},
         [](Views v) { kernels().where(*v[0], *v[1], *v[2], *v[3]); });
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
  launch_where(to, condition.view, left.view, right.view);
}

// Results in new arrays ---------------------------------------------------------------------------

nb::object new_unary(nb::handle name, nb::handle a) {
  const ArrayFields* const like = array_fields(a);
  if (like == nullptr || !is_floating_array(*like)) return nb::none();
  const int position = unary_names().position(name);
  const OpInfo& info = kUnaryInfo[position];
  const auto op = static_cast<UnaryOp>(position);
  const Operand source = read_operand(a, {info.name, "a"});
  const bool is_known = kernels().has_unary(op, source.view.dtype);
  if (!is_known || info.kind == ElementwiseKind::predicate) return nb::none();
  const View* const operands[] = {&source.view};
  View out;
  nb::object result = new_array(*like, like->dtype, source.view, operands, out);
  launch(out.size(), {&out, &source.view}, [op](Views v) { kernels().unary(op, *v[0], *v[1]); });
  return result;
}

// Finds the shape that operands have in common; false where there is none.
bool join_shapes(std::span<const View* const> operands, View& shape) {
  shape.ndim = 0;
  for (const View* view : operands) {
    if (join_shape(shape, *view) < 0) return false;
  }
  return true;
}

nb::handle bool_dtype() {
  static const PyObject* const dtype =
      nb::object(nb::module_::import_("needle.dtype").attr("bool_")).release().ptr();
  return const_cast<PyObject*>(dtype);
}

nb::object new_binary(nb::handle name, nb::handle a, nb::handle b) {
  const ArrayFields *const left = array_fields(a), *const right = array_fields(b);
  const ArrayFields* const like = left != nullptr ? left : right;
  for (const ArrayFields* const array : {left, right}) {
    if (array != nullptr && !is_floating_array(*array)) return nb::none();
  }
  const bool is_plain = left == nullptr    ? right != nullptr && ScalarOperand::accepts(a)
                        : right == nullptr ? ScalarOperand::accepts(b)
                                           : left->dtype == right->dtype;
  if (!is_plain) return nb::none();
  const int position = binary_names().position(name);
  const OpInfo& info = kBinaryInfo[position];
  const auto op = static_cast<BinaryOp>(position);
  const Pair pair(a, b, info.name);
  const bool is_known = kernels().has_binary(op, pair.dtype);
  const View* const operands[] = {&pair.left.view, &pair.right.view};
  View shape, out;
  if (!is_known || !join_shapes(operands, shape)) return nb::none();
  const bool is_predicate = info.kind == ElementwiseKind::predicate;
  shape.dtype = is_predicate ? DType::b8 : pair.dtype;
  const nb::handle dtype = is_predicate ? bool_dtype() : nb::handle(like->dtype);
  nb::object result = new_array(*like, dtype, shape, operands, out);
  pair.launch_on(op, out, info.name);
  return result;
}

nb::object new_where(nb::handle cond, nb::handle a, nb::handle b) {
  const ArrayFields* const all[] = {array_fields(cond), array_fields(a), array_fields(b)};
  for (const ArrayFields* const array : all) {
    if (array == nullptr || !is_plain_array(*array)) return nb::none();
  }
  const Operand condition = read_operand(cond, {"where", "cond"});
  const Operand left = read_operand(a, {"where", "a"}), right = read_operand(b, {"where", "b"});
  const View* const operands[] = {&left.view, &right.view, &condition.view};
  const DType dtype = left.view.dtype;
  if (condition.view.dtype != DType::b8 || right.view.dtype != dtype) return nb::none();
  View shape, out;
  if (!join_shapes(operands, shape)) return nb::none();
  shape.dtype = dtype;
  nb::object result = new_array(*all[1], all[1]->dtype, shape, operands, out);
  launch_where(out, condition.view, left.view, right.view);
  return result;
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  using nb::arg;
  m.attr("UNARY") = kinds_of(kUnaryInfo);
  m.attr("BINARY") = kinds_of(kBinaryInfo);
  m.def("fill", fill, arg("out"), arg("value"));
  m.def("copy", copy, arg("out"), arg("a"));
  m.def("unary", unary, arg("name"), arg("out"), arg("a"));
  m.def("binary", binary, arg("name"), arg("out"), arg("a"), arg("b"));
  m.def("where", where, arg("out"), arg("cond"), arg("a"), arg("b"));
  m.def("new_unary", new_unary, arg("name"), arg("a"),
        "The kernel on a floating array of this device, in a new array; None where there is more "
        "to decide.");
  m.def("new_binary", new_binary, arg("name"), arg("a"), arg("b"),
        "The same for two arrays of one dtype, or one and a number.");
  m.def("new_where", new_where, arg("cond"), arg("a"), arg("b"),
        "The same for bools and two arrays of one dtype.");
}

}  // namespace needle
