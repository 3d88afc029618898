// Tile programs: run, run_each, matmul_then, matmul_of and conv_then of needle/backend/protocol.py.
#include <memory>
#include <stdexcept>
#include <vector>

#include "bindings.h"
#include "tile/blocking.h"
#include "tile/program.h"

namespace needle {
namespace {

// Decoded programs by their code. Programs are few and live as long as the process.
const TileProgram& find_program(nb::handle program) {
  static PyObject* const known = PyDict_New();
  static PyObject* const name = PyUnicode_InternFromString("code");
  const nb::object code = checked(PyObject_GetAttr(program.ptr(), name));
  if (!PyBytes_Check(code.ptr())) {
    raise_type({"run", "program"}, "code must be bytes, got %s", class_name(code).c_str());
  }
  PyObject* const found = PyDict_GetItemWithError(known, code.ptr());
  if (found != nullptr) {
    return *static_cast<const TileProgram*>(PyCapsule_GetPointer(found, nullptr));
  }
  if (PyErr_Occurred()) throw nb::python_error();
  auto decoded = std::make_unique<TileProgram>();
  try {
    decode_program(PyBytes_AS_STRING(code.ptr()), PyBytes_GET_SIZE(code.ptr()), *decoded);
  } catch (const std::invalid_argument& error) {
    throw nb::value_error(error.what());
  }
  const nb::object capsule = checked(PyCapsule_New(decoded.get(), nullptr, nullptr));
  if (PyDict_SetItem(known, code.ptr(), capsule.ptr()) != 0) throw nb::python_error();
  return *decoded.release();
}

std::vector<nb::object> read_sequence(nb::handle sequence, const char* role) {
  const nb::object fast = nb::steal(PySequence_Fast(sequence.ptr(), ""));
  if (!fast.is_valid()) {
    PyErr_Clear();
    raise_type({"run", role}, "expected a tuple, got %s", class_name(sequence).c_str());
  }
  std::vector<nb::object> items;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
  for (Py_ssize_t i = 0; i < count; ++i) {
    items.push_back(nb::borrow(PySequence_Fast_GET_ITEM(fast.ptr(), i)));
  }
  return items;
}

// The operands of one call, outputs first, broadcast to the shape that the program runs over.
class Call {
 public:
  // `product` is the first input, if it is given.
  Call(const TileProgram& program, nb::handle outs, nb::handle ins, int inner,
       const Operand* product = nullptr)
      : program_(program), inner_(inner) {
    operands_.reserve(static_cast<size_t>(program.n_outputs + program.n_inputs));
    read(outs, 0, program.n_outputs, "outs");
    if (product != nullptr) operands_.push_back(*product);
    read(ins, product == nullptr ? 0 : 1, program.n_inputs, "ins");
    broadcast_all();
  }

  // Of a program without rows, whose one output is `result`.
  Call(const TileProgram& program, const Operand& result, nb::handle ins)
      : program_(program), inner_(0) {
    operands_.push_back(result);
    read(ins, 0, program.n_inputs, "ins");
    broadcast_all();
  }

  int64_t work() const { return views_.empty() ? 0 : 4 * views_[0].size(); }
  const std::vector<const View*>& operands() const { return pointers_; }

 private:
  void broadcast_all() {
    find_shape();
    if (inner_ < 0 || inner_ > shape_.ndim) {
      raise_value({"run", "inner"}, "expected 0 to %d axes, got %d", shape_.ndim, inner_);
    }
    views_.resize(operands_.size());
    for (size_t k = 0; k < operands_.size(); ++k) {
      check_shape(static_cast<int>(k));
      views_[k] = broadcast(operands_[k].view, shape_.shape, shape_.ndim, {"run", role(k)});
    }
    for (const View& view : views_) pointers_.push_back(&view);
  }

  const char* role(size_t k) const {
    return k < static_cast<size_t>(program_.n_outputs) ? "outs" : "ins";
  }

  void read(nb::handle sequence, int first, int end, const char* name) {
    const std::vector<nb::object> items = read_sequence(sequence, name);
    const auto count = static_cast<int>(items.size());
    if (count != end - first) {
      raise_value({"run", name}, "expected %d, got %d", end - first, count);
    }
    const bool is_output = name[0] == 'o';
    for (int k = first; k < end; ++k) {
      const nb::object& item = items[static_cast<size_t>(k - first)];
      operands_.push_back(is_output ? read_output(item, {"run", name})
                                    : read_operand(item, {"run", name}));
      const DType dtype = is_output ? program_.output_dtype[k] : program_.input_dtype[k];
      require_dtype(operands_.back().view.dtype, dtype, {"run", name});
    }
  }

  void find_shape() {
    shape_.ndim = 0;
    for (size_t k = 0; k < operands_.size(); ++k) {
      const View& view = operands_[k].view;
      if (join_shape(shape_, view) < 0) {
        raise_value({"run", role(k)}, "shape %s does not broadcast with the others to %s",
                    shape_text(view).c_str(), shape_text(shape_).c_str());
      }
    }
  }

  // Outputs have the shape of their kind; row and scalar inputs are not wider than that.
  void check_shape(int k) const {
    const bool is_output = k < program_.n_outputs;
    const ValueKind kind =
        is_output ? program_.output_kind[k] : program_.input_kind[k - program_.n_outputs];
    if (!is_output && kind == ValueKind::full) return;
    const View& view = operands_[static_cast<size_t>(k)].view;
    bool fits = true;
    for (int d = 0; d < shape_.ndim; ++d) {
      const int own = d - (shape_.ndim - view.ndim);
      const int64_t n = own < 0 ? 1 : view.shape[own];
      const bool in_row = d >= shape_.ndim - inner_;
      const bool is_spanned = kind == ValueKind::full || (kind == ValueKind::row && !in_row) ||
                              (kind == ValueKind::column && in_row);
      const int64_t expected = is_spanned ? shape_.shape[d] : 1;
      fits = fits && (n == expected || (!is_output && n == 1));
    }
    if (fits) return;
    constexpr const char* kNames[] = {"scalar", "row", "full", "column"};
    raise_value({"run", role(static_cast<size_t>(k))},
                "shape %s is not that of a %s value, for rows of %d axes in shape %s",
                shape_text(view).c_str(), kNames[static_cast<int>(kind)], inner_,
                shape_text(shape_).c_str());
  }

  const TileProgram& program_;
  const int inner_;
  std::vector<Operand> operands_;
  std::vector<View> views_;
  std::vector<const View*> pointers_;
  View shape_;
};

void run_on(const TileProgram& program, nb::handle outs, nb::handle ins, int inner) {
  const Call call(program, outs, ins, inner);
  launch(call.work(), call.operands(),
         [&program, inner](Views v) { kernels().run_program(program, v, inner); });
}

void run(nb::handle program, nb::handle outs, nb::handle ins, int inner) {
  run_on(find_program(program), outs, ins, inner);
}

// Results in new arrays ---------------------------------------------------------------------------

// The typed program that Program.for_dtypes made for these arrays before; null if it did not, or if
// an array is not a plain one.
nb::object find_typed(nb::handle program, nb::handle arrays) {
  static PyObject* const name = PyUnicode_InternFromString("_typed");
  const Py_ssize_t count = PyTuple_GET_SIZE(arrays.ptr());
  const nb::object dtypes = checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const ArrayFields* const array = array_fields(PyTuple_GET_ITEM(arrays.ptr(), i));
    if (array == nullptr || !is_plain_array(*array)) return {};
    PyTuple_SET_ITEM(dtypes.ptr(), i, Py_NewRef(array->dtype));
  }
  const nb::object known = checked(PyObject_GetAttr(program.ptr(), name));
  const nb::object key = checked(PyTuple_Pack(2, dtypes.ptr(), Py_None));
  PyObject* const found = PyDict_GetItemWithError(known.ptr(), key.ptr());
  if (found == nullptr && PyErr_Occurred()) throw nb::python_error();
  return nb::borrow(found);
}

// The arrays that a program reads, and the shape that it runs over; false if there is none.
bool find_space(nb::handle arrays, std::vector<Operand>& operands, View& space) {
  space.ndim = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arrays.ptr()); ++i) {
    operands.push_back(read_operand(PyTuple_GET_ITEM(arrays.ptr(), i), {"run", "ins"}));
    if (join_shape(space, operands.back().view) < 0) return false;
  }
  return true;
}

// How many axes the row has; -1 if it is not made of the last ones.
int read_row(nb::handle axes, int ndim) {
  if (!PyTuple_CheckExact(axes.ptr())) return -1;
  const auto count = static_cast<int>(PyTuple_GET_SIZE(axes.ptr()));
  for (int i = 0; i < count; ++i) {
    if (read_int(PyTuple_GET_ITEM(axes.ptr(), i), {"run"}, "axes") != ndim - count + i) {
      return -1;
    }
  }
  return count;
}

// The shape of an output of a kind.
void cut_shape(const View& space, int inner, ValueKind kind, View& shape) {
  shape.ndim = kind == ValueKind::scalar ? 0 : space.ndim;
  for (int d = 0; d < shape.ndim; ++d) {
    const bool is_single =
        kind != ValueKind::full && (d >= space.ndim - inner) == (kind == ValueKind::row);
    shape.shape[d] = is_single ? 1 : space.shape[d];
  }
}

nb::object new_run(nb::handle program, nb::handle arrays, nb::handle axes) {
  static PyObject* const name = PyUnicode_InternFromString("outputs");
  if (!PyTuple_CheckExact(arrays.ptr()) || PyTuple_GET_SIZE(arrays.ptr()) == 0) return nb::none();
  const nb::object typed = find_typed(program, arrays);
  View space;
  std::vector<Operand> operands;
  if (!typed.is_valid() || !find_space(arrays, operands, space)) return nb::none();
  const int inner = read_row(axes, space.ndim);
  if (inner < 0) return nb::none();
  const TileProgram& decoded = find_program(typed);
  const nb::object dtypes = checked(PyObject_GetAttr(typed.ptr(), name));
  if (!PyTuple_Check(dtypes.ptr()) || PyTuple_GET_SIZE(dtypes.ptr()) != decoded.n_outputs) {
    raise_type({"run", "program"}, "expected a dtype for each of %d outputs", decoded.n_outputs);
  }
  const ArrayFields& like = *array_fields(PyTuple_GET_ITEM(arrays.ptr(), 0));
  const nb::object outs = checked(PyTuple_New(decoded.n_outputs));
  for (int k = 0; k < decoded.n_outputs; ++k) {
    View shape, out;
    cut_shape(space, inner, decoded.output_kind[k], shape);
    shape.dtype = decoded.output_dtype[k];
    const nb::object dtype = nb::borrow(PyTuple_GET_ITEM(dtypes.ptr(), k));
    nb::object made = new_array(like, dtype, shape, views_of(operands), out);
    PyTuple_SET_ITEM(outs.ptr(), k, made.release().ptr());
  }
  run_on(decoded, outs, arrays, inner);
  return decoded.n_outputs == 1 ? nb::borrow(PyTuple_GET_ITEM(outs.ptr(), 0)) : outs;
}

void run_each(nb::handle program, nb::handle calls) {
  const TileProgram& decoded = find_program(program);
  if (!decoded.is_elementwise) {
    raise_value({"run_each", "program"}, "expected elementwise instructions only");
  }
  std::vector<std::unique_ptr<Call>> all;
  std::vector<const View*> views;
  int64_t work = 0;
  for (const nb::object& call : read_sequence(calls, "calls")) {
    const std::vector<nb::object> operands = read_sequence(call, "calls");
    if (operands.size() != 2) raise_value({"run_each", "calls"}, "expected pairs (outs, ins)");
    all.push_back(std::make_unique<Call>(decoded, operands[0], operands[1], 0));
    work += all.back()->work();
    for (const View* view : all.back()->operands()) views.push_back(view);
  }
  const auto count = static_cast<int>(all.size());
  launch(work, views, [&decoded, count](Views v) { kernels().run_each(decoded, v, count); });
}

// The call of a program whose first input is a product of floats, like the first output: it stands
// for the product where shapes are checked. If the program reduces rows, `product` does.
class ThenCall {
 public:
  ThenCall(const char* kernel, const TileProgram& program, nb::handle outs, const Operand& a,
           const Operand& b, nb::handle ins, const Operand* product = nullptr)
      : program_(program),
        first_(product != nullptr ? *product : read_first(kernel, program, outs)),
        a_(a),
        b_(b),
        call_(program, outs, ins, product == nullptr ? 0 : 1, &first_) {
    if (call_.operands()[0]->ndim != first_.view.ndim) {
      raise_value({kernel, "ins"}, "expected at most the product's %d axes, got %d",
                  first_.view.ndim, call_.operands()[0]->ndim);
    }
  }

  const View& product() const { return first_.view; }
  const View& a() const { return a_.view; }
  const View& b() const { return b_.view; }

  // Outputs, the product's factors, and the other inputs.
  std::vector<const View*> operands(const View& a, const View& b) const {
    std::vector<const View*> views = call_.operands();
    views[program_.n_outputs] = &b;
    views.insert(views.begin() + program_.n_outputs, &a);
    return views;
  }

 private:
  static Operand read_first(const char* kernel, const TileProgram& program, nb::handle outs) {
    const bool takes_product = program.n_inputs > 0 && program.input_dtype[0] == DType::f32 &&
                               program.input_kind[0] == ValueKind::full;
    bool is_full = program.is_elementwise && program.n_outputs > 0;
    for (int k = 0; k < program.n_outputs; ++k) {
      is_full = is_full && program.output_kind[k] == ValueKind::full;
    }
    if (!is_full || !takes_product) {
      raise_value({kernel, "program"},
                  "expected elementwise instructions on a product of float32, and full outputs");
    }
    const std::vector<nb::object> targets = read_sequence(outs, "outs");
    if (targets.empty()) raise_value({kernel, "outs"}, "expected at least one");
    return read_output(targets[0], {kernel, "outs"});
  }

  const TileProgram& program_;
  const Operand first_, a_, b_;
  const Call call_;
};

// Does a program, after a product of floats, reduce rows in one pass over them? Then no full value
// waits for a reduction, and none is random or summed over columns.
bool reduces_rows(const TileProgram& program) {
  bool fits = !program.is_elementwise && program.n_phases == 1 && program.columns.count == 0 &&
              !program.is_random && program.n_inputs > 0 && program.n_outputs > 0 &&
              program.input_dtype[0] == DType::f32 && program.input_kind[0] == ValueKind::full;
  for (int k = 0; k < program.n_outputs; ++k) {
    fits = fits && program.output_kind[k] != ValueKind::scalar;
  }
  return fits;
}

// The product of two matrices, without memory.
Operand product_of(const Operand& a, const Operand& b) {
  if (a.view.ndim != 2 || b.view.ndim != 2) {
    raise_value({"matmul_then", nullptr}, "expected matrices before a program that reduces rows");
  }
  Operand product = {a.view, nb::none(), true};
  product.view.data = nullptr;
  product.view.dtype = DType::f32;
  product.view.shape[1] = b.view.shape[1];
  check_shape(product.view, {"matmul_then", "b"});
  product.view.set_compact_strides();
  return product;
}

void matmul_then(nb::handle program, nb::handle outs, nb::handle a, nb::handle b, nb::handle ins) {
  const TileProgram& decoded = find_program(program);
  const Operand left = read_operand(a, {"matmul_then", "a"});
  const Operand right = read_operand(b, {"matmul_then", "b"});
  Operand product;
  const bool has_rows = reduces_rows(decoded);
  if (has_rows) product = product_of(left, right);
  const ThenCall call("matmul_then", decoded, outs, left, right, ins,
                      has_rows ? &product : nullptr);
  const Factors factors =
      read_factors(call.a(), call.b(), call.product(), DType::f32, "matmul_then");
  launch(factors.work, call.operands(factors.a, factors.b),
         [&decoded](Views v) { kernels().matmul_then(decoded, v); });
}

// The left factor of out = a b that a program computes, without memory: a's shape follows from
// those of out and b.
Operand factor_of(const char* kernel, const TileProgram& program, const View& out, const View& b) {
  const bool makes_floats = program.is_elementwise && !program.is_random &&
                            program.n_outputs == 1 && program.output_kind[0] == ValueKind::full &&
                            program.output_dtype[0] == DType::f32;
  if (!makes_floats) {
    raise_value({kernel, "program"},
                "expected elementwise instructions, none random, and one full float32 output");
  }
  if (out.ndim < 2 || b.ndim < 2) {
    raise_value({kernel}, "expected matrices, got %s and %s", shape_text(out).c_str(),
                shape_text(b).c_str());
  }
  Operand a = {out, nb::none(), true};
  a.view.data = nullptr;
  a.view.dtype = DType::f32;
  a.view.shape[out.ndim - 1] = b.shape[b.ndim - 2];
  check_shape(a.view, {kernel, "ins"});
  a.view.set_compact_strides();
  return a;
}

void matmul_of(nb::handle program, nb::handle outs, nb::handle ins, nb::handle b, nb::handle then,
               nb::handle others) {
  constexpr const char* kName = "matmul_of";
  const TileProgram& decoded = find_program(program);
  const TileProgram* const epilogue = then.is_none() ? nullptr : &find_program(then);
  const std::vector<nb::object> targets = read_sequence(outs, "outs");
  if (targets.empty()) raise_value({kName, "outs"}, "expected at least one");
  const Operand out = read_output(targets[0], {kName, "outs"});
  const Operand right = read_operand(b, {kName, "b"});
  const Operand left = factor_of(kName, decoded, out.view, right.view);
  const Call computed(decoded, left, ins);
  if (computed.operands()[0]->ndim != out.view.ndim) {
    raise_value({kName, "ins"}, "expected at most the product's %d axes", out.view.ndim);
  }
  std::vector<const View*> views = computed.operands();
  if (epilogue == nullptr) {
    if (targets.size() != 1 || !read_sequence(others, "others").empty()) {
      raise_value({kName, "outs"}, "expected one, and no others, where there is no program after");
    }
    require_dtype(out.view.dtype, DType::f32, {kName, "outs"});
    const Factors factors = read_factors(left.view, right.view, out.view, DType::f32, kName);
    views[0] = &out.view;
    views.push_back(&factors.b);
    launch(factors.work, views, [&decoded](Views v) { kernels().matmul_of(decoded, nullptr, v); });
    return;
  }
  const ThenCall call(kName, *epilogue, outs, left, right, others);
  const Factors factors = read_factors(left.view, right.view, out.view, DType::f32, kName);
  const std::vector<const View*> after = call.operands(factors.a, factors.b);
  views.erase(views.begin());
  views.insert(views.begin(), after.begin(), after.begin() + epilogue->n_outputs);
  views.insert(views.end(), after.begin() + epilogue->n_outputs + 1, after.end());
  launch(factors.work, views,
         [&decoded, epilogue](Views v) { kernels().matmul_of(decoded, epilogue, v); });
}

void conv_then(nb::handle program, nb::handle outs, nb::handle x, nb::handle w, nb::handle shape,
               nb::handle stride, nb::handle padding, nb::handle dilation, nb::handle groups,
               nb::handle ins) {
  constexpr const char* kName = "conv_then";
  const TileProgram& decoded = find_program(program);
  const ThenCall call(kName, decoded, outs, read_operand(x, {kName, "x"}),
                      read_operand(w, {kName, "w"}), ins);
  require_dtype(call.a().dtype, DType::f32, {kName, "x"});
  require_dtype(call.b().dtype, DType::f32, {kName, "w"});
  View y = {};
  const std::vector<nb::object> sizes = read_sequence(shape, "shape");
  y.ndim = static_cast<int>(std::min<size_t>(sizes.size(), kMaxDims));
  for (int d = 0; d < y.ndim; ++d) {
    y.shape[d] = read_int(sizes[static_cast<size_t>(d)].ptr(), {kName}, "shape");
    if (y.shape[d] < 0) raise_value({kName, "shape"}, "expected sizes of 0 or more");
  }
  const View& matrix = call.product();
  int64_t positions = 1;
  bool fits = y.ndim > 0 && matrix.ndim == 2 && matrix.shape[1] == y.shape[y.ndim - 1];
  for (int d = 0; fits && d < y.ndim - 1; ++d) {
    fits = !__builtin_mul_overflow(positions, y.shape[d], &positions);
  }
  if (!fits || matrix.shape[0] != positions) {
    raise_value({kName, "outs"}, "expected the positions by the channels of %s, got %s",
                shape_text(y).c_str(), shape_text(matrix).c_str());
  }
  const ConvFactors factors =
      read_conv(call.a(), call.b(), y, stride, padding, dilation, groups, kName);
  launch(factors.work, call.operands(call.a(), call.b()),
         [&decoded, y, window = factors.window](Views v) {
           kernels().conv_then(decoded, v, y.shape, window);
         });
}

}  // namespace

void bind_programs(nb::module_& m) {
  using nb::arg;
  nb::dict blocking;
  blocking["tile_bytes"] = kTileBytes;
  blocking["rows_at_once"] = kRowsAtOnce;
  blocking["stretch"] = kStretch;
  blocking["most_pieces"] = kMaxPieces;
  blocking["grain"] = kGrain;
  blocking["line_rows"] = kLineRows;
  m.attr("BLOCKING") = blocking;
  m.def("run", run, arg("program"), arg("outs"), arg("ins"), arg("inner") = 1);
  m.def(
      "new_run", new_run, arg("program"), arg("arrays"), arg("axes"),
      "A program for all dtypes on arrays of this device, with the results in new arrays: one, or "
      "a tuple. None where there is more to decide.");
  m.def("run_each", run_each, arg("program"), arg("calls"));
  m.def(
      "is_builtin", [](nb::handle program) { return find_program(program).builtin >= 0; },
      arg("program"));
  m.def("matmul_then", matmul_then, arg("program"), arg("outs"), arg("a"), arg("b"),
        arg("ins") = nb::make_tuple());
  m.def("matmul_of", matmul_of, arg("program"), arg("outs"), arg("ins"), arg("b"),
        arg("then").none() = nb::none(), arg("others") = nb::make_tuple());
  m.def("conv_then", conv_then, arg("program"), arg("outs"), arg("x"), arg("w"), arg("shape"),
        arg("stride"), arg("padding"), arg("dilation"), arg("groups"),
        arg("ins") = nb::make_tuple());
}

}  // namespace needle
