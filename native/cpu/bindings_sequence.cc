// needle._native.Sequence: recording kernel calls and running them as one.
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "sequence.h"

namespace needle {
namespace {

constexpr Site kSite{"Sequence", nullptr};

// A sequence and what its slots must be when it runs.
struct SequenceObject {
  struct Slot {
    int64_t bytes = 0;
    bool written = false;
  };
  Sequence sequence;
  std::vector<Slot> slots;
};

nb::object placeholder(SequenceObject& self, nb::handle slot, nb::handle byte_offset,
                       nb::handle size, nb::handle dtype, bool written) {
  const int64_t number = read_int(slot, kSite, "slot");
  const int64_t offset = read_int(byte_offset, kSite, "byte_offset");
  const int64_t count = read_int(size, kSite, "size");
  const DType type = read_dtype(dtype, kSite);
  int64_t bytes;
  if (number < 0 || number >= Sequence::kMaxSlots || offset < 0 || count < 0 ||
      __builtin_mul_overflow(count, item_size(type), &bytes) ||
      __builtin_add_overflow(bytes, offset, &bytes) || bytes >= Sequence::kMaxBytes) {
    raise_value(kSite, "there is no place for %lld elements at byte %lld of slot %lld",
                static_cast<long long>(count), static_cast<long long>(offset),
                static_cast<long long>(number));
  }
  const auto index = static_cast<size_t>(number);
  if (self.slots.size() <= index) self.slots.resize(index + 1);
  self.slots[index].bytes = std::max(self.slots[index].bytes, bytes);
  self.slots[index].written |= written;
  return adopt_buffer(
      Buffer(Sequence::address(number, offset), count, type, !written, nullptr, [](void*) {}));
}

void set_recording(SequenceObject& self, bool on) {
  if (on && recording() != nullptr) raise_value(kSite, "this thread records one already");
  recording() = on ? &self.sequence : nullptr;
}

std::vector<Memory> read_slots(const SequenceObject& self, nb::handle buffers) {
  if (!PyList_Check(buffers.ptr()) ||
      static_cast<size_t>(PyList_GET_SIZE(buffers.ptr())) != self.slots.size()) {
    raise_value(kSite, "expected a list of %zu buffers", self.slots.size());
  }
  std::vector<Memory> slots;
  slots.reserve(self.slots.size());
  for (size_t i = 0; i < self.slots.size(); ++i) {
    const nb::handle item = PyList_GET_ITEM(buffers.ptr(), static_cast<Py_ssize_t>(i));
    const Buffer& buffer = buffer_of(item, kSite);
    if (buffer.nbytes() < self.slots[i].bytes) {
      raise_value(kSite, "expected %lld bytes in slot %zu, got %lld",
                  static_cast<long long>(self.slots[i].bytes), i,
                  static_cast<long long>(buffer.nbytes()));
    }
    if (self.slots[i].written && buffer.readonly()) {
      raise_value(kSite, "the memory of slot %zu is read-only", i);
    }
    slots.push_back({buffer.data(), buffer.nbytes()});
  }
  return slots;
}

// The list keeps the buffers alive: the caller holds it.
void run(SequenceObject& self, nb::handle buffers) {
  const std::vector<Memory> slots = read_slots(self, buffers);
  const GilRelease release;
  self.sequence.run(slots);
}

std::vector<double> run_timed(SequenceObject& self, nb::handle buffers) {
  const std::vector<Memory> slots = read_slots(self, buffers);
  std::vector<double> seconds;
  const GilRelease release;
  self.sequence.run(slots, &seconds);
  return seconds;
}

}  // namespace

void bind_sequence(nb::module_& m) {
  using nb::arg;
  nb::class_<SequenceObject>(m, "Sequence", "Kernel calls, recorded once, that run as one.")
      .def(nb::init<>())
      .def("__len__", [](const SequenceObject& self) { return self.sequence.size(); })
      .def("placeholder", placeholder, arg("slot"), arg("byte_offset"), arg("size"), arg("dtype"),
           arg("written"), "A buffer that stands for a place in a slot's memory.")
      .def(
          "start", [](SequenceObject& self) { set_recording(self, true); },
          "From now on this thread's kernels on placeholders are noted, not run.")
      .def("stop", [](SequenceObject& self) { set_recording(self, false); })
      .def("run", run, arg("buffers"), "Runs all calls with the memory of each slot.")
      .def("run_timed", run_timed, arg("buffers"), "The same; gives the seconds of each call.");
}

}  // namespace needle
