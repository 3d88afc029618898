// The state of compiled functions (needle/compile/binding.py), which is looked at in every call.
#include "bindings_types.h"

#include <tuple>

namespace needle {
namespace {

const NodeFields& read_node(PyObject* object) {
  const NodeFields* const node = node_fields(object);
  if (node == nullptr) {
    raise_type({"state", nullptr}, "expected a tensor, got %s", Py_TYPE(object)->tp_name);
  }
  return *node;
}

void check_lists(PyObject* const* arguments, Py_ssize_t given, Py_ssize_t expected) {
  bool fits = given == expected;
  for (Py_ssize_t i = 0; fits && i < given; ++i) fits = PyList_Check(arguments[i]);
  if (!fits) raise_type({"state", nullptr}, "expected %zd lists", expected);
}

Py_ssize_t index_in(PyObject* list, PyObject* index) {
  const Py_ssize_t i = read_int(index, {"state", nullptr}, "a place");
  if (i < 0 || i >= PyList_GET_SIZE(list)) {
    raise_value({"state", nullptr}, "there is no place %zd", i);
  }
  return i;
}

void put(PyObject* list, PyObject* index, PyObject* item) {
  if (PyList_SetItem(list, index_in(list, index), Py_NewRef(item)) != 0) throw nb::python_error();
}

// hold_arrays(tensors, arrays, wanted): has each tensor the array and requires_grad in its place?
PyObject* hold_arrays(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    check_lists(arguments, count, 3);
    const Py_ssize_t n = PyList_GET_SIZE(arguments[0]);
    for (const int k : {1, 2}) {
      if (PyList_GET_SIZE(arguments[k]) != n) raise_value({"state", nullptr}, "lengths differ");
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      const NodeFields& node = read_node(PyList_GET_ITEM(arguments[0], i));
      if (node.cached_data != PyList_GET_ITEM(arguments[1], i)) Py_RETURN_FALSE;
      if (node.requires_grad != PyList_GET_ITEM(arguments[2], i)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

// same_names(places, names, values): has each name its value still, in a dict or in the cell of a
// variable?
PyObject* same_names(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    check_lists(arguments, count, 3);
    const Py_ssize_t n = PyList_GET_SIZE(arguments[0]);
    for (const int k : {1, 2}) {
      if (PyList_GET_SIZE(arguments[k]) != n) raise_value({"state", nullptr}, "lengths differ");
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const place = PyList_GET_ITEM(arguments[0], i);
      PyObject* value = nullptr;
      if (PyDict_Check(place)) {
        value = PyDict_GetItemWithError(place, PyList_GET_ITEM(arguments[1], i));
        if (value == nullptr && PyErr_Occurred()) throw nb::python_error();
      } else if (PyCell_Check(place)) {
        value = PyCell_GET(place);
      } else {
        raise_type({"state", nullptr}, "expected a dict or a cell, got %s",
                   Py_TYPE(place)->tp_name);
      }
      if (value != PyList_GET_ITEM(arguments[2], i)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

bool is_foreign(PyObject* handle) {
  return is_buffer(handle) && buffer_of(handle, {"state", nullptr}).is_foreign();
}

// take_homes(homes, arrays, buffers) with homes (slot, place, references): puts the memory of the
// array at each place into its slot if only a tensor and the list have the array, only so many have
// its memory, and it is none of someone else's. Gives the positions of the other homes.
PyObject* take_homes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 3);
    const auto [homes, arrays, buffers] = std::tuple(arguments[0], arguments[1], arguments[2]);
    nb::list seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(homes); ++i) {
      PyObject* const home = PyList_GET_ITEM(homes, i);
      if (!PyTuple_Check(home) || PyTuple_GET_SIZE(home) != 3) {
        raise_type({"state", nullptr}, "expected (slot, place, references)");
      }
      PyObject* const array = PyList_GET_ITEM(arrays, index_in(arrays, PyTuple_GET_ITEM(home, 1)));
      const ArrayFields* const fields = array_fields(array);
      const Py_ssize_t references =
          read_int(PyTuple_GET_ITEM(home, 2), {"state", nullptr}, "a count");
      const bool has_memory = fields != nullptr && fields->handle != nullptr;
      const bool is_ours = has_memory && !is_foreign(fields->handle);
      if (is_ours && Py_REFCNT(array) == 2 && Py_REFCNT(fields->handle) == references) {
        put(buffers, PyTuple_GET_ITEM(home, 0), fields->handle);
      } else {
        seen.append(nb::int_(i));
      }
    }
    return seen.release().ptr();
  });
}

// take_gradients(homes, gradients, buffers) with homes (slot, tensor): the same for the memory of
// the tensor's gradient, if that is the one at its position in `gradients`.
PyObject* take_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 3);
    const auto [homes, gradients, buffers] = std::tuple(arguments[0], arguments[1], arguments[2]);
    nb::list seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(homes); ++i) {
      PyObject* const home = PyList_GET_ITEM(homes, i);
      if (!PyTuple_Check(home) || PyTuple_GET_SIZE(home) != 2) {
        raise_type({"state", nullptr}, "expected (slot, tensor)");
      }
      PyObject* const gradient = read_node(PyTuple_GET_ITEM(home, 1)).grad;
      const bool is_ours = i < PyList_GET_SIZE(gradients) && gradient != Py_None &&
                           gradient == PyList_GET_ITEM(gradients, i) && Py_REFCNT(gradient) == 2;
      PyObject* const array = is_ours ? read_node(gradient).cached_data : nullptr;
      const ArrayFields* const fields = array == nullptr ? nullptr : array_fields(array);
      const bool has_memory = fields != nullptr && fields->handle != nullptr;
      if (has_memory && Py_REFCNT(array) == 1 && Py_REFCNT(fields->handle) == 1) {
        put(buffers, PyTuple_GET_ITEM(home, 0), fields->handle);
      } else {
        seen.append(nb::int_(i));
      }
    }
    return seen.release().ptr();
  });
}

}  // namespace

void bind_state(nb::module_& m) {
  static PyMethodDef functions[] = {fast_method("hold_arrays", hold_arrays),
                                    fast_method("same_names", same_names),
                                    fast_method("take_homes", take_homes),
                                    fast_method("take_gradients", take_gradients),
                                    {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
