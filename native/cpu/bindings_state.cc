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

// The tensor of a (owner, is_grad): the owner, or its gradient, which may be None.
PyObject* tensor_of(PyObject* cell) {
  if (!PyTuple_Check(cell) || PyTuple_GET_SIZE(cell) != 2) {
    raise_type({"state", nullptr}, "expected (tensor, is_grad)");
  }
  PyObject* const owner = PyTuple_GET_ITEM(cell, 0);
  return PyTuple_GET_ITEM(cell, 1) == Py_True ? read_node(owner).grad : owner;
}

// The array of a cell; null without one.
PyObject* array_of(PyObject* cell) {
  PyObject* const tensor = tensor_of(cell);
  PyObject* const data = tensor == Py_None ? nullptr : read_node(tensor).cached_data;
  return data != nullptr && array_fields(data) != nullptr ? data : nullptr;
}

// Does a weak reference refer to this array?
bool refers_to(PyObject* reference, PyObject* array) {
  if (!PyWeakref_Check(reference)) raise_type({"state", nullptr}, "expected weak references");
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) throw nb::python_error();
  Py_XDECREF(object);
#else
  PyObject* const object = PyWeakref_GET_OBJECT(reference);
#endif
  return array != nullptr && object == array;
}

// changed_cells(cells, references, wanted): the positions of cells that have another array, or
// another requires_grad (None: any will do).
PyObject* changed_cells(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 3);
    const Py_ssize_t n = PyList_GET_SIZE(arguments[0]);
    for (const int k : {1, 2}) {
      if (PyList_GET_SIZE(arguments[k]) != n) raise_value({"state", nullptr}, "lengths differ");
    }
    nb::list changed;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const cell = PyList_GET_ITEM(arguments[0], i);
      PyObject* const wanted = PyList_GET_ITEM(arguments[2], i);
      const bool is_same = refers_to(PyList_GET_ITEM(arguments[1], i), array_of(cell));
      const bool is_wanted =
          wanted == Py_None || (is_same && read_node(tensor_of(cell)).requires_grad == wanted);
      if (!is_same || !is_wanted) changed.append(nb::int_(i));
    }
    return changed.release().ptr();
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

// The parts of an item in a list of tuples.
PyObject* const* parts(PyObject* list, Py_ssize_t i, Py_ssize_t size) {
  PyObject* const item = PyList_GET_ITEM(list, i);
  if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != size) {
    raise_type({"state", nullptr}, "expected tuples of %zd", size);
  }
  return &PyTuple_GET_ITEM(item, 0);
}

// put_memory(places, buffers) with places (slot, cell): puts the memory of each cell into its slot.
PyObject* put_memory(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    check_lists(arguments, count, 2);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[0]); ++i) {
      PyObject* const* const place = parts(arguments[0], i, 2);
      PyObject* const array = array_of(place[1]);
      PyObject* const handle = array == nullptr ? nullptr : array_fields(array)->handle;
      if (handle == nullptr) raise_value({"state", nullptr}, "a tensor has no memory");
      put(arguments[1], place[0], handle);
    }
    Py_RETURN_NONE;
  });
}

// The memory of an array that only its tensor has, if so many have the memory and it is none of
// someone else's; null otherwise.
PyObject* own_memory(PyObject* array, Py_ssize_t references) {
  if (array == nullptr || Py_REFCNT(array) != 1) return nullptr;
  PyObject* const handle = array_fields(array)->handle;
  const bool is_own = handle != nullptr && Py_REFCNT(handle) == references;
  const bool is_foreign =
      is_own && is_buffer(handle) && buffer_of(handle, {"state", nullptr}).is_foreign();
  return is_own && !is_foreign ? handle : nullptr;
}

// The array of a gradient that only its tensor has, and that has no history; null otherwise.
PyObject* own_gradient(PyObject* gradient) {
  if (gradient == Py_None || Py_REFCNT(gradient) != 1) return nullptr;
  const NodeFields& node = read_node(gradient);
  const bool is_array = node.cached_data != nullptr && array_fields(node.cached_data) != nullptr;
  return is_array && node.requires_grad == Py_False ? node.cached_data : nullptr;
}

// take_homes(homes, buffers) with homes (slot, cell, references): puts the memory of each cell that
// is its own into the slot. Gives the positions of the other homes.
PyObject* take_homes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 2);
    nb::list seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[0]); ++i) {
      PyObject* const* const home = parts(arguments[0], i, 3);
      const Py_ssize_t references = read_int(home[2], {"state", nullptr}, "a count");
      PyObject* const tensor = tensor_of(home[1]);
      const bool is_grad = tensor != PyTuple_GET_ITEM(home[1], 0);
      PyObject* const array = is_grad ? own_gradient(tensor) : array_of(home[1]);
      PyObject* const memory = own_memory(array, references);
      if (memory != nullptr) {
        put(arguments[1], home[0], memory);
      } else {
        seen.append(nb::int_(i));
      }
    }
    return seen.release().ptr();
  });
}

bool is_equal(PyObject* a, PyObject* b) {
  const int answer = a == nullptr ? 0 : PyObject_RichCompareBool(a, b, Py_EQ);
  if (answer < 0) throw nb::python_error();
  return answer != 0;
}

// Has an array this (shape, strides, offset, dtype, device), in memory of so many elements?
bool has_layout(PyObject* array, PyObject* const* layout, Py_ssize_t size) {
  const ArrayFields& a = *array_fields(array);
  return is_equal(a.shape, layout[0]) && is_equal(a.strides, layout[1]) &&
         is_equal(a.offset, layout[2]) && is_equal(a.dtype, layout[3]) && a.device == layout[4] &&
         is_buffer(a.handle) && buffer_of(a.handle, {"state", nullptr}).size() == size;
}

// take_gradients(homes, buffers) with homes (slot, tensor, shape, strides, offset, dtype, device,
// size): the same for the gradients of tensors, if they are of that layout.
PyObject* take_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 2);
    nb::list seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[0]); ++i) {
      PyObject* const* const home = parts(arguments[0], i, 8);
      const Py_ssize_t size = read_int(home[7], {"state", nullptr}, "a size");
      PyObject* const array = own_gradient(read_node(home[1]).grad);
      PyObject* const memory = own_memory(array, 1);
      if (memory != nullptr && has_layout(array, home + 2, size)) {
        put(arguments[1], home[0], memory);
      } else {
        seen.append(nb::int_(i));
      }
    }
    return seen.release().ptr();
  });
}

}  // namespace

void bind_state(nb::module_& m) {
  static PyMethodDef functions[] = {
      fast_method("changed_cells", changed_cells),   fast_method("same_names", same_names),
      fast_method("put_memory", put_memory),         fast_method("take_homes", take_homes),
      fast_method("take_gradients", take_gradients), {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
