// The state of compiled functions (needle/compiler/run/binding.py), looked at in every call.
#include "types.h"

#include <tuple>

namespace needle {
namespace {

const NodeFields& read_node(PyObject* object) {
  const NodeFields* const node = node_fields(object);
  if (node == nullptr) {
    raise_type({"state"}, "expected a tensor, got %s", class_name(object).c_str());
  }
  return *node;
}

void check_lists(PyObject* const* arguments, Py_ssize_t given, Py_ssize_t expected) {
  bool fits = given == expected;
  for (Py_ssize_t i = 0; fits && i < given; ++i) fits = PyList_Check(arguments[i]);
  if (!fits) raise_type({"state"}, "expected %zd lists", expected);
}

Py_ssize_t same_length(PyObject* const* lists, int count) {
  const Py_ssize_t n = PyList_GET_SIZE(lists[0]);
  for (int k = 1; k < count; ++k) {
    if (PyList_GET_SIZE(lists[k]) != n) raise_value({"state"}, "lengths differ");
  }
  return n;
}

Py_ssize_t index_in(PyObject* list, PyObject* index) {
  const Py_ssize_t i = read_int(index, {"state"}, "a place");
  if (i < 0 || i >= PyList_GET_SIZE(list)) {
    raise_value({"state"}, "there is no place %zd", i);
  }
  return i;
}

void put(PyObject* list, PyObject* index, PyObject* item) {
  const Py_ssize_t i = index_in(list, index);
  if (PyList_SetItem(list, i, Py_NewRef(item)) != 0) throw nb::python_error();
}

// The gradient of a tensor; Python's None without one.
PyObject* gradient_of(PyObject* tensor) {
  PyObject* const gradient = read_node(tensor).grad;
  return gradient == nullptr ? Py_None : gradient;
}

// What a place stands for: a tensor for itself, (tensor, True) for its gradient, which may be None.
PyObject* tensor_at(PyObject* place) {
  if (!PyTuple_Check(place)) return place;
  if (PyTuple_GET_SIZE(place) != 2) raise_type({"state"}, "expected (tensor, True)");
  return gradient_of(PyTuple_GET_ITEM(place, 0));
}

// The array in a node; null without one.
PyObject* array_in(const NodeFields& node) {
  PyObject* const data = node.cached_data;
  return data != nullptr && array_fields(data) != nullptr ? data : nullptr;
}

bool refers_to(PyObject* reference, PyObject* other) {
  if (!PyWeakref_Check(reference)) raise_type({"state"}, "expected weak references");
  return referent(reference) == other;
}

// changed_places(places, references, wanted): the positions of tensors that have another array than
// the weak reference says, or another requires_grad (None: any will do).
PyObject* changed_places(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 3);
    const Py_ssize_t n = same_length(arguments, 3);
    nb::list changed;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const tensor = tensor_at(PyList_GET_ITEM(arguments[0], i));
      PyObject* const wanted = PyList_GET_ITEM(arguments[2], i);
      bool is_same = tensor != Py_None;
      if (is_same) {
        const NodeFields& node = read_node(tensor);
        is_same = refers_to(PyList_GET_ITEM(arguments[1], i), node.cached_data) &&
                  (wanted == Py_None || node.requires_grad == wanted);
      }
      if (!is_same) changed.append(nb::int_(i));
    }
    return changed.release().ptr();
  });
}

// same_names(places, names, values): has each name its value still, in a dict or in the cell of a
// variable?
PyObject* same_names(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    check_lists(arguments, count, 3);
    const Py_ssize_t n = same_length(arguments, 3);
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const place = PyList_GET_ITEM(arguments[0], i);
      PyObject* value = nullptr;
      if (PyDict_Check(place)) {
        value = PyDict_GetItemWithError(place, PyList_GET_ITEM(arguments[1], i));
        if (value == nullptr && PyErr_Occurred()) throw nb::python_error();
      } else if (is_cell(place)) {
        value = in_cell(place);
      } else {
        raise_type({"state"}, "expected a dict or a cell, got %s", class_name(place).c_str());
      }
      if (value != PyList_GET_ITEM(arguments[2], i)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

// The memory of an array that nobody but a tensor has, if it is none of someone else's.
PyObject* own_memory(PyObject* array) {
  PyObject* const handle = array_fields(array)->handle;
  const bool is_own = Py_REFCNT(array) == 1 && handle != nullptr && Py_REFCNT(handle) == 1;
  const Buffer* const buffer = is_own ? buffer_in(handle) : nullptr;
  const bool is_foreign = buffer != nullptr && buffer->is_foreign();
  return is_own && !is_foreign ? handle : nullptr;
}

// Is it a gradient that nobody but its tensor has, without a history?
bool is_own_gradient(PyObject* gradient, const NodeFields& node) {
  return Py_REFCNT(gradient) == 1 && node.requires_grad == Py_False;
}

// take_memory(places, reads, homes, buffers): puts the memory of each tensor into its slots, which
// `reads` and `homes` have in the same position (None is no slot); into that of `homes` only if it
// is the tensor's own. Gives the positions of homes that stay empty.
PyObject* take_memory(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 4);
    const Py_ssize_t n = same_length(arguments, 3);
    nb::list empty;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const place = PyList_GET_ITEM(arguments[0], i);
      PyObject* const read = PyList_GET_ITEM(arguments[1], i);
      PyObject* const home = PyList_GET_ITEM(arguments[2], i);
      PyObject* const tensor = tensor_at(place);
      PyObject* const array = tensor == Py_None ? nullptr : array_in(read_node(tensor));
      PyObject* const handle = array == nullptr ? nullptr : array_fields(array)->handle;
      if (handle == nullptr) raise_value({"state"}, "a tensor has no memory");
      const bool may_change = tensor == place || is_own_gradient(tensor, read_node(tensor));
      const bool is_own = home != Py_None && may_change && own_memory(array) != nullptr;
      if (read != Py_None) put(arguments[3], read, handle);
      if (is_own) put(arguments[3], home, handle);
      if (home != Py_None && !is_own) empty.append(nb::int_(i));
    }
    return empty.release().ptr();
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
         buffer_in(a.handle) != nullptr && buffer_in(a.handle)->size() == size;
}

// take_gradients(homes, buffers) with homes (slot, tensor, shape, strides, offset, dtype, device,
// size): puts the memory of gradients that are their tensors' own, and have that layout, into the
// slots. Gives the positions of the others.
PyObject* take_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_lists(arguments, count, 2);
    nb::list empty;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[0]); ++i) {
      PyObject* const tuple = PyList_GET_ITEM(arguments[0], i);
      if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 8) {
        raise_type({"state"}, "expected tuples of 8");
      }
      const TupleItems items(tuple);
      PyObject* const* const home = items.data();
      const Py_ssize_t size = read_int(home[7], {"state"}, "a size");
      PyObject* const gradient = gradient_of(home[1]);
      PyObject* const array = gradient == Py_None ? nullptr : array_in(read_node(gradient));
      PyObject* const memory = array == nullptr ? nullptr : own_memory(array);
      if (memory != nullptr && is_own_gradient(gradient, read_node(gradient)) &&
          has_layout(array, home + 2, size)) {
        put(arguments[1], home[0], memory);
      } else {
        empty.append(nb::int_(i));
      }
    }
    return empty.release().ptr();
  });
}

}  // namespace

void bind_state(nb::module_& m) {
  static PyMethodDef functions[] = {fast_method("changed_places", changed_places),
                                    fast_method("same_names", same_names),
                                    fast_method("take_memory", take_memory),
                                    fast_method("take_gradients", take_gradients),
                                    {}};
  add_functions(m, functions);
}

}  // namespace needle
