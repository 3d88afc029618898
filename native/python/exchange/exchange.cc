// Exchange with NumPy and everything else that speaks the buffer protocol.
#include <cstring>
#include <memory>

#include "python/bindings.h"

namespace needle {
namespace {

// Formats of Python's struct module; bfloat16 has none, and travels as its bits.
constexpr char kFormats[kNumDTypes][2] = {"f", "d", "e", "H", "b", "h", "i", "q", "B", "?"};

// Does a buffer with this format hold elements of the dtype? "l" and "q" are both int64.
bool format_matches(const char* format, Py_ssize_t itemsize, DType dtype) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const char expected = kFormats[static_cast<int>(dtype)][0];
  const bool same =
      *format == expected || (std::strchr("hilq", *format) != nullptr && *format != '\0' &&
                              std::strchr("hilq", expected) != nullptr);
  return same && format[1] == '\0' && itemsize == item_size(dtype);
}

// A Py_buffer that lets go of its object.
struct HeldBuffer {
  Py_buffer buffer;
  HeldBuffer(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer, flags) != 0) throw nb::python_error();
  }
  ~HeldBuffer() { PyBuffer_Release(&buffer); }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
};

nb::object from_numpy(nb::handle array, nb::handle dtype_handle) {
  constexpr Site site{"from_numpy"};
  const DType dtype = read_dtype(dtype_handle, site);
  const HeldBuffer held(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
  const Py_buffer& source = held.buffer;
  if (!format_matches(source.format, source.itemsize, dtype)) {
    raise_type(site, "an array of format '%s' does not store dtype %s",
               source.format != nullptr ? source.format : "B", dtype_name(dtype));
  }
  nb::object handle = new_buffer(source.len / source.itemsize, dtype);
  char* const target = buffer_of(handle, site).data();
  run_kernel(source.len, [&] {
    if (source.len > 0) std::memcpy(target, source.buf, static_cast<size_t>(source.len));
  });
  return handle;
}

// numpy.empty(shape, dtype), once more without our pool if NumPy finds no room. NumPy's own types
// are looked up once.
nb::object empty_numpy(const View& view, DType dtype) {
  static const nb::object* const empty =
      new nb::object(nb::module_::import_("numpy").attr("empty"));
  static const nb::object* const types = [] {
    const nb::object dtype_class = nb::module_::import_("numpy").attr("dtype");
    auto* found = new nb::object[kNumDTypes];
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto d = static_cast<DType>(i);
      found[i] = dtype_class(dtype_name(d == DType::bf16 ? DType::f32 : d));
    }
    return found;
  }();
  const nb::object shape = make_tuple(view.shape, view.ndim);
  const nb::object& type = types[static_cast<int>(dtype)];
  try {
    return (*empty)(shape, type);
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_MemoryError)) throw;
  }
  release_pooled_memory();
  return (*empty)(shape, type);
}

nb::object to_numpy(nb::handle a) {
  const Operand source = read_operand(a, {"to_numpy", "a"});
  const DType dtype = source.view.dtype == DType::bf16 ? DType::f32 : source.view.dtype;
  nb::object array = empty_numpy(source.view, dtype);
  const HeldBuffer held(array, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  View target = source.view;
  target.data = static_cast<char*>(held.buffer.buf);
  target.dtype = dtype;
  target.set_compact_strides();
  run_kernel(source.view.size(), [&] { kernels().copy(target, source.view); });
  return array;
}

// BufferExporter: a base class that gives Python classes the buffer protocol, which they can
// implement themselves only from Python 3.12 on. `_export_buffer` returns the operand to show.

struct ExportedBuffer {
  Operand operand;
  Py_ssize_t shape[kMaxDims], strides[kMaxDims];  // strides in bytes
};

int refuse(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

// Fills in what the consumer asked for; a request for less detail needs a simpler layout.
int describe(ExportedBuffer& exported, PyObject* object, Py_buffer* buffer, int flags) {
  const View& view = exported.operand.view;
  const DType dtype = view.dtype;
  if (dtype == DType::bf16) {
    return refuse("[buffer] bfloat16 has no buffer format; convert to float32 first");
  }
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && exported.operand.readonly) {
    return refuse("[buffer] the memory is read-only");
  }
  const bool is_empty = view.size() == 0;
  for (int d = 0; d < view.ndim; ++d) {
    exported.shape[d] = view.shape[d];
    // Strides that lead to no element may be anything, also too large for bytes.
    const bool is_used = view.shape[d] > 1 && !is_empty;
    exported.strides[d] = (is_used ? view.strides[d] : 1) * item_size(dtype);
  }
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const bool wants_shape = (flags & PyBUF_ND) == PyBUF_ND;
  buffer->buf = view.data;
  buffer->len = view.size() * item_size(dtype);
  buffer->itemsize = item_size(dtype);
  buffer->readonly = exported.operand.readonly;
  buffer->ndim = view.ndim;
  buffer->format = const_cast<char*>(kFormats[static_cast<int>(dtype)]);
  buffer->shape = exported.shape;
  buffer->strides = exported.strides;
  buffer->suboffsets = nullptr;
  const char required = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS ? 'A'
                        : (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS   ? 'F'
                        : (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || !wants_strides
                            ? 'C'
                            : '\0';
  if (required != '\0' && !PyBuffer_IsContiguous(buffer, required)) {
    return refuse("[buffer] the array is not contiguous; call compact() first");
  }
  if ((flags & PyBUF_FORMAT) == 0) buffer->format = nullptr;
  if (!wants_shape) buffer->shape = nullptr;
  if (!wants_strides) buffer->strides = nullptr;
  buffer->obj = Py_NewRef(object);
  return 0;
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  try {
    auto exported = std::make_unique<ExportedBuffer>();
    const nb::object shown = nb::handle(self).attr("_export_buffer")();
    exported->operand = read_operand(shown, {"buffer"});
    buffer_of(exported->operand.handle, {"buffer"}).expose();
    if (describe(*exported, self, buffer, flags) != 0) return -1;
    buffer->internal = exported.release();
    return 0;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

void release_buffer(PyObject*, Py_buffer* buffer) {
  delete static_cast<ExportedBuffer*>(buffer->internal);
}

nb::object make_exporter_type() {
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("Base class: memoryview(x) shows x._export_buffer().")},
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
      {0, nullptr}};
  static PyType_Spec spec = {"needle._native.BufferExporter", 0, 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return checked(PyType_FromSpec(&spec));
}

}  // namespace

void bind_exchange(nb::module_& m) {
  m.def("from_numpy", from_numpy, nb::arg("array"), nb::arg("dtype"));
  m.def("to_numpy", to_numpy, nb::arg("a"));
  m.attr("BufferExporter") = make_exporter_type();
}

}  // namespace needle
