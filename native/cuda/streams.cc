#include "streams.h"

namespace needle::cuda {

Stream* stream() {
  static Stream* const made = [] {
    constexpr unsigned kNonBlocking = 1;
    Stream* found = nullptr;
    check(driver().create_stream(&found, kNonBlocking), "cuStreamCreate");
    return found;
  }();
  return made;
}

void synchronize() { check(driver().synchronize(), "cuCtxSynchronize"); }

Mark::Mark(Stream* stream) {
  constexpr unsigned kDisableTiming = 2;
  check(driver().create_event(&event_, kDisableTiming), "cuEventCreate");
  check(driver().record_event(event_, stream), "cuEventRecord");
}

Mark::~Mark() {
  if (event_ != nullptr) driver().destroy_event(event_);
}

bool Mark::is_reached() const {
  const Result result = driver().query_event(event_);
  if (result == kNotReady) return false;
  check(result, "cuEventQuery");
  return true;
}

void Mark::wait() const { check(driver().synchronize_event(event_), "cuEventSynchronize"); }

void Mark::hold_back(Stream* other) const {
  check(driver().wait_for_event(other, event_, 0), "cuStreamWaitEvent");
}

}  // namespace needle::cuda
