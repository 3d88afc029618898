// The walk of reverse mode; needle/autograd/graph.py says what it does, and calls the operators.
#include <iterator>
#include <map>

#include "types.h"

namespace needle {
namespace {

// What the walk needs of needle/autograd/graph.py.
struct Steps {
  PyObject* store;          // (node, adjoint)
  PyObject* differentiate;  // (node, adjoint) -> the adjoints of node.inputs, None where none is
  PyObject* run_hooks;      // (node, adjoint) -> what the node's hooks make of it
  PyObject* reached;        // ids of the nodes that may be walked to, or None for all
  PyObject* ends;           // ids of those that are not looked behind
  PyObject* freed;          // the operator of nodes that were used, or None to keep the graph
};

nb::object call(PyObject* function, nb::handle a, nb::handle b) {
  PyObject* const arguments[] = {a.ptr(), b.ptr()};
  return checked(PyObject_Vectorcall(function, arguments, 2, nullptr));
}

bool contains_id(PyObject* ids, nb::handle object) {
  const int found = PySet_Contains(ids, checked(PyLong_FromVoidPtr(object.ptr())).ptr());
  if (found < 0) throw nb::python_error();
  return found != 0;
}

NodeFields& read_node(nb::handle object) {
  NodeFields* const node = node_fields(object);
  if (node == nullptr || node->op == nullptr || node->inputs == nullptr ||
      node->requires_grad == nullptr) {
    raise_type({"backward", nullptr}, "expected a value of the graph, got %s",
               class_name(object).c_str());
  }
  return *node;
}

// A node's array; null if it has none (a tuple), or not now (lazy mode).
const ArrayFields* array_of(const NodeFields& node) {
  return node.cached_data == nullptr ? nullptr : array_fields(node.cached_data);
}

// Has a gradient the shape and dtype of the input it is for, as far as that is plain to see?
bool has_form_of(const NodeFields& source, nb::handle gradient) {
  const NodeFields* const node = node_fields(gradient);
  const ArrayFields* const array = array_of(source);
  const ArrayFields* const other = node == nullptr ? nullptr : array_of(*node);
  if (array == nullptr || other == nullptr || array->dtype != other->dtype) return false;
  if (array->shape == other->shape) return true;
  const int same = PyObject_RichCompareBool(array->shape, other->shape, Py_EQ);
  if (same < 0) throw nb::python_error();
  return same != 0;
}

// have_forms(node, gradients): need none of them be unbroadcast (needle/autograd/unbroadcast.py)?
PyObject* have_forms(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    if (count != 2)
      raise_type({"backward", nullptr}, "expected a value and the gradients of its inputs");
    const NodeFields* const node = node_fields(arguments[0]);
    if (node == nullptr) Py_RETURN_TRUE;  // there are no inputs to compare them with
    const nb::object inputs = checked(PySequence_Fast(node->inputs, "inputs"));
    const nb::object parts = checked(PySequence_Fast(arguments[1], "gradients"));
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(inputs.ptr());
    if (PySequence_Fast_GET_SIZE(parts.ptr()) != size) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < size; ++i) {
      const NodeFields& source = read_node(PySequence_Fast_GET_ITEM(inputs.ptr(), i));
      const nb::handle part = PySequence_Fast_GET_ITEM(parts.ptr(), i);
      if (part.is_none() || !is_true(source.requires_grad)) continue;
      if (!has_form_of(source, part)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

// Nodes with the adjoints that they have so far, by their numbers: the last one has got all of it.
class Walk {
 public:
  explicit Walk(const Steps& steps) : steps_(steps) {}

  void give(nb::handle node, nb::handle part) {
    if (steps_.reached != Py_None && !contains_id(steps_.reached, node)) return;
    const auto [place, is_new] = pending_.try_emplace(read_node(node).stamp);
    Pending& pending = place->second;
    if (is_new) {
      pending = {nb::borrow(node), nb::borrow(part)};
    } else {
      pending.adjoint = checked(PyNumber_Add(pending.adjoint.ptr(), part.ptr()));
    }
  }

  void run() {
    while (!pending_.empty()) {
      const auto last = std::prev(pending_.end());
      Pending next = std::move(last->second);
      pending_.erase(last);
      visit(next.node, std::move(next.adjoint));
    }
  }

 private:
  struct Pending {
    nb::object node, adjoint;
  };

  void visit(nb::handle object, nb::object adjoint) {
    static PyObject* const complete = PyUnicode_InternFromString("complete");
    static PyObject* const hooks = PyUnicode_InternFromString("_hooks");
    NodeFields& node = read_node(object);
    adjoint = checked(PyObject_CallMethodNoArgs(adjoint.ptr(), complete));
    if (!checked(PyObject_GetAttr(object.ptr(), hooks)).is_none()) {
      adjoint = call(steps_.run_hooks, object, adjoint);
    }
    call(steps_.store, object, adjoint);
    const bool is_end = contains_id(steps_.ends, object);
    if (node.op == Py_None || !is_true(node.requires_grad) || is_end) return;
    const nb::object gradients = call(steps_.differentiate, object, adjoint);
    hand_on(object, gradients);
    if (steps_.freed != Py_None) {
      Py_SETREF(node.op, Py_NewRef(steps_.freed));
      Py_SETREF(node.inputs, checked(PyTuple_New(0)).release().ptr());
    }
  }

  void hand_on(nb::handle node, nb::handle gradients) {
    const nb::object inputs = checked(PySequence_Fast(read_node(node).inputs, "inputs"));
    const nb::object parts = checked(PySequence_Fast(gradients.ptr(), "gradients"));
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(inputs.ptr());
    for (Py_ssize_t i = 0; i < count && i < PySequence_Fast_GET_SIZE(parts.ptr()); ++i) {
      const nb::object source = nb::borrow(PySequence_Fast_GET_ITEM(inputs.ptr(), i));
      const nb::object part = nb::borrow(PySequence_Fast_GET_ITEM(parts.ptr(), i));
      const NodeFields& fields = read_node(source);
      if (part.is_none() || !is_true(fields.requires_grad)) continue;
      give(source, part);
    }
  }

  const Steps steps_;
  std::map<long long, Pending> pending_;
};

// walk_back(outputs, out_grads, then as in Steps)
PyObject* walk_back(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([=]() -> PyObject* {
    const bool fits = count == 8 && PyAnySet_Check(arguments[6]) &&
                      (arguments[5] == Py_None || PyAnySet_Check(arguments[5]));
    if (!fits) raise_type({"backward", nullptr}, "expected outputs, their adjoints and 6 more");
    const nb::object outputs = checked(PySequence_Fast(arguments[0], "outputs"));
    const nb::object out_grads = checked(PySequence_Fast(arguments[1], "out_grads"));
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(outputs.ptr());
    if (PySequence_Fast_GET_SIZE(out_grads.ptr()) != size) {
      raise_value({"backward", nullptr}, "expected one adjoint for each of %zd outputs", size);
    }
    Walk walk({arguments[2], arguments[3], arguments[4], arguments[5], arguments[6], arguments[7]});
    for (Py_ssize_t i = 0; i < size; ++i) {
      walk.give(PySequence_Fast_GET_ITEM(outputs.ptr(), i),
                PySequence_Fast_GET_ITEM(out_grads.ptr(), i));
    }
    walk.run();
    Py_RETURN_NONE;
  });
}

}  // namespace

void bind_reverse(nb::module_& m) {
  static PyMethodDef functions[] = {
      fast_method("walk_back", walk_back), fast_method("have_forms", have_forms), {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
