// The state of a launch, of a block and of a warp while they run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../check/block_races.h"
#include "../check/memory.h"
#include "../failure.h"
#include "../program.h"
#include "../ptxsim.h"

namespace ptxsim {

struct Dims {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64{x} * y * z; }
};

// What all blocks of a launch share.
struct Launch {
  const Kernel* kernel = nullptr;
  Dims grid, block;
  u32 dynamic_shared = 0;
  std::vector<char> params;
  u32 checks = 0, seed = 0;
  u64 max_instructions = 0;
  BlockRaces* races = nullptr;  // null if they are not checked

  bool checks_for(u32 which) const { return checks & which; }
};

// Threads of a warp that are at the same instruction.
struct Group {
  s32 pc;
  u32 mask;
};

// Threads that wait for others of their block.
struct Waiting {
  s32 pc;
  u32 mask, barrier, count;  // count 0: all threads of the block
  bool arrived_only;         // bar.arrive, which does not wait
};

struct Block;

struct Warp {
  Block* block = nullptr;
  char* registers = nullptr;
  char* local = nullptr;  // local_bytes per lane
  std::vector<u64> local_written;
  std::vector<Group> groups;  // that can run, the lowest pc last
  std::vector<Group> parked;  // at an instruction that needs other lanes
  std::vector<Waiting> waiting;
  u32 index = 0, live = 0, present = 0;
  u32 epoch = 0;  // barriers of this warp
  s32 pc = 0;     // of the instruction that runs

  u32* words(u32 slot) { return reinterpret_cast<u32*>(registers + slot); }
  u64* wides(u32 slot) { return reinterpret_cast<u64*>(registers + slot); }
  float* floats(u32 slot) { return reinterpret_cast<float*>(registers + slot); }
  u32& predicate(u32 slot) { return *words(slot); }
};

// A block that runs; reused for the next one of its launch.
struct Block {
  const Launch* launch = nullptr;
  u32 number = 0;
  u32 epoch = 1;  // barriers of the block, from 1
  std::vector<Warp> warps;
  std::vector<char> shared;
  u32 shared_bytes = 0;
  std::vector<u64> shared_written;
  std::vector<ThreadCell> shared_cells;
  std::unique_ptr<char[]> storage;  // of the warps' registers and local memory
  Allocation* last_allocation = nullptr;
  BlockRaces::Cache race_cache;
  bool fenced = false;
  u64 instructions = 0;  // of this block
  ptxsim_launch counters{};
  std::string output;
  std::vector<ptxsim_access> trace;

  const Kernel& kernel() const { return *launch->kernel; }
  u32 epoch_of(const Warp& warp) const {
    return epoch << kWarpEpochBits | (warp.epoch & ((1u << kWarpEpochBits) - 1));
  }
};

// Ends the launch: the text, then where it happened.
[[noreturn]] void fail(const Warp& warp, u32 lane, Result result, const std::string& text);

// "block (1,0,0), thread (3,0,0): k.cu:7: st.global.f32 [%rd4], %f1; (PTX line 42)"
std::string describe_site(const Launch& launch, u32 block, u32 thread, u32 pc);
std::string describe_line(const Kernel& kernel, u32 pc);
std::string hex(u64 value);

inline u32 first_lane(u32 mask) { return static_cast<u32>(__builtin_ctz(mask)); }

#define FOR_LANES(lane, mask) \
  for (u32 rest_ = (mask), lane; rest_ != 0 && (lane = first_lane(rest_), true); rest_ &= rest_ - 1)

}  // namespace ptxsim
