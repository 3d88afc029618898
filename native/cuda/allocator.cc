#include "allocator.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "core/buffer.h"
#include "streams.h"

namespace needle::cuda {

// A piece of a segment. Neighbours in memory are linked, so that free ones can be joined.
struct Block {
  Address address;
  size_t bytes;
  Stream* stream;
  Block *before = nullptr, *after = nullptr;
  bool is_free = false;
  bool is_small = false;             // of a segment for small ones
  bool is_cached = true;             // else it is an allocation of its own
  std::vector<Stream*> others = {};  // streams beside its own that work on it

  bool is_segment() const { return before == nullptr && after == nullptr; }
};

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr size_t kGrain = 512;                // sizes of blocks are multiples of it
constexpr size_t kSmall = kMiB;               // up to here, blocks share segments
constexpr size_t kSmallSegment = 2 * kMiB;    // of this size;
constexpr size_t kMedium = 10 * kMiB;         // and up to here
constexpr size_t kMediumSegment = 20 * kMiB;  // of this one
constexpr size_t kSmallestLargeRest = kMiB;   // a larger block is cut if so much is left

size_t rounded(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

size_t segment_size(size_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes <= kMedium ? kMediumSegment : rounded(bytes, 2 * kMiB);
}

struct BySize {
  static auto key(const Block* b) { return std::tuple(b->stream, b->bytes, b->address); }
  bool operator()(const Block* a, const Block* b) const { return key(a) < key(b); }
};
using Free = std::set<Block*, BySize>;

class Allocator {
 public:
  Block* take(size_t bytes, Stream* stream) {
    const std::lock_guard lock(mutex_);
    if (!is_caching_) return count(own_allocation(bytes, stream));
    bytes = rounded(std::max<size_t>(bytes, 1), kGrain);
    return_passed_blocks();
    Block* block = find_free(bytes, stream);
    if (block == nullptr) block = new_segment(bytes, stream);
    block->is_free = false;
    cut(block, bytes);
    return count(block);
  }

  void give(Block* block) {
    const std::lock_guard lock(mutex_);
    stats_.live -= block->bytes;
    if (!block->is_cached) {
      free_segment(block);
    } else if (block->others.empty()) {
      keep(block);
    } else {
      kept_back_.push_back({block, {}});
      for (Stream* const other : block->others) kept_back_.back().marks.emplace_back(other);
      block->others.clear();
    }
  }

  void note_use(Block* block, Stream* stream) {
    const std::lock_guard lock(mutex_);
    const auto& known = block->others;
    const bool is_known = std::find(known.begin(), known.end(), stream) != known.end();
    if (stream != block->stream && !is_known) block->others.push_back(stream);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_segments();
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }
  void set_caching(bool on) {
    const std::lock_guard lock(mutex_);
    is_caching_ = on;
  }

 private:
  struct KeptBack {  // until the other streams have passed these marks
    Block* block;
    std::vector<Mark> marks;

    bool is_passed() const {
      return std::all_of(marks.begin(), marks.end(), [](const Mark& m) { return m.is_reached(); });
    }
  };

  Block* count(Block* block) {
    stats_.live += block->bytes;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return block;
  }

  // From the driver, which may need what is kept here.
  Address reserve(size_t bytes) {
    Address address = 0;
    Result result = driver().allocate(&address, bytes);
    if (result == kOutOfMemory) {
      ++stats_.retries;
      synchronize();
      return_passed_blocks();
      release_segments();
      result = driver().allocate(&address, bytes);
    }
    if (result == kOutOfMemory) raise_out_of_memory(bytes);
    check(result, "cuMemAlloc");
    stats_.reserved += bytes;
    ++stats_.segments;
    return address;
  }

  [[noreturn]] void raise_out_of_memory(size_t bytes) const {
    size_t free = 0, total = 0;
    check(driver().get_free_memory(&free, &total), "cuMemGetInfo");
    throw AllocationError("[cuda] no room for " + std::to_string(bytes) +
                          " bytes: " + std::to_string(stats_.live) + " are in use, and " +
                          std::to_string(free) + " of " + std::to_string(total) +
                          " are free; use smaller batches, or free tensors.");
  }

  Block* own_allocation(size_t bytes, Stream* stream) {
    bytes = std::max<size_t>(bytes, 1);
    return new Block{
        .address = reserve(bytes), .bytes = bytes, .stream = stream, .is_cached = false};
  }

  Block* new_segment(size_t bytes, Stream* stream) {
    const size_t size = segment_size(bytes);
    return new Block{
        .address = reserve(size), .bytes = size, .stream = stream, .is_small = bytes <= kSmall};
  }

  void free_segment(Block* block) {
    check(driver().free(block->address), "cuMemFree");
    stats_.reserved -= block->bytes;
    --stats_.segments;
    delete block;
  }

  // Small blocks come from small segments only, so that these do not keep large ones alive.
  Free& free_of(const Block* block) { return block->is_small ? small_ : large_; }

  // The smallest free block that is large enough, taken out.
  Block* find_free(size_t bytes, Stream* stream) {
    Free& free = bytes <= kSmall ? small_ : large_;
    Block wanted = {.address = 0, .bytes = bytes, .stream = stream};
    const auto found = free.lower_bound(&wanted);
    if (found == free.end() || (*found)->stream != stream) return nullptr;
    Block* const block = *found;
    free.erase(found);
    return block;
  }

  // Leaves the block with so many bytes if the rest is worth keeping.
  void cut(Block* block, size_t bytes) {
    const size_t rest = block->bytes - bytes;
    if (rest < (block->is_small ? kGrain : kSmallestLargeRest)) return;
    Block* const other = new Block{.address = block->address + bytes,
                                   .bytes = rest,
                                   .stream = block->stream,
                                   .before = block,
                                   .after = block->after,
                                   .is_small = block->is_small};
    if (block->after != nullptr) block->after->before = other;
    block->after = other;
    block->bytes = bytes;
    keep(other);
  }

  // Joins a block with its free neighbours and files it.
  void keep(Block* block) {
    if (block->after != nullptr && block->after->is_free) {
      free_of(block->after).erase(block->after);
      absorb(block, block->after);
    }
    if (block->before != nullptr && block->before->is_free) {
      Block* const before = block->before;
      free_of(before).erase(before);
      absorb(before, block);
      block = before;
    }
    block->is_free = true;
    free_of(block).insert(block);
  }

  static void absorb(Block* block, Block* after) {
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after != nullptr) block->after->before = block;
    delete after;
  }

  void return_passed_blocks() {
    while (!kept_back_.empty() && kept_back_.front().is_passed()) {
      Block* const block = kept_back_.front().block;
      kept_back_.pop_front();
      keep(block);
    }
  }

  void release_segments() {
    for (Free* const free : {&small_, &large_}) {
      for (auto next = free->begin(); next != free->end();) {
        Block* const block = *next;
        if (!block->is_segment()) {
          ++next;
          continue;
        }
        next = free->erase(next);
        free_segment(block);
      }
    }
  }

  std::mutex mutex_;
  Free small_, large_;
  std::deque<KeptBack> kept_back_;
  MemoryStats stats_;
  bool is_caching_ = true;
};

Allocator& allocator() {
  static Allocator* const instance = new Allocator;  // never freed: buffers may outlive it
  return *instance;
}

}  // namespace

Block* take_block(size_t bytes) { return allocator().take(bytes, stream()); }
void give_back(Block* block) { allocator().give(block); }
Address address_of(const Block* block) { return block->address; }
void note_use(Block* block, Stream* stream) { allocator().note_use(block, stream); }

MemoryStats memory_stats() { return allocator().stats(); }
void reset_peak_memory() { allocator().reset_peak(); }
void release_kept_memory() { allocator().release(); }
void set_caching(bool on) { allocator().set_caching(on); }

}  // namespace needle::cuda
