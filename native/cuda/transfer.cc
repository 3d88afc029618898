#include "transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "streams.h"

namespace needle::cuda {
namespace {

// Pinned memory in two halves: while one is copied, the other is filled.
class Staging {
 public:
  void send(Address out, const char* host, size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (size_t sent = 0; sent < bytes; sent += kHalf, is_second_ = !is_second_) {
      const size_t count = std::min(kHalf, bytes - sent);
      std::unique_ptr<Mark>& passed = passed_[is_second_];
      if (passed != nullptr) passed->wait();
      char* const half = memory() + (is_second_ ? kHalf : 0);
      std::memcpy(half, host + sent, count);
      check(driver().copy_to_device(out + sent, half, count, stream()), "cuMemcpyHtoDAsync");
      passed = std::make_unique<Mark>(stream());
    }
  }

 private:
  static constexpr size_t kHalf = size_t{1} << 22;

  char* memory() {
    if (memory_ == nullptr) {
      void* made = nullptr;
      check(driver().allocate_pinned(&made, 2 * kHalf, 0), "cuMemHostAlloc");
      memory_ = static_cast<char*>(made);
    }
    return memory_;
  }

  std::mutex mutex_;
  char* memory_ = nullptr;  // as long as the process
  bool is_second_ = false;
  std::unique_ptr<Mark> passed_[2];  // the last copies from each half
};

}  // namespace

void copy_to_device(Address out, const void* host, size_t bytes) {
  static Staging* const staging = new Staging;  // never freed: other threads may use it
  staging->send(out, static_cast<const char*>(host), bytes);
}

void copy_to_host(void* out, Address device, size_t bytes) {
  check(driver().copy_to_host(out, device, bytes, stream()), "cuMemcpyDtoHAsync");
  check(driver().synchronize_stream(stream()), "cuStreamSynchronize");
}

}  // namespace needle::cuda
