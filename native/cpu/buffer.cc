#include "buffer.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "host.h"

namespace needle {
namespace {

constexpr size_t kAlignment = 64;

// Size classes: eight steps between powers of two, so at most 1/8 of a block is unused.
constexpr int kStepBits = 3;

size_t class_of(size_t bytes) {
  const size_t units = std::max<size_t>(1, (bytes + kAlignment - 1) / kAlignment);
  const int exponent = std::max(0, static_cast<int>(std::bit_width(units - 1)) - kStepBits - 1);
  const size_t mantissa = (units - 1) >> exponent;  // below 2^(kStepBits + 1)
  return (static_cast<size_t>(exponent) << kStepBits) + mantissa;
}

size_t bytes_of_class(size_t c) {
  constexpr size_t steps = size_t{1} << kStepBits;
  const size_t exponent = c < 2 * steps ? 0 : (c >> kStepBits) - 1;
  const size_t mantissa = c - (exponent << kStepBits);
  return ((mantissa + 1) << exponent) * kAlignment;
}

// Freed blocks by size class. Never destroyed: buffers may outlive static destruction.
class Pool {
 public:
  Pool() : memory_(available_memory()), bound_(memory_ / 8) {}

  char* allocate(size_t bytes) {
    const size_t c = class_of(bytes);
    const int64_t block = static_cast<int64_t>(bytes_of_class(c));
    const std::lock_guard lock(mutex_);
    char* data = nullptr;
    if (!free_[c].empty()) {
      data = free_[c].back();
      free_[c].pop_back();
      stats_.pooled -= block;
    } else {
      data = from_system(block, bytes);
    }
    stats_.live += block;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return data;
  }

  void free(char* data, size_t bytes) noexcept {
    const size_t c = class_of(bytes);
    const int64_t block = static_cast<int64_t>(bytes_of_class(c));
    const std::lock_guard lock(mutex_);
    stats_.live -= block;
    if (stats_.pooled + block > bound_ || !keep(c, data)) {
      std::free(data);
      return;
    }
    stats_.pooled += block;
  }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    flush();
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }

  std::mutex& mutex() { return mutex_; }

 private:
  // Refuses what can never be resident: the system would promise it now and kill us later.
  char* from_system(int64_t block, size_t bytes) {
    if (stats_.live + stats_.pooled + block > memory_) flush();
    if (stats_.live + block > memory_) refuse(bytes);
    void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(block));
    if (data == nullptr) {
      flush();
      data = std::aligned_alloc(kAlignment, static_cast<size_t>(block));
    }
    if (data == nullptr) refuse(bytes);
    return static_cast<char*>(data);
  }

  [[noreturn]] void refuse(size_t bytes) {
    throw AllocationError("[empty] cannot allocate " + std::to_string(bytes) + " bytes (" +
                          std::to_string(stats_.live) + " in use, " + std::to_string(memory_) +
                          " available to this process)");
  }

  bool keep(size_t c, char* data) noexcept {
    try {
      free_[c].push_back(data);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void flush() noexcept {
    for (auto& blocks : free_) {
      for (char* data : blocks) std::free(data);
      blocks.clear();
    }
    stats_.pooled = 0;
  }

  static constexpr size_t kClasses = 64 << kStepBits;

  const int64_t memory_;
  const int64_t bound_;  // of pooled bytes
  std::mutex mutex_;
  std::array<std::vector<char*>, kClasses> free_;
  MemoryStats stats_{0, 0, 0};
};

Pool& pool();

// A fork in the middle of an allocation would leave the child with a locked mutex.
Pool* make_pool() {
  pthread_atfork([] { pool().mutex().lock(); }, [] { pool().mutex().unlock(); },
                 [] { pool().mutex().unlock(); });
  return new Pool;
}

Pool& pool() {
  static Pool* const instance = make_pool();
  return *instance;
}

}  // namespace

MemoryStats memory_stats() { return pool().stats(); }
void reset_peak_memory() { pool().reset_peak(); }
void release_pooled_memory() { pool().release(); }

Buffer::Buffer(int64_t size, DType dtype) : size_(size), dtype_(dtype) {
  int64_t bytes = 0;
  if (size < 0 || __builtin_mul_overflow(size, item_size(dtype), &bytes) ||
      bytes > (int64_t{1} << 60)) {
    throw AllocationError("[empty] cannot allocate " + std::to_string(size) + " x " +
                          std::to_string(item_size(dtype)) +
                          " bytes (more than an address space holds)");
  }
  data_ = pool().allocate(static_cast<size_t>(bytes));
}

Buffer::Buffer(void* data, int64_t size, DType dtype, bool readonly, void* owner,
               void (*release)(void* owner))
    : data_(static_cast<char*>(data)),
      size_(size),
      dtype_(dtype),
      readonly_(readonly),
      owner_(owner),
      release_(release) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(dtype_, other.dtype_);
  std::swap(readonly_, other.readonly_);
  std::swap(owner_, other.owner_);
  std::swap(release_, other.release_);
  return *this;
}

Buffer::~Buffer() {
  if (release_ != nullptr) {
    release_(owner_);
  } else if (data_ != nullptr) {
    pool().free(data_, static_cast<size_t>(nbytes()));
  }
}

}  // namespace needle
