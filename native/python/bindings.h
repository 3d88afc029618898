// What the binding files share: reading Python operands into views, and running kernels on them.
//
// An operand is any Python object with _handle, shape, strides and offset. Everything is checked
// here, so that no call from Python can make a kernel leave its buffers.
#pragma once

#include <unistd.h>

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "common/kernels.h"
#include "core/buffer.h"
#include "core/sequence.h"
#include "core/threads.h"
#include "python/stable.h"

namespace needle {

// Where an operand comes from, for error messages: "[kernel] role: ...", or "[kernel] ...".
struct Site {
  const char* kernel;
  const char* role = nullptr;
};

// What ArrayBase, the base class of arrays, holds; null until it is set.
struct ArrayFields {
  PyObject_HEAD PyObject *shape, *strides, *offset, *dtype, *device, *handle;
  PyObject* weak_references;
};

// The fields of an array; null for an operand of another class.
const ArrayFields* array_fields(nb::handle object);

// What NodeBase, the base class of values in the graph, holds.
struct NodeFields {
  PyObject_HEAD PyObject *op, *inputs, *cached_data, *requires_grad, *grad;
  long long stamp;     // 0 until the fields are set
  long long replaced;  // the stamp of when it was last given other data
};

// The fields of a node; null for an object of another class.
NodeFields* node_fields(nb::handle object);

// Has this array memory on this device, and does nobody record what is done to it? Is it floating?
bool is_plain_array(const ArrayFields& array);
bool is_floating_array(const ArrayFields& array);

// An array of this shape and dtype for a result of these operands, in memory of its own, of like's
// class and device; `dtype` is the same as shape.dtype in Python, `out` the array's view.
nb::object new_array(const ArrayFields& like, nb::handle dtype, const View& shape,
                     std::span<const View* const> operands, View& out);

// At the end of its life the buffer has been written.
class WriteNote {
 public:
  WriteNote() = default;
  WriteNote(nb::handle handle, Buffer& buffer) : handle_(nb::borrow(handle)), buffer_(&buffer) {}
  WriteNote(const WriteNote& other) = default;
  WriteNote(WriteNote&& other) noexcept { *this = std::move(other); }
  WriteNote& operator=(WriteNote&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~WriteNote() {
    if (buffer_ != nullptr) buffer_->note_write();
  }

 private:
  nb::object handle_;  // keeps the buffer
  Buffer* buffer_ = nullptr;
};

struct Operand {
  View view;
  nb::object handle;  // the Buffer, kept alive while the kernel runs
  bool readonly;
  WriteNote written = {};  // of an output
};

[[noreturn, gnu::format(printf, 2, 3)]] void raise_value(Site site, const char* format, ...);
[[noreturn, gnu::format(printf, 2, 3)]] void raise_type(Site site, const char* format, ...);

std::string shape_text(const int64_t* shape, int ndim);  // "(2, 3)"
std::string shape_text(const View& view);

const char* dtype_name(DType dtype);
DType read_dtype(nb::handle name, Site site);
int64_t read_int(nb::handle value, Site site, const char* what);
nb::object make_tuple(const int64_t* values, int count);

// A new reference, or the exception that Python has set.
inline nb::object checked(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

int read_axis(nb::handle value, int ndim, const char* kernel);  // from 0 on

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

[[noreturn]] void raise_undefined(const char* name, DType dtype);

// Names of operations as a Python dict to positions: an interned name is found in nanoseconds.
class NameTable {
 public:
  explicit NameTable(const char* kernel) : kernel_(kernel), dict_(PyDict_New()) {}
  NameTable& add(const char* name);
  int position(nb::handle name) const;

 private:
  const char* kernel_;
  PyObject* dict_;  // never freed: tables live as long as the process
};

// Refuses shapes of so many elements (axes of 0 apart, as NumPy does) that kernels could not count
// the bytes of several such arrays in an int64. Gives whether the view is empty.
bool check_shape(const View& view, Site site);

// Reads a tuple of so many integers.
int read_tuple(nb::handle tuple, int64_t* values, Site site, const char* what);

// Reads a tuple of sizes, all checked; true if one is 0.
bool read_shape(nb::handle tuple, View& view, Site site);

// In memory of the host, or of a device.
Operand read_operand(nb::handle object, Site site, Where where = Where::host);
Operand read_output(nb::handle object, Site site,
                    Where where = Where::host);  // writable, and no element twice

// Of a call with a sequence of each: outputs, then inputs.
std::vector<Operand> read_operands(nb::handle outs, nb::handle ins, const char* kernel,
                                   Where where = Where::host);
std::vector<const View*> views_of(const std::vector<Operand>& operands);

// The view with its axes matched to `shape` by NumPy's rules: new and stretched axes get stride 0.
View broadcast(const View& view, const int64_t* shape, int ndim, Site site);

// Widens a shape to the one that it and a broadcast to; gives 0, or, where there is none, the axis
// where they differ, counted from the end (-1 is the last).
int join_shape(View& shape, const View& a);

// The memory order of a result of these operands: that of the first one that has its shape and is
// not row-major, so that channels which are last in memory stay last, under a view that shows them
// second. For matrices only the first operand counts: a parameter keeps its order even if its
// gradient has another one.
void set_result_strides(View& out, std::span<const View* const> operands);

bool is_compact(const View& view);  // C order without gaps

void require_dtype(DType actual, DType expected, Site site);
void require_shape(const View& view, const int64_t* shape, int ndim, Site site);

Buffer* buffer_in(nb::handle handle);  // null for a handle of another class
Buffer& buffer_of(nb::handle handle, Site site, Where where = Where::host);
nb::object new_buffer(int64_t size, DType dtype);
nb::object adopt_buffer(Buffer&& buffer);
void set_buffer_type(nb::handle type);

// Takes the GIL by take(). When Python exits, it ends other threads (daemons) that ask for the GIL
// by unwinding them, and C++ aborts the process on the way; once it is gone, asking is an access to
// no interpreter. Such a thread sleeps here instead.
template <class F>
auto take_gil(F&& take) {
  const auto sleep = [] {
    for (;;) ::pause();
  };
  if (Py_IsInitialized() == 0) sleep();
  try {
    return take();
  } catch (...) {
    sleep();  // inside: nobody may end the unwinding but by passing it on
    throw;
  }
}

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

class GilAcquire {
 public:
  GilAcquire() : state_(take_gil(PyGILState_Ensure)) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  const PyGILState_STATE state_;
};

// Runs a kernel; from `work` operations on without the GIL, so that other Python threads go on.
template <class F>
void run_kernel(int64_t work, F&& kernel) {
  constexpr int64_t kWorthReleasing = 32768;  // about 10 us
  if (recording() != nullptr) [[unlikely]]
    raise_value({"Sequence"}, "this call cannot be part of one");
  if (work < kWorthReleasing) return kernel();
  const GilRelease release;
  restart_interrupt_clock();
  kernel();
}

// The factors of a product of `dtype` and out's shape, checked, with out's batch axes; and how many
// multiplications it takes.
struct Factors {
  View a, b;
  int64_t work;
};
Factors read_factors(const View& a, const View& b, const View& out, DType dtype,
                     const char* kernel);

// The window of a convolution of x and w with results like y, checked; python/conv.cc.
struct ConvFactors {
  ConvWindow window;
  int64_t work;
};
ConvFactors read_conv(const View& x, const View& w, const View& y, nb::handle stride,
                      nb::handle padding, nb::handle dilation, nb::handle groups,
                      const char* kernel);

// Runs kernel(views), or notes it if this thread records a sequence. The kernel is a function of
// type void(Views) that holds all else it needs by value: `[op](Views v) { ...(op, *v[0]); }`.
template <class F>
void launch(int64_t work, std::span<const View* const> views, const F& kernel) {
  if (Sequence* const sequence = recording(); sequence != nullptr) [[unlikely]] {
    return sequence->add(views, kernel);
  }
  run_kernel(work, [&] { kernel(views.data()); });
}

template <class F>
void launch(int64_t work, std::initializer_list<const View*> views, const F& kernel) {
  launch(work, std::span<const View* const>(views.begin(), views.size()), kernel);
}

void bind_results(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_conv(nb::module_& m);
void bind_sequence(nb::module_& m);
void bind_programs(nb::module_& m);
void bind_compiled(nb::module_& m);
void bind_networks(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_arrays(nb::module_& m);
// Who traces on this thread (needle/tracing.py), or null; borrowed.
PyObject* active_tracer();

void bind_tracing(nb::module_& m);
void bind_nodes(nb::module_& m);
void bind_views(nb::module_& m);
void bind_reverse(nb::module_& m);
void bind_state(nb::module_& m);
void bind_cuda(nb::module_& m);

}  // namespace needle
