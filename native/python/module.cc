// The Python module needle._native: memory, threads and instruction sets; the rest of it is in the
// other files here, each of which says what it binds.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/isa.h"

namespace needle {
namespace {

bool has_pending_signal() {
  const GilAcquire gil;
  return PyErr_CheckSignals() != 0;  // leaves the exception set
}

void set_error_of(const FailedCall& failed);

void set_index_error(const IndexOutOfRange& e) {
  try {
    const nb::module_ protocol = nb::module_::import_("needle.backend.protocol");
    const nb::object error = protocol.attr("out_of_range")(e.position, e.value, e.size);
    PyErr_SetObject(PyExc_IndexError, error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const FailedCall& e) {
    set_error_of(e);
  } catch (const AllocationError& e) {
    PyErr_SetString(PyExc_MemoryError, e.what());
  } catch (const IndexOutOfRange& e) {
    set_index_error(e);
  } catch (const Interrupted&) {
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

// The error of a call in a sequence; its attribute `calls` says which call it was.
void set_error_of(const FailedCall& failed) {
  try {
    std::rethrow_exception(failed.error);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (...) {
    translate(std::current_exception(), nullptr);
  }
  nb::python_error error;
  const nb::object path = make_tuple(failed.path.data(), static_cast<int>(failed.path.size()));
  if (PyObject_SetAttrString(error.value().ptr(), "calls", path.ptr()) != 0) PyErr_Clear();
  error.restore();
}

void bind_memory(nb::module_& m) {
  auto buffer = nb::class_<Buffer>(m, "Buffer", nb::is_final(), nb::is_weak_referenceable(),
                                   "A typed, flat piece of memory.");
  const auto address = [](Buffer& b) {
    b.expose();
    return reinterpret_cast<uintptr_t>(b.data());
  };
  buffer.def("ptr", address)
      .def_prop_ro("version", &Buffer::version, "Another number after each write.")
      .def_prop_ro("size", &Buffer::size)
      .def_prop_ro("nbytes", &Buffer::nbytes)
      .def_prop_ro("readonly", &Buffer::readonly)
      .def_prop_ro("is_on_device", [](const Buffer& b) { return b.where() == Where::device; })
      .def_prop_ro("dtype", [](const Buffer& b) { return dtype_name(b.dtype()); });
  set_buffer_type(buffer);

  m.def(
      "empty",
      [](nb::handle size, nb::handle dtype) {
        const int64_t count = read_int(size, {"empty"}, "size");
        if (count < 0) {
          raise_value({"empty"}, "size must not be negative, got %lld",
                      static_cast<long long>(count));
        }
        return new_buffer(count, read_dtype(dtype, {"empty"}));
      },
      nb::arg("size"), nb::arg("dtype"));

  m.def(
      "memory_stats",
      [] {
        const MemoryStats stats = memory_stats();
        nb::dict result;
        result["live"] = stats.live;
        result["peak"] = stats.peak;
        result["pooled"] = stats.pooled;
        return result;
      },
      "Bytes in live buffers, their peak, and bytes of freed blocks kept for reuse.");
  m.def("reset_peak_memory", reset_peak_memory, "Lets the peak start again from what is live.");
  m.def("release_memory", release_pooled_memory, "Gives pooled blocks back to the system.");
}

void bind_threads(nb::module_& m) {
  m.def("get_num_threads", get_num_threads, "Size of the thread pool, the caller included.");
  m.def(
      "set_num_threads",
      [](nb::handle count) {
        constexpr int kMost = 1024;
        const int64_t n = read_int(count, {"set_num_threads"}, "the number of threads");
        if (n < 1 || n > kMost) {
          raise_value({"set_num_threads"}, "expected 1 to %d threads, got %lld", kMost,
                      static_cast<long long>(n));
        }
        const GilRelease release;
        set_num_threads(static_cast<int>(n));
      },
      nb::arg("count"),
      "Lets kernels use 1 to 1024 threads, the caller included; for the whole process. Results do "
      "not depend on it.");
}

void bind_instruction_sets(nb::module_& m) {
  m.def("instruction_set", [] { return kernels().name; }, "The kernels in use.");
  m.def(
      "instruction_sets",
      [] {
        nb::list names;
        for (const KernelTable* table : usable_tables()) names.append(table->name);
        return nb::tuple(names);
      },
      "Those that this machine can run, best first.");
  m.def(
      "use_instruction_set",
      [](std::optional<std::string> name) { use_instruction_set(name ? name->c_str() : nullptr); },
      nb::arg("name").none(), "Switches the kernels; None is the best that this machine has.");
  m.def(
      "get_matmul_precision", [] { return static_cast<int>(matmul_precision()); },
      "Position in needle.backend.precision.PRECISIONS.");
  m.def(
      "set_matmul_precision",
      [](nb::handle value) {
        const Site site = {"set_matmul_precision"};
        const int64_t position = read_int(value, site, "the precision");
        if (position < 0 || position > 2) raise_value(site, "expected 0, 1 or 2");
        set_matmul_precision(static_cast<MatmulPrecision>(position));
      },
      nb::arg("precision"));
}

}  // namespace
}  // namespace needle

NB_MODULE(_native, m) {
  m.doc() = "The native core of needle: buffers and kernels of the CPU.";
  m.attr("__version__") = NEEDLE_VERSION;
  nanobind::set_leak_warnings(false);  // memory shared by DLPack may outlive the interpreter
  nanobind::register_exception_translator(needle::translate);
  needle::set_interrupt_hook(needle::has_pending_signal);
  needle::bind_memory(m);
  needle::bind_threads(m);
  needle::bind_instruction_sets(m);
  needle::bind_results(m);
  needle::bind_elementwise(m);
  needle::bind_reductions(m);
  needle::bind_kernels(m);
  needle::bind_conv(m);
  needle::bind_sequence(m);
  needle::bind_programs(m);
  needle::bind_compiled(m);
  needle::bind_networks(m);
  needle::bind_exchange(m);
  needle::bind_dlpack(m);
  needle::bind_arrays(m);
  needle::bind_tracing(m);
  needle::bind_nodes(m);
  needle::bind_views(m);
  needle::bind_reverse(m);
  needle::bind_state(m);
  needle::bind_cuda(m);
}
