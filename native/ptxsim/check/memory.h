// Device memory: allocations, which of their bytes were written, and what was freed.
//
// A device address is an address of the host: kernels and copies use it as it is. The driver's lock
// is held while allocations change; blocks that run only look them up.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "../base.h"

namespace ptxsim {

struct Allocation {
  u64 base = 0, bytes = 0;
  bool read_only = false;
  std::unique_ptr<std::atomic<u64>[]> written;  // a bit per byte

  bool contains(u64 address, u64 count) const {
    return address >= base && address + count <= base + bytes;
  }
  void mark(u64 address, u64 count, bool is_written);
  // Were all bytes written?
  bool is_written(u64 address, u64 count) const;
};

class DeviceMemory {
 public:
  ~DeviceMemory();
  u64 allocate(u64 bytes, bool is_written = false, bool read_only = false);  // 0: out of memory
  bool free(u64 base);
  Allocation* find(u64 address);  // the one that holds it, or null
  Allocation* find(u64 address, u64 count) {
    Allocation* found = find(address);
    return found != nullptr && found->contains(address, count) ? found : nullptr;
  }
  // Where an address lies that no allocation holds: beside one, in one that was freed, nowhere.
  std::string explain(u64 address) const;
  u64 used() const { return used_; }

  static constexpr u64 kCapacity = u64{8} << 30;

 private:
  struct Freed {
    u64 base, bytes;
  };
  std::map<u64, Allocation> allocations_;  // by base
  std::deque<Freed> quarantine_;           // freed, but not yet used again
  u64 used_ = 0, quarantined_ = 0;
};

DeviceMemory& device_memory();

}  // namespace ptxsim
