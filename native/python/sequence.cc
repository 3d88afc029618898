// needle._native.Sequence: recording kernel calls and running them as one.
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <tuple>

#include "bindings.h"
#include "core/sequence.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/transfer.h"

namespace needle {
namespace {

constexpr Site kSequenceSite{"Sequence"};

// A sequence and what its slots must be when it runs.
struct SequenceObject {
  struct Slot {
    int64_t bytes = 0;
    int64_t item = 1;  // of its widest elements: they lie at multiples of it
    bool written = false;

    bool takes(const void* memory) const {
      return reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(item) == 0;
    }
  };
  std::shared_ptr<Sequence> sequence = std::make_shared<Sequence>();  // loops hold it too
  std::vector<Slot> slots;
  Where where = Where::host;
  cuda::Graphs graphs = {};  // of a device
};

nb::object placeholder(SequenceObject& self, nb::handle slot, nb::handle byte_offset,
                       nb::handle size, nb::handle dtype, bool written) {
  const int64_t number = read_int(slot, kSequenceSite, "slot");
  const int64_t offset = read_int(byte_offset, kSequenceSite, "byte_offset");
  const int64_t count = read_int(size, kSequenceSite, "size");
  const DType type = read_dtype(dtype, kSequenceSite);
  int64_t bytes;
  if (number < 0 || number >= Sequence::kMaxSlots || offset < 0 || count < 0 ||
      offset % item_size(type) != 0 || __builtin_mul_overflow(count, item_size(type), &bytes) ||
      __builtin_add_overflow(bytes, offset, &bytes) || bytes >= Sequence::kMaxBytes) {
    raise_value(kSequenceSite, "there is no place for %lld elements at byte %lld of slot %lld",
                static_cast<long long>(count), static_cast<long long>(offset),
                static_cast<long long>(number));
  }
  const auto index = static_cast<size_t>(number);
  if (self.slots.size() <= index) self.slots.resize(index + 1);
  self.slots[index].bytes = std::max(self.slots[index].bytes, bytes);
  self.slots[index].item = std::max<int64_t>(self.slots[index].item, item_size(type));
  self.slots[index].written |= written;
  return adopt_buffer(Buffer(
      Sequence::address(number, offset), count, type, !written, nullptr, [](void*) {}, self.where));
}

void set_recording(SequenceObject& self, bool on) {
  if (on && recording() != nullptr) raise_value(kSequenceSite, "this thread records one already");
  recording() = on ? self.sequence.get() : nullptr;
}

std::vector<Memory> read_slots(const SequenceObject& self, nb::handle buffers) {
  if (!PyList_Check(buffers.ptr()) ||
      static_cast<size_t>(PyList_GET_SIZE(buffers.ptr())) != self.slots.size()) {
    raise_value(kSequenceSite, "expected a list of %zu buffers", self.slots.size());
  }
  std::vector<Memory> slots;
  slots.reserve(self.slots.size());
  for (size_t i = 0; i < self.slots.size(); ++i) {
    const nb::handle item = PyList_GET_ITEM(buffers.ptr(), static_cast<Py_ssize_t>(i));
    const Buffer& buffer = buffer_of(item, kSequenceSite, self.where);
    if (buffer.nbytes() < self.slots[i].bytes) {
      raise_value(kSequenceSite, "expected %lld bytes in slot %zu, got %lld",
                  static_cast<long long>(self.slots[i].bytes), i,
                  static_cast<long long>(buffer.nbytes()));
    }
    if (!self.slots[i].takes(buffer.data())) {
      raise_value(kSequenceSite,
                  "the memory of slot %zu does not begin at a multiple of %lld bytes", i,
                  static_cast<long long>(self.slots[i].item));
    }
    if (self.slots[i].written && buffer.readonly()) {
      raise_value(kSequenceSite, "the memory of slot %zu is read-only", i);
    }
    slots.push_back({buffer.data(), buffer.nbytes()});
  }
  return slots;
}

std::vector<WriteNote> notes_of(const SequenceObject& self, nb::handle buffers) {
  std::vector<WriteNote> notes;
  for (size_t i = 0; i < self.slots.size(); ++i) {
    if (!self.slots[i].written) continue;
    const nb::handle item = PyList_GET_ITEM(buffers.ptr(), static_cast<Py_ssize_t>(i));
    notes.emplace_back(item, buffer_of(item, kSequenceSite, self.where));
  }
  return notes;
}

// All calls are handed over at once, as a graph where memory is what it was before.
void run_on_device(SequenceObject& self, const std::vector<Memory>& slots) {
  if (self.sequence->waits()) return self.sequence->run(slots);
  std::vector<const void*> key;
  for (const Memory& slot : slots) key.push_back(slot.data);
  self.graphs.run(key, [&] { self.sequence->run(slots); });
}

// The list keeps the buffers alive: the caller holds it.
void run_sequence(SequenceObject& self, nb::handle buffers) {
  const std::vector<Memory> slots = read_slots(self, buffers);
  const std::vector<WriteNote> notes = notes_of(self, buffers);
  const GilRelease release;
  if (self.where == Where::device) return run_on_device(self, slots);
  restart_interrupt_clock();
  self.sequence->run(slots);
}

std::vector<double> run_sequence_timed(SequenceObject& self, nb::handle buffers) {
  const std::vector<Memory> slots = read_slots(self, buffers);
  const std::vector<WriteNote> notes = notes_of(self, buffers);
  std::vector<double> seconds;
  const GilRelease release;
  restart_interrupt_clock();
  const cuda::Waiting waiting(self.where == Where::device);
  self.sequence->run(slots, &seconds);
  return seconds;
}

// Where a slot of a loop's body finds its memory at each step.
struct LoopPlace {
  int64_t first;  // the view of step 0 if it has one of its own, else -1
  int64_t view;
  int64_t bytes;  // from one element of the view to the next
  int64_t ring;   // 0: element i for step i; two that alternate: 1 reads the other, 2 writes
};

constexpr Site kLoop{"run_loop"};

std::vector<LoopPlace> read_places(nb::handle places) {
  std::vector<LoopPlace> found;
  for (const nb::handle place : nb::cast<nb::tuple>(places)) {
    const nb::tuple fields = nb::cast<nb::tuple>(place);
    if (fields.size() != 4) raise_value(kLoop, "expected 4 fields in a place");
    int64_t values[4];
    for (size_t k = 0; k < 4; ++k) values[k] = read_int(fields[k], kLoop, "a place");
    found.push_back({values[0], values[1], values[2], values[3]});
  }
  return found;
}

int64_t bytes_of(const View& view) { return view.size() * item_size(view.dtype); }

// Does every step find the bytes that its slot needs, where its elements may lie?
void check_place(const LoopPlace& p, const SequenceObject::Slot& slot, int64_t steps,
                 const std::vector<Operand>& operands) {
  const auto count = static_cast<int64_t>(operands.size());
  bool fits = p.view >= 0 && p.view < count && p.first < count && p.bytes >= 0 && p.ring >= 0 &&
              p.bytes % slot.item == 0;
  int64_t end;  // of what the last step finds
  fits = fits && !__builtin_mul_overflow(p.bytes, p.ring == 0 ? steps - 1 : 1, &end) &&
         !__builtin_add_overflow(end, slot.bytes, &end);
  const auto holds = [&](int64_t number, int64_t bytes) {
    const View& view = operands[static_cast<size_t>(number)].view;
    return is_compact(view) && bytes <= bytes_of(view) && slot.takes(view.data);
  };
  fits = fits && holds(p.view, end) && (p.first < 0 || holds(p.first, slot.bytes));
  if (!fits) raise_value(kLoop, "a slot has no memory of its size at every step");
}

// A call that waits for the device, in the sequence that this thread records.
void note_waits(bool waits) {
  if (waits && recording() != nullptr) recording()->set_waits();
}

// Where the memory of the first of some operands is.
Where where_of(nb::handle outs, nb::handle ins) {
  for (const nb::handle operands : {outs, ins}) {
    for (const nb::handle operand : operands) {
      const nb::object handle = nb::getattr(operand, "_handle", nb::none());
      const Buffer* const buffer = buffer_in(handle);
      if (buffer != nullptr) return buffer->where();
    }
  }
  return Where::host;
}

// A value that a `while` carries from step to step: where it is before the first step, and the two
// that alternate.
struct Ring {
  int64_t first;
  int64_t view;
  int64_t bytes;  // of one
};

std::vector<Ring> read_rings(nb::handle rings, const std::vector<Operand>& operands) {
  std::vector<Ring> found;
  for (const nb::handle ring : nb::cast<nb::tuple>(rings)) {
    const nb::tuple fields = nb::cast<nb::tuple>(ring);
    if (fields.size() != 3) raise_value(kLoop, "expected 3 fields in a ring");
    int64_t values[3];
    for (size_t k = 0; k < 3; ++k) values[k] = read_int(fields[k], kLoop, "a ring");
    const auto holds = [&](int64_t number, int64_t bytes) {
      if (number < 0 || number >= static_cast<int64_t>(operands.size())) return false;
      const View& view = operands[static_cast<size_t>(number)].view;
      return is_compact(view) && bytes <= bytes_of(view);
    };
    const auto [first, view, bytes] = std::tuple{values[0], values[1], values[2]};
    const bool fits = bytes >= 0 && bytes <= INT64_MAX / 2 && (bytes > 0 || !found.empty());
    if (!fits || !holds(first, bytes) || !holds(view, 2 * bytes)) {
      raise_value(kLoop, "a ring has no memory for two");
    }
    found.push_back({first, view, bytes});
  }
  return found;
}

// Where a carried value is before a step.
char* place_before(const Ring& ring, int64_t step, Views v) {
  return step == 0 ? v[ring.first]->data : v[ring.view]->data + (step + 1) % 2 * ring.bytes;
}

// Is this bool false? On a device, this waits for it.
bool is_false(const char* flag, Where where) {
  char value = 0;
  if (where == Where::host) return *flag == 0;
  cuda::copy_to_host(&value, reinterpret_cast<cuda::Address>(flag), 1);
  return value == 0;
}

void copy_bytes(char* out, const char* in, int64_t count, Where where) {
  const auto bytes = static_cast<size_t>(count);
  if (out == in || bytes == 0) return;
  if (where == Where::host) {
    std::memcpy(out, in, bytes);
    return;
  }
  std::vector<char> between(bytes);
  cuda::copy_to_host(between.data(), reinterpret_cast<cuda::Address>(in), bytes);
  cuda::copy_to_device(reinterpret_cast<cuda::Address>(out), between.data(), bytes);
}

// The body's sequence, once per step; a part of another sequence like any kernel. With rings it is
// a `while`: it ends before a step that finds its first one false. Then the values are copied to
// where the last of all steps would have left them.
void run_loop(const SequenceObject& body, nb::handle steps, bool reverse, nb::handle places,
              nb::handle carried, nb::handle outs, nb::handle ins) {
  const int64_t count = read_int(steps, kLoop, "the number of steps");
  std::vector<LoopPlace> found = read_places(places);
  const std::vector<Operand> operands = read_operands(outs, ins, kLoop.kernel, body.where);
  const Where where = body.where;
  if (found.size() != body.slots.size()) {
    raise_value(kLoop, "expected %zu places, got %zu", body.slots.size(), found.size());
  }
  for (size_t s = 0; s < found.size() && count > 0; ++s) {
    check_place(found[s], body.slots[s], count, operands);
  }
  const std::vector<Ring> rings = read_rings(carried, operands);
  note_waits(body.sequence->waits() || (!rings.empty() && where == Where::device));
  constexpr int64_t kLong = int64_t{1} << 30;
  launch(kLong, views_of(operands),
         [inner = body.sequence, count, reverse, found, rings, where](Views v) {
           std::vector<Memory> slots(found.size());
           for (int64_t step = 0; step < count; ++step) {
             if (!rings.empty() && is_false(place_before(rings[0], step, v), where)) {
               for (const Ring& ring : rings) {
                 char* last = v[ring.view]->data + (count - 1) % 2 * ring.bytes;
                 copy_bytes(last, place_before(ring, step, v), ring.bytes, where);
               }
               break;
             }
             const int64_t element = reverse ? count - 1 - step : step;
             for (size_t s = 0; s < found.size(); ++s) {
               const LoopPlace& p = found[s];
               const bool is_first = step == 0 && p.first >= 0;
               const int64_t at = p.ring == 0 ? element : (step + p.ring) % 2;
               slots[s].data = is_first ? v[p.first]->data : v[p.view]->data + at * p.bytes;
             }
             inner->run(slots);
             check_interrupt();
           }
         });
}

// A Python function on the memory of operands in C order, as a part of a sequence: it is called
// with a list of buffers, outputs first, which live as long as the call.
void run_python(nb::handle function, nb::handle outs, nb::handle ins) {
  const Where where = where_of(outs, ins);
  const std::vector<Operand> operands = read_operands(outs, ins, "run_python", where);
  note_waits(where == Where::device);
  for (const Operand& operand : operands) {
    if (!is_compact(operand.view)) raise_value({"run_python"}, "expected operands in C order");
  }
  const size_t writable = nb::cast<nb::tuple>(outs).size();
  const auto call = [kept = nb::borrow(function), writable, count = operands.size(),
                     where](Views v) {
    const GilAcquire acquire;
    nb::list buffers;
    for (size_t k = 0; k < count; ++k) {
      buffers.append(adopt_buffer(Buffer(
          v[k]->data, v[k]->size(), v[k]->dtype, k >= writable, nullptr, [](void*) {}, where)));
    }
    kept(buffers);
  };
  launch(0, views_of(operands), call);
}

}  // namespace

void bind_sequence(nb::module_& m) {
  using nb::arg;
  nb::class_<SequenceObject>(m, "Sequence", "Kernel calls, recorded once, that run as one.")
      .def(
          "__init__",
          [](SequenceObject* self, bool on_device) {
            new (self) SequenceObject;
            if (!on_device) return;
            self->where = Where::device;
            self->sequence->set_on_device();
          },
          arg("on_device") = false)
      .def("__len__", [](const SequenceObject& self) { return self.sequence->size(); })
      .def("placeholder", placeholder, arg("slot"), arg("byte_offset"), arg("size"), arg("dtype"),
           arg("written"), "A buffer that stands for a place in a slot's memory.")
      .def(
          "start", [](SequenceObject& self) { set_recording(self, true); },
          "From now on this thread's kernels on placeholders are noted, not run.")
      .def("stop", [](SequenceObject& self) { set_recording(self, false); })
      .def(
          "side_by_side",
          [](SequenceObject& self, std::vector<std::vector<int64_t>> lanes) {
            self.sequence->side_by_side(std::move(lanes));
          },
          arg("lanes"), "Calls, by number, that may run at the same time: each lane's in order.")
      .def("run", run_sequence, arg("buffers"), "Runs all calls with the memory of each slot.")
      .def("run_timed", run_sequence_timed, arg("buffers"),
           "The same; gives the seconds of each call.");
  m.def("run_loop", run_loop, arg("body"), arg("steps"), arg("reverse"), arg("places"),
        arg("rings"), arg("outs"), arg("ins"), "Runs a sequence once per step.");
  m.def("run_python", run_python, arg("function"), arg("outs"), arg("ins"));
}

}  // namespace needle
