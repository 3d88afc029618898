// Python's C interface as the bindings use it. Wheels keep to its stable part (Py_LIMITED_API), so
// that one serves every Python from 3.12 on; it has functions where the rest has macros that look
// into objects. Builds for one Python use the macros.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace needle {

namespace nb = nanobind;

// The name of a class, and of an object's class, without the module.
inline std::string name_of(PyTypeObject* type) {
  const nb::object name = nb::steal(PyType_GetName(type));
  const char* const text = name ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (text == nullptr) throw nb::python_error();
  return text;
}
inline std::string class_name(nb::handle object) { return name_of(Py_TYPE(object.ptr())); }

// The text of a str; null, with an exception set, if it has none in UTF-8.
inline const char* text_of(nb::handle name) { return PyUnicode_AsUTF8AndSize(name.ptr(), nullptr); }

#if defined(Py_LIMITED_API)

inline Py_ssize_t PyTuple_GET_SIZE(PyObject* tuple) { return PyTuple_Size(tuple); }
inline PyObject* PyTuple_GET_ITEM(PyObject* tuple, Py_ssize_t i) {
  return PyTuple_GetItem(tuple, i);
}
inline void PyTuple_SET_ITEM(PyObject* tuple, Py_ssize_t i, PyObject* item) {
  PyTuple_SetItem(tuple, i, item);
}
inline Py_ssize_t PyList_GET_SIZE(PyObject* list) { return PyList_Size(list); }
inline PyObject* PyList_GET_ITEM(PyObject* list, Py_ssize_t i) { return PyList_GetItem(list, i); }
inline double PyFloat_AS_DOUBLE(PyObject* number) { return PyFloat_AsDouble(number); }
inline const char* PyBytes_AS_STRING(PyObject* bytes) { return PyBytes_AsString(bytes); }
inline Py_ssize_t PyBytes_GET_SIZE(PyObject* bytes) { return PyBytes_Size(bytes); }

inline PyObject* PyObject_CallMethodNoArgs(PyObject* self, PyObject* name) {
  return PyObject_VectorcallMethod(name, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

inline void Py_XSETREF(PyObject*& place, PyObject* object) {
  PyObject* const old = place;
  place = object;
  Py_XDECREF(old);
}
inline void Py_SETREF(PyObject*& place, PyObject* object) { Py_XSETREF(place, object); }

// The items of a tuple side by side, for as long as the tuple lives.
class TupleItems {
 public:
  explicit TupleItems(PyObject* tuple) {
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count > kFew) many_.resize(static_cast<size_t>(count));
    PyObject** const items = count > kFew ? many_.data() : few_;
    for (Py_ssize_t i = 0; i < count; ++i) items[i] = PyTuple_GetItem(tuple, i);
  }
  PyObject* const* data() const { return many_.empty() ? few_ : many_.data(); }

 private:
  static constexpr Py_ssize_t kFew = 8;
  PyObject* few_[kFew];
  std::vector<PyObject*> many_;
};

// What a slice holds, which keeps it.
struct SliceBounds {
  explicit SliceBounds(PyObject* slice)
      : start(field(slice, "start")), stop(field(slice, "stop")), step(field(slice, "step")) {}

  static PyObject* field(PyObject* slice, const char* name) {
    PyObject* const value = PyObject_GetAttrString(slice, name);
    if (value == nullptr) throw nb::python_error();
    Py_DECREF(value);
    return value;
  }

  PyObject *start, *stop, *step;
};

inline bool is_cell(PyObject* object) {
  static PyObject* const type =
      nb::object(nb::module_::import_("types").attr("CellType")).release().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

// What a variable's cell holds, which keeps it; null if it is empty.
inline PyObject* in_cell(PyObject* cell) {
  static PyObject* const name = PyUnicode_InternFromString("cell_contents");
  PyObject* const value = PyObject_GetAttr(cell, name);
  if (value == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) throw nb::python_error();
    PyErr_Clear();
  }
  Py_XDECREF(value);
  return value;
}

// The object of a weak reference, or None.
inline PyObject* referent(PyObject* reference) { return PyWeakref_GetObject(reference); }

#else

class TupleItems {
 public:
  explicit TupleItems(PyObject* tuple) : items_(&PyTuple_GET_ITEM(tuple, 0)) {}
  PyObject* const* data() const { return items_; }

 private:
  PyObject* const* items_;
};

struct SliceBounds {
  explicit SliceBounds(PyObject* object) {
    const auto* const slice = reinterpret_cast<const PySliceObject*>(object);
    start = slice->start;
    stop = slice->stop;
    step = slice->step;
  }
  PyObject *start, *stop, *step;
};

inline bool is_cell(PyObject* object) { return PyCell_Check(object); }
inline PyObject* in_cell(PyObject* cell) { return PyCell_GET(cell); }

inline PyObject* referent(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) throw nb::python_error();
  Py_XDECREF(object);
  return object;
#else
  return PyWeakref_GET_OBJECT(reference);
#endif
}

#endif

}  // namespace needle
