// The slot of needle/tracing.py: who traces on this thread, and two hook points that ask it: the
// kernels of a device, here, and the data of nodes, in nodes.cc.
#include <utility>

#include "types.h"

namespace needle {
namespace {

thread_local PyObject* tracer = nullptr;

PyObject* get_tracer(PyObject*, PyObject*) {
  return Py_NewRef(tracer == nullptr ? Py_None : tracer);
}

// Gives what was there before.
PyObject* set_tracer(PyObject*, PyObject* object) {
  PyObject* const before = std::exchange(tracer, object == Py_None ? nullptr : Py_NewRef(object));
  return before == nullptr ? Py_NewRef(Py_None) : before;
}

struct DeviceFields {
  PyObject_HEAD PyObject* kernels;
};

PyObject* get_kernels(PyObject* self, void*) {
  PyObject* const kernels = reinterpret_cast<DeviceFields*>(self)->kernels;
  if (kernels == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "mod");
    return nullptr;
  }
  if (tracer == nullptr || kernels == Py_None) return Py_NewRef(kernels);
  return PyObject_CallMethod(tracer, "kernels", "OO", self, kernels);
}

int set_kernels(PyObject* self, PyObject* value, void*) {
  Py_XSETREF(reinterpret_cast<DeviceFields*>(self)->kernels, Py_XNewRef(value));
  return 0;
}

int traverse_device(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<DeviceFields*>(self)->kernels);
  return 0;
}

int clear_device(PyObject* self) {
  Py_CLEAR(reinterpret_cast<DeviceFields*>(self)->kernels);
  return 0;
}

void free_device(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_device(self);
  free_object(self);
}

PyTypeObject* make_device_type() {
  static PyGetSetDef fields[] = {{"mod", get_kernels, set_kernels, nullptr, nullptr}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_doc,
       const_cast<char*>("A device's kernels: the tracer's while a function is traced.")},
      {Py_tp_getset, fields},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_device)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_device)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_device)},
      {0, nullptr}};
  static PyType_Spec spec = {"needle._native.DeviceBase", sizeof(DeviceFields), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return make_type(spec);
}

}  // namespace

PyObject* active_tracer() { return tracer; }

void bind_tracing(nb::module_& m) {
  PyTypeObject* const device_type = make_device_type();
  m.attr("DeviceBase") = nb::borrow(reinterpret_cast<PyObject*>(device_type));
  static PyMethodDef functions[] = {{"active_tracer", get_tracer, METH_NOARGS, nullptr},
                                    {"set_tracer", set_tracer, METH_O, nullptr},
                                    {}};
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace needle
