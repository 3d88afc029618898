#include "buffer.h"

#include <pthread.h>
#include <sys/mman.h>
#include <atomic>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
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

// Large blocks are mapped by themselves, so that freeing one gives it back, and on huge pages where
// the system has them: a page fault for every 2 MB, not for every 4 KB.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapped = 2 * kHugePage;  // from this size on

char* map_block(size_t bytes) {
  void* const room =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(start) % kHugePage;
  char* const block = start + before;
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(block + bytes, kHugePage - before);
#ifdef MADV_HUGEPAGE
  madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return block;
}

char* obtain(size_t bytes) {
  return bytes >= kMapped ? map_block(bytes)
                          : static_cast<char*>(std::aligned_alloc(kAlignment, bytes));
}

void give_back(char* data, size_t bytes) noexcept {
  if (bytes >= kMapped) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
}

// Freed blocks by size class. Never destroyed: buffers may outlive static destruction.
class BlockPool {
 public:
  BlockPool() : memory_(available_memory()), bound_(memory_ / 8) {}

  struct Block {
    char* data;
    size_t size_class;
    uint16_t era;
  };

  Block allocate(size_t bytes) {
    size_t c = class_of(bytes);
    const std::lock_guard lock(mutex_);
    char* data = nullptr;
    if (const size_t found = pooled_class(c); found < kClasses) {
      c = found;
      data = free_[c].back();
      free_[c].pop_back();
      stats_.pooled -= block_size(c);
    } else {
      data = from_system(block_size(c), bytes);
    }
    note_allocation(block_size(c));
    return {data, c, era_};
  }

  void free(char* data, size_t c, uint16_t era) noexcept {
    const std::lock_guard lock(mutex_);
    stats_.live -= block_size(c);
    if (era != era_ || stats_.pooled + block_size(c) > bound_ || !keep(c, data)) {
      give_back(data, static_cast<size_t>(block_size(c)));
      return;
    }
    stats_.pooled += block_size(c);
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
  static int64_t block_size(size_t c) { return static_cast<int64_t>(bytes_of_class(c)); }

  // A class with a pooled block for class c: c itself, or for a large block one up to half as large
  // again, since another one from the system would cost more. kClasses if there is none.
  size_t pooled_class(size_t c) const {
    constexpr size_t kReach = size_t{1} << (kStepBits - 1);
    const size_t last = bytes_of_class(c) >= kMapped ? c + kReach : c;
    for (size_t k = c; k <= last && k < kClasses; ++k) {
      if (!free_[k].empty()) return k;
    }
    return kClasses;
  }

  // Counts a block, and when a stretch ends, gives back what was needed only before it. A stretch
  // is some allocations whose bytes add up to kStretch times the most that was live in it: a few
  // steps of a training run, however large they are.
  void note_allocation(int64_t block) noexcept {
    stats_.live += block;
    stats_.peak = std::max(stats_.peak, stats_.live);
    most_live_ = std::max(most_live_, stats_.live);
    allocated_ += block;
    if (allocated_ / kStretch <= most_live_) return;
    allocated_ = 0;
    most_live_before_ = std::exchange(most_live_, stats_.live);
    shrink(room_for_pool(0));
  }

  // How much may be pooled once `block` more bytes are live: with them, what was live at once in
  // this stretch or the one before, and an eighth.
  int64_t room_for_pool(int64_t block) const {
    const int64_t live = stats_.live + block;
    const int64_t most = std::max({most_live_before_, most_live_, live});
    return most + most / 8 - live;
  }

  // Refuses what can never be resident: the system would promise it now and kill us later.
  char* from_system(int64_t block, size_t bytes) {
    if (stats_.live + stats_.pooled + block > memory_) flush();
    if (stats_.live + block > memory_) refuse(bytes);
    shrink(room_for_pool(block));  // blocks of sizes that are out of use go first
    char* data = obtain(static_cast<size_t>(block));
    if (data == nullptr) {
      flush();
      data = obtain(static_cast<size_t>(block));
    }
    if (data == nullptr) refuse(bytes);
    return data;
  }

  // Gives blocks back until at most `bytes` are pooled: large ones first, then small ones, of which
  // some may stay in any case, since there are many and the system gains little.
  void shrink(int64_t bytes) noexcept {
    const size_t large = class_of(kMapped);
    for (size_t c = large; c < kClasses && stats_.pooled > bytes; ++c) shrink_class(c, bytes);
    const int64_t few = std::max(bytes, kAlwaysPooled);
    for (size_t c = large; c-- > 0 && stats_.pooled > few;) shrink_class(c, few);
  }

  void shrink_class(size_t c, int64_t bytes) noexcept {
    while (!free_[c].empty() && stats_.pooled > bytes) {
      give_back(free_[c].back(), bytes_of_class(c));
      free_[c].pop_back();
      stats_.pooled -= block_size(c);
    }
  }

  // The pool is empty now, and stays so while the error frees what its program held: whoever
  // handles it may need memory that is not ours. Blocks of the new era are pooled again.
  [[noreturn]] void refuse(size_t bytes) {
    ++era_;
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
    for (size_t c = 0; c < kClasses; ++c) {
      for (char* data : free_[c]) give_back(data, bytes_of_class(c));
      free_[c].clear();
    }
    stats_.pooled = 0;
  }

  static constexpr size_t kClasses = 64 << kStepBits;
  static constexpr int64_t kStretch = 8;
  static constexpr int64_t kAlwaysPooled = int64_t{16} << 20;

  const int64_t memory_;
  const int64_t bound_;  // of pooled bytes
  std::mutex mutex_;
  std::array<std::vector<char*>, kClasses> free_;
  MemoryStats stats_{0, 0, 0};
  uint16_t era_ = 0;              // counts the allocations that failed
  int64_t allocated_ = 0;         // bytes, in this stretch
  int64_t most_live_ = 0;         // in this stretch
  int64_t most_live_before_ = 0;  // in the one before
};

BlockPool& block_pool();

// A fork in the middle of an allocation would leave the child with a locked mutex.
BlockPool* make_block_pool() {
  pthread_atfork([] { block_pool().mutex().lock(); }, [] { block_pool().mutex().unlock(); },
                 [] { block_pool().mutex().unlock(); });
  return new BlockPool;
}

BlockPool& block_pool() {
  static BlockPool* const instance = make_block_pool();
  return *instance;
}

}  // namespace

MemoryStats memory_stats() { return block_pool().stats(); }
void reset_peak_memory() { block_pool().reset_peak(); }
void release_pooled_memory() { block_pool().release(); }

Buffer::Buffer(int64_t size, DType dtype) : size_(size), dtype_(dtype) {
  int64_t bytes = 0;
  if (size < 0 || __builtin_mul_overflow(size, item_size(dtype), &bytes) ||
      bytes > (int64_t{1} << 60)) {
    throw AllocationError("[empty] cannot allocate " + std::to_string(size) + " x " +
                          std::to_string(item_size(dtype)) +
                          " bytes (more than an address space holds)");
  }
  const auto block = block_pool().allocate(static_cast<size_t>(bytes));
  data_ = block.data;
  size_class_ = static_cast<uint16_t>(block.size_class);
  era_ = block.era;
}

Buffer::Buffer(void* data, int64_t size, DType dtype, bool readonly, void* owner,
               void (*release)(void* owner), Where where)
    : data_(static_cast<char*>(data)),
      size_(size),
      dtype_(dtype),
      readonly_(readonly),
      is_foreign_(true),
      where_(where),
      owner_(owner),
      release_(release) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(dtype_, other.dtype_);
  std::swap(size_class_, other.size_class_);
  std::swap(era_, other.era_);
  std::swap(readonly_, other.readonly_);
  std::swap(is_exposed_, other.is_exposed_);
  std::swap(where_, other.where_);
  std::swap(is_foreign_, other.is_foreign_);
  std::swap(version_, other.version_);
  std::swap(owner_, other.owner_);
  std::swap(release_, other.release_);
  return *this;
}

uint64_t Buffer::next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Buffer::~Buffer() {
  if (release_ != nullptr) {
    release_(owner_);
  } else if (data_ != nullptr) {
    block_pool().free(data_, size_class_, era_);
  }
}

}  // namespace needle
