// Races between blocks, and between threads of a block, in global memory.
//
// Nothing orders two blocks of a launch but fences and atomics. Blocks run on several host threads
// in any order, and the report must not depend on it: a cell of memory keeps of its writers the
// lowest block, and of its readers the two lowest. Whatever comes last finds the lowest pair, and
// the lowest pair of the lowest address is reported when all blocks have run.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "thread_races.h"

namespace ptxsim {

// Block, thread of it and instruction, ordered by block; 0 is nobody.
struct BlockWho {
  u64 bits = 0;
  static BlockWho of(u32 block, Who who) { return {(u64{block} + 1) << 32 | who.bits}; }
  bool any() const { return bits != 0; }
  u32 block() const { return static_cast<u32>(bits >> 32) - 1; }
  Who who() const { return {static_cast<u32>(bits)}; }
};

struct BlockRace {
  BlockWho first, second;
  u64 address;
  Access first_kind, second_kind;
};

struct BlockCell {
  BlockWho writer, atomic, reader, reader2;
  ThreadCell threads;  // of the block that came last
  u32 block = ~0u;
};

constexpr u64 kRacePage = 1024;  // bytes of memory that one page of cells watches

struct RacePage {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::vector<BlockCell> cells;
};

class BlockRaces {
 public:
  // `granule`: bytes per cell, as many as the kernel's smallest access.
  BlockRaces(u32 granule, u64 blocks);

  // Looks pages up with less locking; one per host thread.
  struct Cache {
    static constexpr u64 kEntries = 64;
    u64 numbers[kEntries] = {};
    RacePage* pages[kEntries] = {};
  };

  // The earlier access of the same block that this one races with; Touch of epoch 0 if none.
  Touch access(Cache& cache, u64 address, u32 bytes, u32 block, Touch now, Access kind,
               bool same_value);

  // A block's fence and atomic make its writes visible to blocks whose atomic comes later.
  void release(u32 block) { released_[block] = ++clock_; }
  void acquire(u32 block) { acquired_[block] = ++clock_; }

  const BlockRace* lowest() const { return races_.empty() ? nullptr : &races_.begin()->second; }

 private:
  RacePage& page(Cache& cache, u64 number);
  void check(BlockCell& cell, u64 address, BlockWho now, Access kind, bool same_value);
  void found(u64 address, BlockWho earlier, Access earlier_kind, BlockWho now, Access kind);
  bool ordered(u32 earlier, u32 now) const {
    return released_[earlier] != 0 && released_[earlier] < acquired_[now];
  }

  u32 granule_;
  std::mutex mutex_;
  std::unordered_map<u64, std::unique_ptr<RacePage>> pages_;
  std::map<u64, BlockRace> races_;  // by address
  std::vector<u64> released_, acquired_;
  u64 clock_ = 0;
};

}  // namespace ptxsim
