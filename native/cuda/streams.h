// Streams and events: work that was handed over and runs later, in order within a stream.
#pragma once

#include "driver.h"

namespace needle::cuda {

// The stream that kernels and copies of this process use.
Stream* stream();

// Waits for all work; errors of kernels show here.
void synchronize();

// A place in a stream's work, to wait for from elsewhere.
class Mark {
 public:
  explicit Mark(Stream* stream);
  Mark(Mark&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark();

  bool is_reached() const;
  void wait() const;                    // on the host
  void hold_back(Stream* other) const;  // what `other` is given from now on runs after it

 private:
  Event* event_ = nullptr;
};

}  // namespace needle::cuda
