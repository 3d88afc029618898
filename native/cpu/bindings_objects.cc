// The two objects that every eager operation makes, with their fields in C: ArrayBase, under
// NDArray, and NodeBase, under Value. Making one from Python code takes four times as long.
#include "bindings.h"

#include <structmember.h>  // after Python.h

#include <cstddef>
#include <tuple>

namespace needle {
namespace {

// Frees an object of a Python class over one of these types: such a type owns a reference to
// itself.
void free_object(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* allocate(PyObject* type) {
  auto* const cls = reinterpret_cast<PyTypeObject*>(type);
  PyObject* const object = cls->tp_alloc(cls, 0);
  if (object == nullptr) throw nb::python_error();
  return object;
}

// The class in the first argument, which the others are the fields of.
void check_call(PyObject* const* arguments, Py_ssize_t given, Py_ssize_t expected,
                PyTypeObject* base, const char* name) {
  if (given == expected && PyType_Check(arguments[0]) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(arguments[0]), base)) {
    return;
  }
  raise_type({name, nullptr}, "expected a class over %s and %zd fields", base->tp_name,
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

// Arrays
// -------------------------------------------------------------------------------------------

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
    constexpr Site site{"empty", nullptr};
    check_call(arguments, count, 4, array_type, "empty_array");
    View view;
    const bool is_empty = read_shape(arguments[1], view, site);
    set_compact_strides(view);
    const DType dtype = read_dtype(arguments[2], site);
    nb::object strides = make_tuple(view.strides, view.ndim);
    nb::object handle = new_buffer(is_empty ? 0 : view.size(), dtype);
    return reinterpret_cast<PyObject*>(fill_array(arguments[0], Py_NewRef(arguments[1]),
                                                  strides.release().ptr(), arguments[2],
                                                  arguments[3], handle.release().ptr()));
  });
}

// Nodes
// --------------------------------------------------------------------------------------------

struct NodeFields {
  PyObject_HEAD PyObject *op, *inputs, *cached_data, *requires_grad, *grad;
  long long stamp;  // 0 until the fields are set
};

PyTypeObject* node_type;
long long last_stamp = 0;
long long live_nodes = 0;
PyObject* watcher = nullptr;  // called with every new node, if there is one

// All of these are guarded by the interpreter's lock.
void set_fields(NodeFields* node, PyObject* const* fields) {
  if (node->stamp == 0) ++live_nodes;
  node->stamp = ++last_stamp;
  Py_XSETREF(node->op, Py_NewRef(fields[0]));
  Py_XSETREF(node->inputs, Py_NewRef(fields[1]));
  Py_XSETREF(node->cached_data, Py_NewRef(fields[2]));
  Py_XSETREF(node->requires_grad, Py_NewRef(fields[3]));
  Py_XSETREF(node->grad, Py_NewRef(Py_None));
  if (watcher != nullptr) [[unlikely]] {
    const nb::object callback = nb::borrow(watcher);  // it may stop watching
    callback(nb::handle(reinterpret_cast<PyObject*>(node)));
  }
}

int clear_node(PyObject* self) {
  auto* const node = reinterpret_cast<NodeFields*>(self);
  Py_CLEAR(node->op);
  Py_CLEAR(node->inputs);
  Py_CLEAR(node->cached_data);
  Py_CLEAR(node->requires_grad);
  Py_CLEAR(node->grad);
  return 0;
}

int traverse_node(PyObject* self, visitproc visit, void* arg) {
  auto* const node = reinterpret_cast<NodeFields*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(node->op);
  Py_VISIT(node->inputs);
  Py_VISIT(node->cached_data);
  Py_VISIT(node->grad);
  return 0;
}

void free_node(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* const node = reinterpret_cast<NodeFields*>(self);
  if (node->stamp != 0) --live_nodes;
  clear_node(self);
  free_object(self);
}

// make_node(cls, op, inputs, cached_data, requires_grad)
PyObject* make_node(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    check_call(arguments, count, 5, node_type, "make_node");
    nb::object node = nb::steal(allocate(arguments[0]));
    set_fields(reinterpret_cast<NodeFields*>(node.ptr()), arguments + 1);
    return node.release().ptr();
  });
}

// self._init(op, inputs, cached_data, requires_grad)
PyObject* init_node(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    if (count != 4) raise_type({"_init", nullptr}, "expected 4 fields, got %zd", count);
    set_fields(reinterpret_cast<NodeFields*>(self), arguments);
    Py_RETURN_NONE;
  });
}

// node.shape and node.dtype: the data's own, or in lazy mode those of what stands for it.
PyObject* get_fact(PyObject* self, PyObject* ArrayFields::* field, const char* name) {
  PyObject* const data = reinterpret_cast<NodeFields*>(self)->cached_data;
  if (data != nullptr && data != Py_None) {
    const ArrayFields* const array = array_fields(data);
    if (array != nullptr && array->*field != nullptr) return Py_NewRef(array->*field);
    return PyObject_GetAttrString(data, name);
  }
  PyObject* const stand_in = PyObject_CallMethod(self, "_shape_data", nullptr);
  if (stand_in == nullptr) return nullptr;
  PyObject* const fact = PyObject_GetAttrString(stand_in, name);
  Py_DECREF(stand_in);
  return fact;
}

PyObject* get_shape(PyObject* self, void*) { return get_fact(self, &ArrayFields::shape, "shape"); }
PyObject* get_dtype(PyObject* self, void*) { return get_fact(self, &ArrayFields::dtype, "dtype"); }

PyObject* watch_nodes(PyObject*, PyObject* callback) {
  Py_XSETREF(watcher, callback == Py_None ? nullptr : Py_NewRef(callback));
  Py_RETURN_NONE;
}

PyObject* next_stamp(PyObject*, PyObject*) { return PyLong_FromLongLong(++last_stamp); }
PyObject* count_nodes(PyObject*, PyObject*) { return PyLong_FromLongLong(live_nodes); }

// State of compiled functions (needle/compile/binding.py), which is looked at in every call
// ------------------------------------------------------------------------------------------

NodeFields* node_fields(PyObject* object) {
  if (!PyObject_TypeCheck(object, node_type)) {
    raise_type({"state", nullptr}, "expected a tensor, got %s", Py_TYPE(object)->tp_name);
  }
  return reinterpret_cast<NodeFields*>(object);
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
      const NodeFields* const node = node_fields(PyList_GET_ITEM(arguments[0], i));
      if (node->cached_data != PyList_GET_ITEM(arguments[1], i)) Py_RETURN_FALSE;
      if (node->requires_grad != PyList_GET_ITEM(arguments[2], i)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

// take_homes(homes, arrays, buffers) with homes (slot, place, references): puts the memory of the
// array at each place into its slot if only a tensor and the list have the array, and only so many
// have its memory. Gives the positions of the other homes.
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
      if (has_memory && Py_REFCNT(array) == 2 && Py_REFCNT(fields->handle) == references) {
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
      PyObject* const gradient = node_fields(PyTuple_GET_ITEM(home, 1))->grad;
      const bool is_ours = i < PyList_GET_SIZE(gradients) && gradient != Py_None &&
                           gradient == PyList_GET_ITEM(gradients, i) && Py_REFCNT(gradient) == 2;
      PyObject* const array = is_ours ? node_fields(gradient)->cached_data : nullptr;
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

PyMethodDef fast_method(const char* name,
                        PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  const auto erased = reinterpret_cast<void (*)()>(function);
  return {name, reinterpret_cast<PyCFunction>(erased), METH_FASTCALL, nullptr};
}

// The types
// ----------------------------------------------------------------------------------------

PyTypeObject* make_type(PyType_Spec& spec, nb::handle base) {
  PyObject* const bases = PyTuple_Pack(1, base.ptr());
  PyObject* const type = bases == nullptr ? nullptr : PyType_FromSpecWithBases(&spec, bases);
  Py_XDECREF(bases);
  if (type == nullptr) throw nb::python_error();
  return reinterpret_cast<PyTypeObject*>(type);
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

PyTypeObject* make_node_type(nb::handle base) {
  static PyMemberDef members[] = {
      {"op", T_OBJECT_EX, offsetof(NodeFields, op), 0, nullptr},
      {"inputs", T_OBJECT_EX, offsetof(NodeFields, inputs), 0, nullptr},
      {"cached_data", T_OBJECT_EX, offsetof(NodeFields, cached_data), 0, nullptr},
      {"requires_grad", T_OBJECT_EX, offsetof(NodeFields, requires_grad), 0, nullptr},
      {"grad", T_OBJECT_EX, offsetof(NodeFields, grad), 0, nullptr},
      {"_stamp", T_LONGLONG, offsetof(NodeFields, stamp), 0, nullptr},
      {}};
  static PyGetSetDef facts[] = {{"shape", get_shape, nullptr, nullptr, nullptr},
                                {"dtype", get_dtype, nullptr, nullptr, nullptr},
                                {}};
  static PyMethodDef methods[] = {fast_method("_init", init_node), {}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("The fields of a value in the graph.")},
      {Py_tp_members, members},
      {Py_tp_getset, facts},
      {Py_tp_methods, methods},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_node)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_node)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_node)},
      {0, nullptr}};
  static PyType_Spec spec = {"needle._native.NodeBase", sizeof(NodeFields), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return make_type(spec, base);
}

}  // namespace

const ArrayFields* array_fields(nb::handle object) {
  return PyObject_TypeCheck(object.ptr(), array_type)
             ? reinterpret_cast<const ArrayFields*>(object.ptr())
             : nullptr;
}

bool is_floating_array(const ArrayFields& array) {
  const bool is_whole =
      array.dtype != nullptr && array.device != nullptr && array.handle != nullptr;
  if (!is_whole || !is_buffer(array.handle) || recording() != nullptr) return false;
  return is_floating(nb::inst_ptr<Buffer>(array.handle)->dtype());
}

nb::object new_array(const ArrayFields& like, const View& shape, View& out) {
  out.ndim = shape.ndim;
  out.dtype = shape.dtype;
  std::copy(shape.shape, shape.shape + shape.ndim, out.shape);
  const bool is_empty = check_shape(out, {"empty", nullptr});
  set_compact_strides(out);
  nb::object sizes = make_tuple(out.shape, out.ndim), strides = make_tuple(out.strides, out.ndim);
  nb::object handle = new_buffer(is_empty ? 0 : out.size(), out.dtype);
  out.data = nb::inst_ptr<Buffer>(handle)->data();
  return nb::steal(reinterpret_cast<PyObject*>(
      fill_array(reinterpret_cast<PyObject*>(Py_TYPE(&like)), sizes.release().ptr(),
                 strides.release().ptr(), like.dtype, like.device, handle.release().ptr())));
}

void bind_objects(nb::module_& m) {
  const nb::object base = m.attr("BufferExporter");
  array_type = make_array_type(base);
  node_type = make_node_type(base);
  m.attr("ArrayBase") = nb::borrow(reinterpret_cast<PyObject*>(array_type));
  m.attr("NodeBase") = nb::borrow(reinterpret_cast<PyObject*>(node_type));
  static PyMethodDef functions[] = {fast_method("make_array", make_array),
                                    fast_method("empty_array", empty_array),
                                    fast_method("make_node", make_node),
                                    fast_method("hold_arrays", hold_arrays),
                                    fast_method("take_homes", take_homes),
                                    fast_method("take_gradients", take_gradients),
                                    {"next_stamp", next_stamp, METH_NOARGS, nullptr},
                                    {"count_nodes", count_nodes, METH_NOARGS, nullptr},
                                    {"watch_nodes", watch_nodes, METH_O, nullptr},
                                    {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
