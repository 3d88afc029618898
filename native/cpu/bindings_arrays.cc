// ArrayBase, under NDArray, with its fields in C: making one from Python code takes four times as
// long.
#include "bindings_types.h"

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

ArrayFields* new_array(PyObject* cls) { return reinterpret_cast<ArrayFields*>(allocate(cls)); }

// make_array(cls, shape, strides, offset, dtype, device, handle)
PyObject* make_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_call(arguments, count, 7, array_type, "make_array");
    ArrayFields* const array = new_array(arguments[0]);
    array->shape = Py_NewRef(arguments[1]);
    array->strides = Py_NewRef(arguments[2]);
    array->offset = Py_NewRef(arguments[3]);
    array->dtype = Py_NewRef(arguments[4]);
    array->device = Py_NewRef(arguments[5]);
    array->handle = Py_NewRef(arguments[6]);
    return reinterpret_cast<PyObject*>(array);
  });
}

// An array from the start of its memory; takes over shape, strides and handle.
ArrayFields* fill_array(PyObject* cls, PyObject* shape, PyObject* strides, PyObject* dtype,
                        PyObject* device, PyObject* handle) {
  ArrayFields* const array = new_array(cls);
  array->shape = shape;
  array->strides = strides;
  array->offset = PyLong_FromLong(0);
  array->dtype = Py_NewRef(dtype);
  array->device = Py_NewRef(device);
  array->handle = handle;
  return array;
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
    nb::object strides = make_tuple(view.strides, view.ndim);
    nb::object handle = new_buffer(is_empty ? 0 : view.size(), dtype);
    return reinterpret_cast<PyObject*>(fill_array(arguments[0], Py_NewRef(arguments[1]),
                                                  strides.release().ptr(), arguments[2],
                                                  arguments[3], handle.release().ptr()));
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
  return is_whole && is_buffer(array.handle) && recording() == nullptr;
}

bool is_floating_array(const ArrayFields& array) {
  return is_plain_array(array) && is_floating(nb::inst_ptr<Buffer>(array.handle)->dtype());
}

nb::object new_array(const ArrayFields& like, nb::handle dtype, const View& shape, View& out) {
  out.ndim = shape.ndim;
  out.dtype = shape.dtype;
  std::copy(shape.shape, shape.shape + shape.ndim, out.shape);
  const bool is_empty = check_shape(out, {"empty"});
  out.set_compact_strides();
  nb::object sizes = make_tuple(out.shape, out.ndim), strides = make_tuple(out.strides, out.ndim);
  nb::object handle = new_buffer(is_empty ? 0 : out.size(), out.dtype);
  out.data = nb::inst_ptr<Buffer>(handle)->data();
  return nb::steal(reinterpret_cast<PyObject*>(
      fill_array(reinterpret_cast<PyObject*>(Py_TYPE(&like)), sizes.release().ptr(),
                 strides.release().ptr(), dtype.ptr(), like.device, handle.release().ptr())));
}

void bind_arrays(nb::module_& m) {
  array_type = make_array_type(m.attr("BufferExporter"));
  m.attr("ArrayBase") = nb::borrow(reinterpret_cast<PyObject*>(array_type));
  static PyMethodDef functions[] = {
      fast_method("make_array", make_array), fast_method("empty_array", empty_array), {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
