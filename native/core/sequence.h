// A sequence: kernel calls that were noted once and run again and again, without Python in between.
//
// While a thread records, launch() notes what it would have run: the kernel as a function over
// views, and the views themselves. Their memory is not there yet. It is named by a *slot* and a
// place in it, coded as an address that no program has; every run gives each slot its memory.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/view.h"

namespace needle {

using Views = const View* const*;
using Launch = std::function<void(Views)>;  // a kernel over the views of its operands

struct Memory {
  char* data;
  int64_t bytes;
};

// What a run throws if one of its calls does: the call's number, followed by the number of the call
// in its body if it is a loop; and what that one threw.
struct FailedCall {
  std::vector<int64_t> path;
  std::exception_ptr error;
};

class Sequence {
 public:
  Sequence();
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // The address that stands for a place in a slot until the sequence runs.
  static char* address(int64_t slot, int64_t byte_offset);
  static bool is_address(const char* data);
  static constexpr int64_t kMaxSlots = int64_t{1} << 18;
  static constexpr int64_t kMaxBytes = int64_t{1} << 44;  // of one slot

  void add(std::span<const View* const> views, Launch launch);  // null: an operand left out
  int64_t size() const { return static_cast<int64_t>(calls_.size()); }

  // From now on these calls run side by side, each lane's in order. The lanes have, in ascending
  // numbers, all calls from their first to their last; what one writes, no other reads or writes.
  // std::invalid_argument if they are not such lanes, or begin before those of an earlier call end.
  void side_by_side(std::vector<std::vector<int64_t>> lanes);

  // Runs every call in order, one run at a time; std::logic_error if it is called from inside a run
  // of its own, FailedCall if a call throws. `seconds`, if given, gets the time of each call, which
  // then runs alone.
  void run(std::span<const Memory> slots, std::vector<double>* seconds = nullptr);

  // Its calls work on a device's memory: what is no placeholder stays where it is, and is kept by
  // the call.
  void set_on_device() { is_on_device_ = true; }

  // One of its calls waits for what was handed to a device: the others cannot become a graph.
  void set_waits() { waits_ = true; }
  bool waits() const { return waits_; }

  // In a child process: forgets a run of a thread that only the parent has.
  void renew_in_child();

 private:
  struct Call {
    Launch launch;
    std::vector<const View*> operands;
  };
  struct Use {  // a view whose address follows its slot
    View* view;
    int64_t byte_offset;
  };

  struct Section {  // calls that run side by side
    int64_t begin, end;
    std::vector<std::vector<int64_t>> lanes;
  };

  View* keep(const View& view);
  void bind(std::span<const Memory> slots);
  void run_call(int64_t number) const;

  std::vector<Call> calls_;
  std::vector<Section> sections_;                 // in order
  std::vector<std::unique_ptr<char[]>> storage_;  // of views and of scalars
  std::vector<std::vector<Use>> uses_;            // by slot
  std::vector<char*> bound_;                      // the memory that views point to now
  std::recursive_mutex running_;
  bool is_running_ = false;
  bool is_on_device_ = false;
  bool waits_ = false;
};

Sequence*& recording();  // the sequence that this thread records, or nullptr

}  // namespace needle
