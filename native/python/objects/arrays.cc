// ArrayBase, under NDArray, with its fields in C: making one from Python code takes four times as
// long.
#include "types.h"

namespace needle {
namespace {

PyTypeObject* array_type;

// No cycle can lead through an array, so the collector need not know of it.
void free_array(PyObject* self) {
  auto* const array = reinterpret_cast<ArrayFields*>(self);
  if (array->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  for (PyObject* field :
       {array->shape, array->strides, array->offset, array->dtype, array->device, array->handle}) {
    Py_XDECREF(field);
  }
  free_object(self);
}

// make_array(cls, shape, strides, offset, dtype, device, handle)
PyObject* make_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_call(arguments, count, 7, array_type, "make_array");
    return build_array(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                       arguments[5], arguments[6]);
  });
}

// empty_array(cls, shape, dtype, device): row-major, in a buffer of its own
PyObject* empty_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    constexpr Site site{"empty"};
    check_call(arguments, count, 4, array_type, "empty_array");
    View view;
    const bool is_empty = read_shape(arguments[1], view, site);
    view.set_compact_strides();
    const DType dtype = read_dtype(arguments[2], site);
    return build_array(arguments[0], arguments[1], make_tuple(view.strides, view.ndim), nb::int_(0),
                       arguments[2], arguments[3], new_buffer(is_empty ? 0 : view.size(), dtype));
  });
}

PyTypeObject* make_array_type(nb::handle base) {
  static PyMemberDef members[] = {
      {"shape", T_OBJECT_EX, offsetof(ArrayFields, shape), 0, nullptr},
      {"strides", T_OBJECT_EX, offsetof(ArrayFields, strides), 0, nullptr},
      {"offset", T_OBJECT_EX, offsetof(ArrayFields, offset), 0, nullptr},
      {"dtype", T_OBJECT_EX, offsetof(ArrayFields, dtype), 0, nullptr},
      {"device", T_OBJECT_EX, offsetof(ArrayFields, device), 0, nullptr},
      {"_handle", T_OBJECT_EX, offsetof(ArrayFields, handle), 0, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(ArrayFields, weak_references), READONLY, nullptr},
      {}};
  static PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("The fields of an array.")},
                                {Py_tp_members, members},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_array)},
                                {0, nullptr}};
  static PyType_Spec spec = {"needle._native.ArrayBase", sizeof(ArrayFields), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return make_type(spec, base);
}

}  // namespace

const ArrayFields* array_fields(nb::handle object) {
  return PyObject_TypeCheck(object.ptr(), array_type)
             ? reinterpret_cast<const ArrayFields*>(object.ptr())
             : nullptr;
}

bool is_plain_array(const ArrayFields& array) {
  const bool is_whole =
      array.dtype != nullptr && array.device != nullptr && array.handle != nullptr;
  if (!is_whole || recording() != nullptr || active_tracer() != nullptr) return false;
  const Buffer* const buffer = buffer_in(array.handle);
  return buffer != nullptr && buffer->where() == Where::host;
}

bool is_floating_array(const ArrayFields& array) {
  return is_plain_array(array) && is_floating(nb::inst_ptr<Buffer>(array.handle)->dtype());
}

nb::object new_array(const ArrayFields& like, nb::handle dtype, const View& shape,
                     std::span<const View* const> operands, View& out) {
  out.ndim = shape.ndim;
  out.dtype = shape.dtype;
  std::copy(shape.shape, shape.shape + shape.ndim, out.shape);
  const bool is_empty = check_shape(out, {"empty"});
  set_result_strides(out, operands);
  const nb::object handle = new_buffer(is_empty ? 0 : out.size(), out.dtype);
  out.data = nb::inst_ptr<Buffer>(handle)->data();
  return nb::steal(build_array(class_of(like), make_tuple(out.shape, out.ndim),
                               make_tuple(out.strides, out.ndim), nb::int_(0), dtype, like.device,
                               handle));
}

void bind_arrays(nb::module_& m) {
  array_type = make_array_type(m.attr("BufferExporter"));
  m.attr("ArrayBase") = nb::borrow(reinterpret_cast<PyObject*>(array_type));
  static PyMethodDef functions[] = {
      fast_method("make_array", make_array), fast_method("empty_array", empty_array), {}};
  add_functions(m, functions);
}

}  // namespace needle
