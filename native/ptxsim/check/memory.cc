#include "memory.h"

#include <cstdlib>
#include <cstring>

namespace ptxsim {
namespace {

constexpr u64 kAlignment = 512;  // cudaMalloc's is 256 at least
constexpr u64 kMargin = 512;     // after each allocation: a vector load may reach beyond its end
constexpr u64 kQuarantine = u64{64} << 20;

u64 rounded_up(u64 bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The bits of bytes [first, last) in the word that holds byte `first`.
u64 bits_in_word(u64 first, u64 last) {
  const u64 count = last - first < 64 - first % 64 ? last - first : 64 - first % 64;
  return (~u64{0} >> (64 - count)) << first % 64;
}

}  // namespace

void Allocation::mark(u64 address, u64 count, bool is_written) {
  const u64 last = address - base + count;
  for (u64 at = address - base; at < last; at = (at / 64 + 1) * 64) {
    const u64 bits = bits_in_word(at, last);
    std::atomic<u64>& word = written[at / 64];
    if (!is_written)
      word.fetch_and(~bits, std::memory_order_relaxed);
    else if ((word.load(std::memory_order_relaxed) & bits) != bits)
      word.fetch_or(bits, std::memory_order_relaxed);
  }
}

bool Allocation::is_written(u64 address, u64 count) const {
  const u64 last = address - base + count;
  for (u64 at = address - base; at < last; at = (at / 64 + 1) * 64) {
    const u64 bits = bits_in_word(at, last);
    if ((written[at / 64].load(std::memory_order_relaxed) & bits) != bits) return false;
  }
  return true;
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [base, allocation] : allocations_) std::free(reinterpret_cast<void*>(base));
  for (const Freed& freed : quarantine_) std::free(reinterpret_cast<void*>(freed.base));
}

u64 DeviceMemory::allocate(u64 bytes, bool is_written, bool read_only) {
  if (bytes > kCapacity || used_ + bytes > kCapacity) return 0;
  const u64 real = rounded_up(bytes) + kMargin;
  void* memory = std::aligned_alloc(kAlignment, real);
  if (memory == nullptr) return 0;
  // What nobody wrote is the same in each run: NaN in all floating types.
  std::memset(memory, is_written ? 0 : 0xff, real);
  const u64 base = reinterpret_cast<u64>(memory);
  Allocation& allocation = allocations_[base];
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.read_only = read_only;
  allocation.written = std::make_unique<std::atomic<u64>[]>(bytes / 64 + 1);
  if (is_written) allocation.mark(base, bytes, true);
  used_ += bytes;
  return base;
}

bool DeviceMemory::free(u64 base) {
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return false;
  const u64 bytes = found->second.bytes;
  used_ -= bytes;
  allocations_.erase(found);
  quarantine_.push_back({base, bytes});
  quarantined_ += bytes;
  while (quarantined_ > kQuarantine || quarantine_.size() > 4096) {
    std::free(reinterpret_cast<void*>(quarantine_.front().base));
    quarantined_ -= quarantine_.front().bytes;
    quarantine_.pop_front();
  }
  return true;
}

Allocation* DeviceMemory::find(u64 address) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(next)->second;
  return address < allocation.base + allocation.bytes ? &allocation : nullptr;
}

std::string DeviceMemory::explain(u64 address) const {
  for (const Freed& freed : quarantine_)
    if (address >= freed.base && address < freed.base + freed.bytes)
      return "byte " + std::to_string(address - freed.base) + " of memory that was freed (" +
             std::to_string(freed.bytes) + " bytes)";
  const auto next = allocations_.upper_bound(address);
  std::string text = "in no allocation";
  u64 nearest = u64{1} << 20;  // farther than that says nothing
  const auto consider = [&](u64 distance, const char* side, const Allocation& allocation) {
    if (distance >= nearest) return;
    nearest = distance;
    text = std::to_string(distance) + " bytes " + side + " an allocation of " +
           std::to_string(allocation.bytes) + " bytes";
  };
  if (next != allocations_.end())
    consider(next->first - address, "before the beginning of", next->second);
  if (next != allocations_.begin()) {
    const Allocation& before = std::prev(next)->second;
    if (address >= before.base + before.bytes)
      consider(address - before.base - before.bytes, "after the end of", before);
  }
  return text;
}

DeviceMemory& device_memory() {
  static DeviceMemory* only = new DeviceMemory;  // kernels may run until the process ends
  return *only;
}

}  // namespace ptxsim
