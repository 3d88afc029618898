// needle._native.cuda: the device behind the CUDA driver, its memory, and calls of kernels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cuda/allocator.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/space.h"
#include "cuda/streams.h"
#include "cuda/transfer.h"

namespace needle {
namespace {

using cuda::Parameters;

void bind_device(nb::module_& m) {
  m.def("set_library", cuda::set_library, nb::arg("path"), nb::arg("is_simulated"),
        "Which library is the driver; before anything else here is called.");
  m.def("is_available", cuda::is_available, "Is there a driver with a device?");
  m.def("why_unavailable", cuda::why_unavailable);
  m.def("is_simulated", cuda::is_simulated);
  m.def("synchronize", [] {
    const GilRelease release;
    cuda::synchronize();
  });
  m.def("properties", [] {
    const cuda::Properties& p = cuda::properties();
    nb::dict found;
    found["name"] = p.name;
    found["capability"] = nb::make_tuple(p.major, p.minor);
    found["multiprocessors"] = p.multiprocessors;
    found["total_memory"] = p.total_memory;
    found["shared_memory_per_block"] = p.shared_memory_per_block;
    found["most_shared_memory_per_block"] = p.most_shared_memory_per_block;
    found["registers_per_block"] = p.registers_per_block;
    found["warp_size"] = p.warp_size;
    found["clock_khz"] = p.clock_khz;
    found["driver_version"] = p.driver_version;
    return found;
  });
}

// Memory ------------------------------------------------------------------------------------------

nb::object empty(nb::handle size, nb::handle dtype) {
  const int64_t count = read_int(size, {"empty"}, "size");
  const DType type = read_dtype(dtype, {"empty"});
  int64_t bytes;
  if (count < 0 || __builtin_mul_overflow(count, item_size(type), &bytes)) {
    raise_value({"empty"}, "expected a size, got %lld", static_cast<long long>(count));
  }
  cuda::Block* const block = cuda::take_block(static_cast<size_t>(bytes));
  const auto release = [](void* owner) { cuda::give_back(static_cast<cuda::Block*>(owner)); };
  Buffer buffer(reinterpret_cast<void*>(cuda::address_of(block)), count, type, false, block,
                release, Where::device);
  buffer.make_own();
  return adopt_buffer(std::move(buffer));
}

cuda::Address address_of(const Buffer& buffer) {
  return reinterpret_cast<cuda::Address>(buffer.data());
}

// Whole buffers of the same number of bytes; `host` is the address of the host's.
void copy_in(nb::handle out, uintptr_t host) {
  Buffer& buffer = buffer_of(out, {"from_numpy"}, Where::device);
  if (buffer.nbytes() == 0) return;
  const GilRelease release;
  cuda::copy_to_device(address_of(buffer), reinterpret_cast<const void*>(host),
                       static_cast<size_t>(buffer.nbytes()));
}

void copy_out(nb::handle from, uintptr_t host) {
  if (recording() != nullptr) raise_value({"to_numpy"}, "a sequence cannot read its results");
  const Buffer& buffer = buffer_of(from, {"to_numpy"}, Where::device);
  if (buffer.nbytes() == 0) return;
  const GilRelease release;
  cuda::copy_to_host(reinterpret_cast<void*>(host), address_of(buffer),
                     static_cast<size_t>(buffer.nbytes()));
}

void bind_device_memory(nb::module_& m) {
  m.def("empty", empty, nb::arg("size"), nb::arg("dtype"));
  m.def("copy_in", copy_in, nb::arg("out"), nb::arg("address"), "From the host's memory.");
  m.def("copy_out", copy_out, nb::arg("a"), nb::arg("address"), "To the host's memory.");
  m.def("memory_stats", [] {
    const cuda::MemoryStats stats = cuda::memory_stats();
    nb::dict found;
    found["live"] = stats.live;
    found["peak"] = stats.peak;
    found["pooled"] = stats.reserved - stats.live;
    found["segments"] = stats.segments;
    found["retries"] = stats.retries;
    return found;
  });
  m.def("reset_peak_memory", cuda::reset_peak_memory);
  m.def("release_memory", cuda::release_kept_memory);
  m.def("set_caching", cuda::set_caching, nb::arg("on"),
        "Off: every block is an allocation of its own.");
}

// Launches ----------------------------------------------------------------------------------------

struct Tail {  // the members of a kernel's struct behind its operands
  std::vector<char> bytes;
  explicit Tail(const nb::bytes& given) : bytes(given.c_str(), given.c_str() + given.size()) {}
};

void read_numbers(nb::handle value, unsigned* numbers, const char* what) {
  if (!PyTuple_Check(value.ptr())) {
    numbers[0] = static_cast<unsigned>(read_int(value, {"launch"}, what));
    return;
  }
  int64_t found[kMaxDims];
  const int count = read_tuple(value, found, {"launch"}, what);
  if (count > 3) raise_value({"launch"}, "%s has %d axes, at most 3 work", what, count);
  for (int i = 0; i < count; ++i) numbers[i] = static_cast<unsigned>(found[i]);
}

// Operands of a recorded call that are no placeholders: memory that the call alone keeps.
std::vector<nb::object> kept_of(const std::vector<Operand>& operands) {
  std::vector<nb::object> kept;
  for (const Operand& operand : operands) {
    if (!Sequence::is_address(buffer_in(operand.handle)->data())) kept.push_back(operand.handle);
  }
  return kept;
}

// Runs kernel(views), or notes it if this thread records a sequence.
template <class F>
void hand_over(const std::vector<Operand>& operands, std::span<const View* const> views,
               const F& kernel) {
  if (Sequence* const sequence = recording(); sequence != nullptr) {
    return sequence->add(views, [kernel, kept = kept_of(operands)](Views v) { kernel(v); });
  }
  kernel(views.data());
}

// The addresses of outs and ins, then the tail. None among them is the address 0.
void launch_kernel(const cuda::Kernel& kernel, nb::handle grid, nb::handle block, nb::tuple outs,
                   nb::tuple ins, nb::bytes tail, nb::handle shared) {
  cuda::Grid size;
  read_numbers(grid, size.blocks, "grid");
  read_numbers(block, size.threads, "block");
  size.shared_bytes = static_cast<unsigned>(read_int(shared, {"launch"}, "shared"));
  const std::vector<Operand> operands =
      read_operands(outs, ins, kernel.name().c_str(), Where::device);
  const auto call = [&kernel, size, rest = Tail(tail), n = operands.size()](Views views) {
    Parameters parameters;
    for (size_t i = 0; i < n; ++i) parameters.add(reinterpret_cast<cuda::Address>(views[i]->data));
    parameters.add_struct(rest.bytes);
    kernel.launch(size, parameters.bytes());
  };
  hand_over(operands, views_of(operands), call);
}

constexpr uint32_t kThreads = 256, kPerThread = 4;  // as operand.cuh has them

cuda::Grid grid_of(uint32_t size) {
  cuda::Grid grid;
  const uint32_t wanted = (size + kPerThread - 1) / kPerThread;
  grid.threads[0] = std::min(kThreads, (wanted + 31) / 32 * 32);
  const uint32_t per_block = grid.threads[0] * kPerThread;
  grid.blocks[0] = (size - 1) / per_block + 1;
  return grid;
}

void launch_space(const cuda::Kernel& kernel, const cuda::Space& space, Views views,
                  const Tail& rest) {
  Parameters parameters;
  const size_t count = space.strides.size();
  for (size_t n = 0; n < count; ++n) {
    const int64_t start = space.starts[n] * item_size(views[n]->dtype);
    parameters.add(reinterpret_cast<cuda::Address>(views[n]->data + start));
  }
  for (const auto& strides : space.strides) {
    for (int d = 0; d < space.rank; ++d) parameters.add(strides[static_cast<size_t>(d)]);
  }
  for (int d = 0; d < space.rank; ++d) parameters.add(space.shape[d]);
  parameters.add(space.size);
  parameters.add_struct(rest.bytes);
  kernel.launch(grid_of(space.size), parameters.bytes());
}

// An elementwise kernel: `ins` are broadcast to the first output's shape, and `find` gives the
// kernel for a number of axes.
void launch_each(nb::handle find, nb::tuple outs, nb::tuple ins, nb::bytes tail, const char* name) {
  std::vector<Operand> operands = read_operands(outs, ins, name, Where::device);
  const View& first = operands[0].view;
  for (size_t n = 1; n < operands.size(); ++n) {
    if (n < outs.size()) require_shape(operands[n].view, first.shape, first.ndim, {name, "outs"});
    operands[n].view = broadcast(operands[n].view, first.shape, first.ndim, {name, "ins"});
  }
  const std::vector<const View*> views = views_of(operands);
  const Tail rest(tail);
  cuda::for_each_space(views, [&](cuda::Space& space) {
    const nb::object found = find(space.rank);
    const auto& kernel = *nb::inst_ptr<cuda::Kernel>(found);
    hand_over(operands, views,
              [&kernel, space, rest](Views v) { launch_space(kernel, space, v, rest); });
  });
}

// A call of Python as a part of a sequence, on memory that it is told of as (buffer, offset) of
// each operand, outputs first; for what must look at elements before it goes on.
void record_python(nb::handle function, nb::tuple outs, nb::tuple ins) {
  const std::vector<Operand> operands = read_operands(outs, ins, "record_python", Where::device);
  if (recording() != nullptr) recording()->set_waits();
  const auto call = [kept = nb::borrow(function), count = operands.size()](Views v) {
    const GilAcquire acquire;
    nb::list places;
    for (size_t k = 0; k < count; ++k) {
      int64_t lowest = 0, highest = 0;
      for (int d = 0; d < v[k]->ndim; ++d) {
        const int64_t reach = (v[k]->shape[d] - 1) * v[k]->strides[d];
        (reach < 0 ? lowest : highest) += reach;
      }
      Buffer buffer(
          v[k]->data + lowest * item_size(v[k]->dtype), highest - lowest + 1, v[k]->dtype, false,
          nullptr, [](void*) {}, Where::device);
      places.append(nb::make_tuple(adopt_buffer(std::move(buffer)), -lowest));
    }
    kept(places);
  };
  const std::vector<const View*> views = views_of(operands);
  hand_over(operands, views, call);
}

void bind_launches(nb::module_& m) {
  nb::class_<cuda::Kernel>(m, "Kernel", nb::is_final(), "A function of PTX.")
      .def(nb::init<const char*, const char*>(), nb::arg("ptx"), nb::arg("name"))
      .def_prop_ro("name", &cuda::Kernel::name)
      .def("launch", launch_kernel, nb::arg("grid"), nb::arg("block"), nb::arg("outs"),
           nb::arg("ins"), nb::arg("tail") = nb::bytes(""), nb::arg("shared") = 0,
           "A kernel whose one parameter is a struct: the operands' addresses, then `tail`.");
  m.def("is_recording", [] { return recording() != nullptr; });
  m.def("record_python", record_python, nb::arg("function"), nb::arg("outs"), nb::arg("ins"));
  m.def("set_capturing", cuda::set_capturing, nb::arg("on"), "Whether sequences become graphs.");
  m.def("launch_each", launch_each, nb::arg("find"), nb::arg("outs"), nb::arg("ins"),
        nb::arg("tail") = nb::bytes(""), nb::arg("name") = "cuda",
        "An elementwise kernel, whose struct begins with Operands (cuda/kernels/operand.cuh).");
}

}  // namespace

void bind_cuda(nb::module_& module) {
  nb::module_ m = module.def_submodule("cuda", "The device behind the CUDA driver.");
  nb::exception<cuda::Error>(m, "CudaError", PyExc_RuntimeError);
  bind_device(m);
  bind_device_memory(m);
  bind_launches(m);
}

}  // namespace needle
