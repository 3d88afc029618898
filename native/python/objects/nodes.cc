// NodeBase, under Value, with its fields in C, and what every operation does with them: making a
// node from Python code takes four times as long.
#include <string>
#include <utility>

#include "types.h"

namespace needle {
namespace {

PyTypeObject* node_type;
long long last_stamp = 0;
long long live_nodes = 0;

// The tracer's method, called with some arguments.
template <class... Arguments>
nb::object ask_tracer(const char* method, Arguments*... given) {
  const nb::object tracer = nb::borrow(active_tracer());  // it may leave its slot
  return checked(PyObject_CallMethodObjArgs(
      tracer.ptr(), checked(PyUnicode_FromString(method)).ptr(), given..., nullptr));
}

// All of these are guarded by the interpreter's lock.
void set_fields(NodeFields* node, PyObject* const* fields) {
  if (node->stamp == 0) ++live_nodes;
  node->stamp = ++last_stamp;
  Py_XSETREF(node->op, Py_NewRef(fields[0]));
  Py_XSETREF(node->inputs, Py_NewRef(fields[1]));
  Py_XSETREF(node->cached_data, Py_NewRef(fields[2]));
  Py_XSETREF(node->requires_grad, Py_NewRef(fields[3]));
  Py_XSETREF(node->grad, Py_NewRef(Py_None));
  if (active_tracer() != nullptr) [[unlikely]] {
    ask_tracer("note_made", reinterpret_cast<PyObject*>(node));
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

// Operators ---------------------------------------------------------------------------------------

thread_local bool grad_enabled = true;

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled); }

// Gives what was set before.
PyObject* set_grad_enabled(PyObject*, PyObject* enabled) {
  const int wanted = PyObject_IsTrue(enabled);
  if (wanted < 0) return nullptr;
  return PyBool_FromLong(std::exchange(grad_enabled, wanted != 0));
}

// The data of an operator's input, computed now if it is pending (lazy mode).
nb::object data_of(nb::handle input) {
  static PyObject* const field = PyUnicode_InternFromString("cached_data");
  static PyObject* const method = PyUnicode_InternFromString("realize_cached_data");
  PyObject* const own = node_fields(input)->cached_data;
  nb::object data = active_tracer() == nullptr && own != nullptr
                        ? nb::borrow(own)
                        : checked(PyObject_GetAttr(input.ptr(), field));
  return data.is_none() ? checked(PyObject_CallMethodNoArgs(input.ptr(), method)) : data;
}

// Raises if op.compute gave no array, for a call (op, arrays). With NEEDLE_BACKEND=np, arrays are
// NumPy's.
void check_result(PyObject* op, PyObject* call, nb::handle data) {
  const bool has_arrays =
      PyTuple_GET_SIZE(call) > 1 && array_fields(PyTuple_GET_ITEM(call, 1)) != nullptr;
  const bool is_array = array_fields(data) != nullptr || PyTuple_Check(data.ptr());
  if (!data.is_none() && (is_array || !has_arrays)) return;
  const std::string site = class_name(op) + ".compute";
  if (data.is_none()) raise_type({site.c_str(), nullptr}, "expected an array, got None.");
  raise_type({site.c_str(), nullptr}, "expected an NDArray, got %s; make one, NDArray(result).",
             class_name(data).c_str());
}

// A face: a class over another, whose values make operators that take one give values of the face.
struct Face {
  PyTypeObject *base, *face;
};

Face faces[2];

bool is_face(PyTypeObject* type) {
  for (const auto& [base, face] : faces) {
    if (face != nullptr && (type == face || PyType_IsSubtype(type, face))) return true;
  }
  return false;
}

// set_face(which, base, face): the face of the first or the second class
PyObject* set_face(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    if (count != 3) raise_type({"set_face", nullptr}, "expected 3 arguments, got %zd", count);
    check_call(arguments + 2, 1, 1, node_type, "set_face");
    const long which = PyLong_AsLong(arguments[0]);
    if (which != 0 && which != 1) raise_value({"set_face", nullptr}, "expected 0 or 1");
    faces[which] = {reinterpret_cast<PyTypeObject*>(Py_NewRef(arguments[1])),
                    reinterpret_cast<PyTypeObject*>(Py_NewRef(arguments[2]))};
    Py_RETURN_NONE;
  });
}

PyObject* face_of(PyObject* cls) {
  for (const auto& [base, face] : faces) {
    if (reinterpret_cast<PyObject*>(base) == cls) return reinterpret_cast<PyObject*>(face);
  }
  return cls;
}

// What compute found about an operator's inputs: does one require a gradient, is one of a face?
struct Inputs {
  bool tracked = false, has_face = false;
};

// Is the data a view of the memory of the first input? Faces write into views, so that these know
// what they are views of, recorded or not.
bool is_view(nb::handle data, PyObject* inputs) {
  if (PyTuple_GET_SIZE(inputs) == 0) return false;
  PyObject* const source = node_fields(PyTuple_GET_ITEM(inputs, 0))->cached_data;
  const ArrayFields* const view = array_fields(data);
  const ArrayFields* const whole = source == nullptr ? nullptr : array_fields(source);
  return view != nullptr && whole != nullptr && view->handle == whole->handle;
}

// What op.compute gives for the inputs' arrays.
nb::object compute(PyObject* op, PyObject* inputs, Inputs& found) {
  static PyObject* const name = PyUnicode_InternFromString("compute");
  const Py_ssize_t count = PyTuple_GET_SIZE(inputs);
  const nb::object call = checked(PyTuple_New(count + 1));  // op, arrays
  PyTuple_SET_ITEM(call.ptr(), 0, Py_NewRef(op));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const nb::handle input = PyTuple_GET_ITEM(inputs, i);
    const NodeFields* const node = node_fields(input);
    if (node == nullptr || node->requires_grad == nullptr) {
      raise_type({class_name(op).c_str(), nullptr},
                 "expected Tensors, got %s as input %zd; wrap it with needle.Tensor(...).",
                 class_name(input).c_str(), i);
    }
    found.tracked |= is_true(node->requires_grad);
    found.has_face |= is_face(Py_TYPE(input.ptr()));
    PyTuple_SET_ITEM(call.ptr(), i + 1, data_of(input).release().ptr());
  }
  const TupleItems arguments(call.ptr());
  nb::object data = active_tracer() != nullptr
                        ? ask_tracer("compute", call.ptr())
                        : checked(PyObject_VectorcallMethod(
                              name, arguments.data(), static_cast<size_t>(count) + 1, nullptr));
  check_result(op, call.ptr(), data);
  return data;
}

// apply(cls, op, inputs): the value of op(*inputs), a node of the class. It keeps op and inputs if
// a gradient may be asked for.
PyObject* apply(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=] {
    static PyObject* const name = PyUnicode_InternFromString("differentiable");
    check_call(arguments, count, 3, node_type, "apply");
    PyObject* const op = arguments[1];
    const nb::object inputs = checked(PySequence_Tuple(arguments[2]));  // which nothing can change
    Inputs found;
    const nb::object data = compute(op, inputs.ptr(), found);
    const bool tracked =
        found.tracked && grad_enabled && is_true(checked(PyObject_GetAttr(op, name)).ptr());
    const bool kept = tracked || (found.has_face && grad_enabled && active_tracer() == nullptr &&
                                  is_view(data, inputs.ptr()));
    nb::object node = nb::steal(allocate(found.has_face ? face_of(arguments[0]) : arguments[0]));
    const nb::object none = kept ? nb::object() : checked(PyList_New(0));
    PyObject* const fields[] = {kept ? op : Py_None, kept ? arguments[2] : none.ptr(), data.ptr(),
                                tracked ? Py_True : Py_False};
    set_fields(reinterpret_cast<NodeFields*>(node.ptr()), fields);
    return node.release().ptr();
  });
}

// Facts -------------------------------------------------------------------------------------------

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

// node.cached_data and node.grad: of a traced function, the tracer says what they are.
struct Field {
  PyObject* NodeFields::* own;
  const char *name, *read, *write;
};

Field data_field = {&NodeFields::cached_data, "cached_data", "read_data", "write_data"};
Field grad_field = {&NodeFields::grad, "grad", "read_grad", "write_grad"};

PyObject* get_field(PyObject* self, void* closure) {
  const Field& field = *static_cast<const Field*>(closure);
  if (active_tracer() != nullptr) [[unlikely]] {
    return guarded([&] { return ask_tracer(field.read, self).release().ptr(); });
  }
  PyObject* const value = reinterpret_cast<NodeFields*>(self)->*field.own;
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, field.name);
  return Py_XNewRef(value);
}

int set_field(PyObject* self, PyObject* value, void* closure) {
  const Field& field = *static_cast<const Field*>(closure);
  if (active_tracer() != nullptr && value != nullptr) [[unlikely]] {
    PyObject* const done =
        guarded([&] { return ask_tracer(field.write, self, value).release().ptr(); });
    Py_XDECREF(done);
    return done == nullptr ? -1 : 0;
  }
  PyObject*& own = reinterpret_cast<NodeFields*>(self)->*field.own;
  Py_XSETREF(own, Py_XNewRef(value));
  return 0;
}

// node.requires_grad: of what has data and was not tracked, setting it makes a leaf.
PyObject* get_requires_grad(PyObject* self, void*) {
  PyObject* const value = reinterpret_cast<NodeFields*>(self)->requires_grad;
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "requires_grad");
  return Py_XNewRef(value);
}

int set_requires_grad(PyObject* self, PyObject* value, void*) {
  auto* const node = reinterpret_cast<NodeFields*>(self);
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "requires_grad");
    return -1;
  }
  const bool has_data = node->cached_data != nullptr && node->cached_data != Py_None;
  if (has_data && value == Py_True && node->requires_grad == Py_False && node->op != Py_None) {
    PyObject* const none = PyList_New(0);
    if (none == nullptr) return -1;
    Py_XSETREF(node->op, Py_NewRef(Py_None));
    Py_XSETREF(node->inputs, none);
  }
  Py_XSETREF(node->requires_grad, Py_NewRef(value));
  return 0;
}

PyObject* next_stamp(PyObject*, PyObject*) { return PyLong_FromLongLong(++last_stamp); }
// note_replaced(nodes): the nodes are given other data now.
PyObject* note_replaced(PyObject*, PyObject* nodes) {
  return guarded([=]() -> PyObject* {
    if (!PyList_Check(nodes)) raise_type({"note_replaced", nullptr}, "expected a list");
    ++last_stamp;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i) {
      NodeFields* const node = node_fields(PyList_GET_ITEM(nodes, i));
      if (node == nullptr) raise_type({"note_replaced", nullptr}, "expected tensors");
      node->replaced = last_stamp;
    }
    Py_RETURN_NONE;
  });
}

PyObject* count_nodes(PyObject*, PyObject*) { return PyLong_FromLongLong(live_nodes); }

PyTypeObject* make_node_type(nb::handle base) {
  static PyMemberDef members[] = {
      {"op", T_OBJECT_EX, offsetof(NodeFields, op), 0, nullptr},
      {"inputs", T_OBJECT_EX, offsetof(NodeFields, inputs), 0, nullptr},
      // The fields behind `cached_data` and `grad`, which a tracer reads.
      {"_data", T_OBJECT_EX, offsetof(NodeFields, cached_data), 0, nullptr},
      {"_grad", T_OBJECT_EX, offsetof(NodeFields, grad), 0, nullptr},
      {"_stamp", T_LONGLONG, offsetof(NodeFields, stamp), 0, nullptr},
      {"_replaced", T_LONGLONG, offsetof(NodeFields, replaced), 0, nullptr},
      {}};
  static PyGetSetDef facts[] = {
      {"shape", get_shape, nullptr, nullptr, nullptr},
      {"dtype", get_dtype, nullptr, nullptr, nullptr},
      {"cached_data", get_field, set_field, nullptr, &data_field},
      {"grad", get_field, set_field, nullptr, &grad_field},
      {"requires_grad", get_requires_grad, set_requires_grad, nullptr, nullptr},
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

NodeFields* node_fields(nb::handle object) {
  return PyObject_TypeCheck(object.ptr(), node_type) ? reinterpret_cast<NodeFields*>(object.ptr())
                                                     : nullptr;
}

void bind_nodes(nb::module_& m) {
  node_type = make_node_type(m.attr("BufferExporter"));
  m.attr("NodeBase") = nb::borrow(reinterpret_cast<PyObject*>(node_type));
  static PyMethodDef functions[] = {
      fast_method("make_node", make_node),
      fast_method("apply", apply),
      fast_method("set_face", set_face),
      {"next_stamp", next_stamp, METH_NOARGS, nullptr},
      {"note_replaced", note_replaced, METH_O, nullptr},
      {"count_nodes", count_nodes, METH_NOARGS, nullptr},
      {"set_grad_enabled", set_grad_enabled, METH_O, nullptr},
      {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Do operators record what they do?"},
      {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
