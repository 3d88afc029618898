#include "sequence.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <unordered_set>

#include "parallel.h"

namespace needle {
namespace {

constexpr uintptr_t kNowhere = uintptr_t{1} << 62;  // no machine maps memory there
constexpr int kSlotBits = 44;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// True while this lives. A signal handler, or a Python function that is part of a sequence, may run
// between its kernels; their views have memory for one run.
class Mark {
 public:
  explicit Mark(bool& flag) : flag_(flag) {
    if (flag_) {
      throw std::logic_error(
          "[jit] this function is running: neither a signal handler that interrupts it nor an "
          "operator in it can call it.");
    }
    flag_ = true;
  }
  ~Mark() { flag_ = false; }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  bool& flag_;
};

// Every sequence there is. Never destroyed: some may outlive static destruction.
struct Registry {
  std::mutex mutex;
  std::unordered_set<Sequence*> sequences;
};

Registry& registry();

// A fork in the middle of another thread's run would leave the child with a locked sequence.
void renew_all_in_child() {
  for (Sequence* const sequence : registry().sequences) sequence->renew_in_child();
  registry().mutex.unlock();
}

Registry& registry() {
  static Registry* const all = [] {
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   renew_all_in_child);
    return new Registry;
  }();
  return *all;
}

}  // namespace

Sequence::Sequence() {
  const std::lock_guard lock(registry().mutex);
  registry().sequences.insert(this);
}

Sequence::~Sequence() {
  const std::lock_guard lock(registry().mutex);
  registry().sequences.erase(this);
}

void Sequence::renew_in_child() {
  if (running_.try_lock()) {  // nobody runs it, or this very thread does
    running_.unlock();
    return;
  }
  new (&running_) std::recursive_mutex;
  is_running_ = false;
  bound_.clear();  // perhaps it was being bound
}

Sequence*& recording() {
  thread_local Sequence* current = nullptr;
  return current;
}

char* Sequence::address(int64_t slot, int64_t byte_offset) {
  const uintptr_t place =
      (static_cast<uintptr_t>(slot) << kSlotBits) + static_cast<uintptr_t>(byte_offset);
  return reinterpret_cast<char*>(kNowhere + place);
}

bool Sequence::is_address(const char* data) {
  return reinterpret_cast<uintptr_t>(data) >= kNowhere;
}

// A copy of a view. Memory that is not a placeholder is a number of the call itself (stride 0
// everywhere), and is copied too; but not that of a device.
View* Sequence::keep(const View& view) {
  storage_.push_back(std::make_unique<char[]>(sizeof(View)));
  View* const kept = reinterpret_cast<View*>(storage_.back().get());
  kept->data = view.data;
  kept->dtype = view.dtype;
  kept->ndim = view.ndim;
  for (int d = 0; d < view.ndim; ++d) {
    kept->shape[d] = view.shape[d];
    kept->strides[d] = view.strides[d];
  }
  if (is_address(view.data)) {
    const uintptr_t place = reinterpret_cast<uintptr_t>(view.data) - kNowhere;
    const size_t slot = place >> kSlotBits;
    if (uses_.size() <= slot) uses_.resize(slot + 1);
    const int64_t byte_offset = static_cast<int64_t>(place & ((uintptr_t{1} << kSlotBits) - 1));
    uses_[slot].push_back({kept, byte_offset});
  } else if (view.size() > 0 && !is_on_device_) {
    storage_.push_back(std::make_unique<char[]>(8));
    kept->data = storage_.back().get();
    std::memcpy(kept->data, view.data, static_cast<size_t>(item_size(view.dtype)));
  }
  return kept;
}

void Sequence::add(std::span<const View* const> views, Launch launch) {
  Call call{std::move(launch), {}};
  for (const View* view : views) call.operands.push_back(view ? keep(*view) : nullptr);
  calls_.push_back(std::move(call));
}

void Sequence::bind(std::span<const Memory> slots) {
  if (slots.size() < uses_.size()) throw std::invalid_argument("[sequence] too few slots");
  bound_.resize(uses_.size(), nullptr);
  for (size_t slot = 0; slot < uses_.size(); ++slot) {
    char* const data = slots[slot].data;
    if (data == bound_[slot]) continue;
    for (const Use& use : uses_[slot]) use.view->data = data + use.byte_offset;
    bound_[slot] = data;
  }
}

void Sequence::side_by_side(std::vector<std::vector<int64_t>> lanes) {
  std::vector<int64_t> all;
  bool is_right = true;
  for (const auto& lane : lanes) {
    is_right = is_right && std::ranges::is_sorted(lane);
    all.insert(all.end(), lane.begin(), lane.end());
  }
  std::ranges::sort(all);
  const int64_t earliest = sections_.empty() ? 0 : sections_.back().end;
  is_right = is_right && !all.empty() && all.front() >= earliest && all.back() < size();
  for (size_t i = 1; i < all.size(); ++i) is_right = is_right && all[i] == all[i - 1] + 1;
  if (!is_right) throw std::invalid_argument("[sequence] these calls are not lanes");
  sections_.push_back({all.front(), all.back() + 1, std::move(lanes)});
}

void Sequence::run_call(int64_t number) const {
  const Call& call = calls_[static_cast<size_t>(number)];
  try {
    call.launch(call.operands.data());
  } catch (FailedCall& inner) {  // in the body of a loop
    inner.path.insert(inner.path.begin(), number);
    throw;
  } catch (...) {
    throw FailedCall{{number}, std::current_exception()};
  }
}

void Sequence::run(std::span<const Memory> slots, std::vector<double>* seconds) {
  const std::lock_guard lock(running_);
  const Mark mark(is_running_);
  bind(slots);
  if (seconds != nullptr) {
    for (int64_t i = 0; i < size(); ++i) {
      const auto start = Clock::now();
      run_call(i);
      seconds->push_back(since(start));
    }
    return;
  }
  int64_t done = 0;
  for (const Section& section : sections_) {
    for (; done < section.begin; ++done) run_call(done);
    parallel_for(static_cast<int64_t>(section.lanes.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; ++lane) {
        for (const int64_t number : section.lanes[static_cast<size_t>(lane)]) run_call(number);
      }
    });
    done = section.end;
  }
  for (; done < size(); ++done) run_call(done);
}

}  // namespace needle
