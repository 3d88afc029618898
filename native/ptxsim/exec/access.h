// One access of a warp to memory: addresses, checks, counters.
#pragma once

#include "handlers.h"
#include "warp.h"

namespace ptxsim {

// Where the lanes of `mask` access `bytes` bytes each; all in one space.
struct WarpAccess {
  u64 address[kLanes];  // in its space: an offset for shared and local memory
  u32 mask = 0, bytes = 0;
  Space space = Space::global;
  Access kind = Access::read;
  bool strong = false;       // volatile, relaxed, acquire, release: like an atomic to other blocks
  bool may_overrun = false;  // of a vector whose last elements nobody reads
  u32 checked_bytes = 0;     // that must have been written, from the beginning
  u8 used = 0xf;             // elements of the vector that somebody reads
  u32 element = 0;           // bytes of one
  const char* base = nullptr;  // result of check_access: lane l accesses base + address[l]

  char* at(u32 lane) const { return const_cast<char*>(base) + address[lane]; }
};

// Fills the addresses of an instruction whose base is src[0].
void read_addresses(Warp& warp, const Instruction& i, u64* address);

// Splits lanes of generic addresses by the space that they fall into, and calls run for each.
template <class Run>
void by_space(const Instruction& i, u32 mask, u64* address, Run run) {
  if (i.space != Space::generic) return run(i.space, mask);
  u32 shared = 0, local = 0;
  FOR_LANES(lane, mask) {
    if (address[lane] >= kLocalWindow) {
      address[lane] -= kLocalWindow;
      local |= 1u << lane;
    } else if (address[lane] >= kSharedWindow) {
      address[lane] -= kSharedWindow;
      shared |= 1u << lane;
    }
  }
  if (shared) run(Space::shared, shared);
  if (local) run(Space::local, local);
  if (const u32 global = mask & ~shared & ~local) run(Space::global, global);
}

// Bounds and alignment always, the rest as the launch asks. `values` gives a lane's new bytes.
using NewValue = const void* (*)(const void* context, u32 lane);
void check_access(Warp& warp, const Instruction& i, WarpAccess& access, NewValue value = nullptr,
                  const void* context = nullptr);

}  // namespace ptxsim
