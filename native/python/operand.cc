#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "bindings.h"

namespace needle {
namespace {

constexpr const char* kDTypeNames[kNumDTypes] = {"float32", "float64", "float16", "bfloat16",
                                                 "int8",    "int16",   "int32",   "int64",
                                                 "uint8",   "bool"};

nb::handle buffer_type;

std::string message(Site site, const char* format, va_list arguments) {
  char text[512];
  const int used = site.role != nullptr
                       ? std::snprintf(text, sizeof text, "[%s] %s: ", site.kernel, site.role)
                       : std::snprintf(text, sizeof text, "[%s] ", site.kernel);
  if (used > 0 && static_cast<size_t>(used) < sizeof text) {
    std::vsnprintf(text + used, sizeof text - static_cast<size_t>(used), format, arguments);
  }
  return text;
}

nb::object attribute(nb::handle object, nb::handle name, Site site) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value != nullptr) return nb::steal(value);
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw nb::python_error();
  PyErr_Clear();
  raise_type(site, "expected an array, got %s (it has no attribute %s)", class_name(object).c_str(),
             text_of(name));
}

// Positions of the lowest and highest element; false when they do not fit an int64.
bool extent(const View& view, int64_t offset, int64_t* lowest, int64_t* highest) {
  *lowest = *highest = offset;
  for (int d = 0; d < view.ndim; ++d) {
    int64_t reach;
    if (__builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &reach)) return false;
    int64_t* const end = reach < 0 ? lowest : highest;
    if (__builtin_add_overflow(*end, reach, end)) return false;
  }
  return true;
}

struct Names {
  nb::object handle = intern("_handle"), shape = intern("shape"), strides = intern("strides"),
             offset = intern("offset");
  static nb::object intern(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }
};

const Names& names() {
  static const Names* const instance = new Names;  // never freed: outlives the interpreter
  return *instance;
}

}  // namespace

int read_tuple(nb::handle tuple, int64_t* values, Site site, const char* what) {
  if (!PyTuple_Check(tuple.ptr())) {
    raise_type(site, "%s must be a tuple of int, got %s", what, class_name(tuple).c_str());
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple.ptr());
  if (count > kMaxDims) {
    raise_value(site, "%s has %zd axes, at most %d work", what, count, kMaxDims);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    values[i] = read_int(PyTuple_GET_ITEM(tuple.ptr(), i), site, what);
  }
  return static_cast<int>(count);
}

void raise_value(Site site, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = message(site, format, arguments);
  va_end(arguments);
  throw nb::value_error(text.c_str());
}

void raise_type(Site site, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = message(site, format, arguments);
  va_end(arguments);
  throw nb::type_error(text.c_str());
}

std::string shape_text(const int64_t* shape, int ndim) {
  std::string text = "(";
  for (int d = 0; d < ndim; ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return text + (ndim == 1 ? ",)" : ")");
}

std::string shape_text(const View& view) { return shape_text(view.shape, view.ndim); }

const char* dtype_name(DType dtype) { return kDTypeNames[static_cast<int>(dtype)]; }

DType read_dtype(nb::handle name, Site site) {
  if (!PyUnicode_Check(name.ptr())) {
    raise_type(site, "dtype must be a str, got %s", class_name(name).c_str());
  }
  const char* const text = text_of(name);
  if (text == nullptr) throw nb::python_error();
  for (int i = 0; i < kNumDTypes; ++i) {
    if (std::strcmp(text, kDTypeNames[i]) == 0) return static_cast<DType>(i);
  }
  raise_type(site, "unknown dtype '%s'", text);
}

int64_t read_int(nb::handle value, Site site, const char* what) {
  int overflow = 0;
  int64_t result;
  if (PyLong_Check(value.ptr())) {
    result = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  } else {
    PyObject* const index = PyNumber_Index(value.ptr());
    if (index == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
      PyErr_Clear();
      raise_type(site, "%s must be int, got %s", what, class_name(value).c_str());
    }
    result = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
  }
  if (overflow != 0) raise_value(site, "%s does not fit 64 bits", what);
  return result;
}

int read_axis(nb::handle value, int ndim, const char* kernel) {
  const int64_t axis = read_int(value, {kernel}, "axis");
  if (axis < -ndim || axis >= ndim) {
    raise_value({kernel}, "axis %lld is out of range for %d axes", static_cast<long long>(axis),
                ndim);
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

void raise_undefined(const char* name, DType dtype) {
  raise_type({name}, "is not defined for dtype %s", dtype_name(dtype));
}

NameTable& NameTable::add(const char* name) {
  nb::object position = nb::steal(PyLong_FromSsize_t(PyDict_Size(dict_)));
  PyDict_SetItemString(dict_, name, position.ptr());
  return *this;
}

int NameTable::position(nb::handle name) const {
  if (!PyUnicode_Check(name.ptr())) {
    raise_type({kernel_}, "name must be a str, got %s", class_name(name).c_str());
  }
  PyObject* const found = PyDict_GetItemWithError(dict_, name.ptr());
  if (found != nullptr) return static_cast<int>(PyLong_AsLong(found));
  if (PyErr_Occurred()) throw nb::python_error();
  const char* const text = text_of(name);
  if (text == nullptr) throw nb::python_error();
  raise_value({kernel_}, "there is no operation named '%.100s'", text);
}

nb::object make_tuple(const int64_t* values, int count) {
  nb::object tuple = checked(PyTuple_New(count));
  for (int i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), i, checked(PyLong_FromLongLong(values[i])).release().ptr());
  }
  return tuple;
}

void set_buffer_type(nb::handle type) { buffer_type = type; }

// Buffer.__new__ alone gives an instance without a buffer inside.
Buffer* buffer_in(nb::handle handle) {
  const bool is_buffer = handle.type().ptr() == buffer_type.ptr() && nb::inst_ready(handle);
  return is_buffer ? nb::inst_ptr<Buffer>(handle) : nullptr;
}

Buffer& buffer_of(nb::handle handle, Site site, Where where) {
  Buffer* const found = buffer_in(handle);
  if (found == nullptr || found->where() != where) [[unlikely]] {
    if (nb::hasattr(handle, "absent")) {  // a traced one knows why
      raise_type(site, "%s", nb::str(handle.attr("absent")).c_str());
    }
    raise_type(site, "the array is not on this device (its handle is a %s)",
               found == nullptr ? class_name(handle).c_str() : "Buffer of another one");
  }
  Buffer& buffer = *found;
  if (Sequence::is_address(buffer.data()) && recording() == nullptr) [[unlikely]] {
    raise_type(site, "the array has no memory: it stands for a slot of a sequence");
  }
  return buffer;
}

nb::object adopt_buffer(Buffer&& buffer) { return nb::cast(std::move(buffer)); }

nb::object new_buffer(int64_t size, DType dtype) { return adopt_buffer(Buffer(size, dtype)); }

bool check_shape(const View& view, Site site) {
  constexpr int64_t kMost = int64_t{1} << 56;
  bool is_empty = false;
  int64_t size = 1;
  for (int d = 0; d < view.ndim; ++d) {
    const int64_t n = view.shape[d];
    if (n < 0) raise_value(site, "negative size in shape %s", shape_text(view).c_str());
    if (n == 0) is_empty = true;
    if (n != 0 && (__builtin_mul_overflow(size, n, &size) || size > kMost)) {
      raise_value(site, "shape %s has too many elements", shape_text(view).c_str());
    }
  }
  return is_empty;
}

bool read_shape(nb::handle tuple, View& view, Site site) {
  view.ndim = read_tuple(tuple, view.shape, site, "shape");
  return check_shape(view, site);
}

Operand read_operand(nb::handle object, Site site, Where where) {
  Operand operand;
  View& view = operand.view;
  const ArrayFields* const fields = array_fields(object);
  const auto read = [&](PyObject* field, const nb::object& name) {
    return field != nullptr ? nb::borrow(field) : attribute(object, name, site);
  };
  operand.handle = read(fields ? fields->handle : nullptr, names().handle);
  const Buffer& buffer = buffer_of(operand.handle, site, where);
  const nb::object shape = read(fields ? fields->shape : nullptr, names().shape);
  const nb::object strides = read(fields ? fields->strides : nullptr, names().strides);
  view.ndim = read_tuple(shape, view.shape, site, "shape");
  const int count = read_tuple(strides, view.strides, site, "strides");
  if (count != view.ndim) {
    raise_value(site, "shape has %d axes and strides %d", view.ndim, count);
  }
  const nb::object start = read(fields ? fields->offset : nullptr, names().offset);
  const int64_t offset = read_int(start, site, "offset");

  view.dtype = buffer.dtype();
  view.data = buffer.data();
  operand.readonly = buffer.readonly();
  if (check_shape(view, site)) return operand;
  int64_t lowest, highest;
  if (!extent(view, offset, &lowest, &highest) || lowest < 0 || highest >= buffer.size()) {
    raise_value(site, "shape %s with strides %s and offset %lld leaves its buffer of %lld elements",
                shape_text(view).c_str(), shape_text(view.strides, view.ndim).c_str(),
                static_cast<long long>(offset), static_cast<long long>(buffer.size()));
  }
  view.data += offset * item_size(view.dtype);
  return operand;
}

Operand read_output(nb::handle object, Site site, Where where) {
  Operand operand = read_operand(object, site, where);
  if (operand.readonly) raise_value(site, "the memory is read-only");
  operand.written = WriteNote(operand.handle, buffer_of(operand.handle, site, where));
  if (operand.view.size() == 0) return operand;  // row-major strides of (2, 0) are (0, 1)
  for (int d = 0; d < operand.view.ndim; ++d) {
    if (operand.view.strides[d] == 0 && operand.view.shape[d] > 1) {
      raise_value(site, "axis %d of shape %s is broadcast (stride 0) and cannot be written", d,
                  shape_text(operand.view).c_str());
    }
  }
  return operand;
}

std::vector<Operand> read_operands(nb::handle outs, nb::handle ins, const char* kernel,
                                   Where where) {
  std::vector<Operand> operands;
  for (const nb::handle out : outs) operands.push_back(read_output(out, {kernel, "outs"}, where));
  for (const nb::handle in : ins) operands.push_back(read_operand(in, {kernel, "ins"}, where));
  return operands;
}

std::vector<const View*> views_of(const std::vector<Operand>& operands) {
  std::vector<const View*> views;
  for (const Operand& operand : operands) views.push_back(&operand.view);
  return views;
}

View broadcast(const View& view, const int64_t* shape, int ndim, Site site) {
  View result;  // filled by hand: a copy would move all kMaxDims axes
  result.data = view.data;
  result.dtype = view.dtype;
  result.ndim = ndim;
  const int added = ndim - view.ndim;
  bool fits = added >= 0;
  for (int d = 0; fits && d < ndim; ++d) {
    const bool is_new = d < added;
    const int64_t n = is_new ? 1 : view.shape[d - added];
    result.shape[d] = shape[d];
    // Stride 0 means one element for all, so an axis without any has another.
    result.strides[d] = n == 0 ? 1 : is_new || n != shape[d] ? 0 : view.strides[d - added];
    fits = n == shape[d] || n == 1;
  }
  if (!fits) {
    raise_value(site, "shape %s does not broadcast to %s", shape_text(view).c_str(),
                shape_text(shape, ndim).c_str());
  }
  return result;
}

bool is_compact(const View& view) {
  int64_t expected = 1;
  for (int d = view.ndim - 1; d >= 0; --d) {
    if (view.shape[d] == 0) return true;
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

void require_dtype(DType actual, DType expected, Site site) {
  if (actual == expected) return;
  raise_type(site, "expected dtype %s, got %s", dtype_name(expected), dtype_name(actual));
}

void require_shape(const View& view, const int64_t* shape, int ndim, Site site) {
  bool same = view.ndim == ndim;
  for (int d = 0; same && d < ndim; ++d) same = view.shape[d] == shape[d];
  if (same) return;
  raise_value(site, "expected shape %s, got %s", shape_text(shape, ndim).c_str(),
              shape_text(view).c_str());
}

Factors read_factors(const View& a, const View& b, const View& out, DType dtype,
                     const char* kernel) {
  const bool is_widened = dtype == DType::f32 &&
                          (b.dtype == DType::bf16 || b.dtype == DType::f16 || b.dtype == DType::i8);
  require_dtype(a.dtype, dtype, {kernel, "a"});
  if (!is_widened) require_dtype(b.dtype, dtype, {kernel, "b"});
  if (out.ndim < 2 || a.ndim < 2 || b.ndim < 2) {
    raise_value({kernel}, "expected at least two axes, got %s @ %s", shape_text(a).c_str(),
                shape_text(b).c_str());
  }
  const int64_t m = out.shape[out.ndim - 2], n = out.shape[out.ndim - 1], k = a.shape[a.ndim - 1];
  const bool fits =
      a.shape[a.ndim - 2] == m && b.shape[b.ndim - 2] == k && b.shape[b.ndim - 1] == n;
  if (!fits) {
    raise_value({kernel}, "inner dimensions differ: %s @ %s -> %s", shape_text(a).c_str(),
                shape_text(b).c_str(), shape_text(out).c_str());
  }
  Factors factors;
  int64_t shape[kMaxDims];
  std::copy(out.shape, out.shape + out.ndim, shape);
  shape[out.ndim - 1] = k;
  factors.a = broadcast(a, shape, out.ndim, {kernel, "a"});
  shape[out.ndim - 2] = k;
  shape[out.ndim - 1] = n;
  factors.b = broadcast(b, shape, out.ndim, {kernel, "b"});
  if (__builtin_mul_overflow(out.size(), k, &factors.work)) factors.work = INT64_MAX;
  return factors;
}

}  // namespace needle
