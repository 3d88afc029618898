// What the Python types of our own share: those with fields in C (python/objects/arrays.cc,
// python/objects/nodes.cc), and functions that are called too often for nanobind's argument
// parsing.
#pragma once

#include <cstddef>
#include <new>

#include "python/bindings.h"
//
#include <structmember.h>  // after Python.h

namespace needle {

// Frees an object of a Python class over one of these types: such a type owns a reference to
// itself.
inline void free_object(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

inline PyObject* allocate(PyObject* type) {
  PyObject* const object = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0);
  if (object == nullptr) throw nb::python_error();
  return object;
}

inline PyObject* class_of(const ArrayFields& array) {
  auto* const object = reinterpret_cast<const PyObject*>(&array);
  return reinterpret_cast<PyObject*>(Py_TYPE(const_cast<PyObject*>(object)));
}

// An array of a class over ArrayBase.
inline PyObject* build_array(PyObject* cls, nb::handle shape, nb::handle strides, nb::handle offset,
                             nb::handle dtype, nb::handle device, nb::handle handle) {
  auto* const array = reinterpret_cast<ArrayFields*>(allocate(cls));
  array->shape = Py_NewRef(shape.ptr());
  array->strides = Py_NewRef(strides.ptr());
  array->offset = Py_NewRef(offset.ptr());
  array->dtype = Py_NewRef(dtype.ptr());
  array->device = Py_NewRef(device.ptr());
  array->handle = Py_NewRef(handle.ptr());
  return reinterpret_cast<PyObject*>(array);
}

// The class in the first argument, which the others are the fields of.
inline void check_call(PyObject* const* arguments, Py_ssize_t given, Py_ssize_t expected,
                       PyTypeObject* base, const char* name) {
  if (given == expected && PyType_Check(arguments[0]) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(arguments[0]), base)) {
    return;
  }
  raise_type({name}, "expected a class over %s and %zd fields", name_of(base).c_str(),
             expected - 1);
}

// Calls f and gives its exception to Python: what nanobind does for the functions that it binds.
template <class F>
PyObject* guarded(const F& f) {
  try {
    return f();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(
        error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError,
        error.what());
  } catch (const AllocationError& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

inline bool is_true(PyObject* object) {
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

inline PyMethodDef fast_method(const char* name,
                               PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  const auto erased = reinterpret_cast<void (*)()>(function);
  return {name, reinterpret_cast<PyCFunction>(erased), METH_FASTCALL, nullptr};
}

// Adds a table that ends with an empty entry.
inline void add_functions(nb::module_& m, PyMethodDef* functions) {
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

// A type over a base, or over object alone.
inline PyTypeObject* make_type(PyType_Spec& spec, nb::handle base = nb::handle()) {
  PyObject* const type = PyType_FromSpecWithBases(&spec, base.ptr());
  if (type == nullptr) throw nb::python_error();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace needle
