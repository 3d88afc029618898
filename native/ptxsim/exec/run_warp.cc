// Runs a warp until its threads have ended or wait for others.
//
// Threads that took different branches are groups. The group with the lowest instruction runs
// first, up to where another one stands: there they join. Code comes in an order in which branches
// meet again below, so this reconverges where a GPU does.
#include "run_warp.h"

#include <algorithm>
#include <climits>

#include "handlers.h"

namespace ptxsim {
namespace {

// Keeps the groups sorted, the lowest last, and joins what is at the same instruction.
void insert(std::vector<Group>& groups, Group group) {
  auto at = groups.end();
  while (at != groups.begin() && std::prev(at)->pc <= group.pc) {
    --at;
    if (at->pc == group.pc) {
      at->mask |= group.mask;
      return;
    }
  }
  groups.insert(at, group);
}

void blend(Warp& warp, const Instruction& i, u32 mask) {
  alignas(64) u64 result[kLanes];
  i.lanes(warp.registers, i.src, result);
  if (i.result == Width::predicate) {
    u32& to = warp.predicate(i.dst[0]);
    to = (to & ~mask) | (*reinterpret_cast<const u32*>(result) & mask);
  } else if (i.result == Width::wide) {
    FOR_LANES(lane, mask) warp.wides(i.dst[0])[lane] = result[lane];
  } else {
    const u32* words = reinterpret_cast<const u32*>(result);
    FOR_LANES(lane, mask) warp.words(i.dst[0])[lane] = words[lane];
  }
}

u32 members_of(Warp& warp, const Instruction& i, u32 mask) {
  if (i.src[kMembers] == kNone) return warp.present;
  return warp.words(i.src[kMembers])[first_lane(mask)] & warp.present;
}

// All lanes of the member mask that still run must be here; a shuffle's may not have ended.
bool all_arrived(Warp& warp, const Instruction& i, u32 mask) {
  const u32 members = members_of(warp, i, mask);
  if ((mask & ~members) != 0)
    fail(warp, first_lane(mask & ~members), kLaunchFailed,
         "expected a member mask that names the thread itself, got " + hex(members));
  const u32 ended = members & ~warp.live;
  if (ended != 0 && i.run == run_shuffle)
    fail(warp, first_lane(mask), kLaunchFailed,
         "expected all threads of the shuffle's mask " + hex(members) + ", but lane " +
             std::to_string(first_lane(ended)) + " has ended; name only threads that take part");
  return (members & warp.live & ~mask) == 0;
}

void wait_at_barrier(Warp& warp, const Instruction& i, s32 pc, u32 mask) {
  const u32 lane = first_lane(mask);
  const u32 count = i.src[1] == kNone ? 0 : warp.words(i.src[1])[lane];
  warp.waiting.push_back({pc, mask, warp.words(i.src[0])[lane], count, (i.flags & 7) == kArrive});
  ++warp.block->counters.barriers;
}

enum class After : u8 { next_group, time_is_up };

class Runner {
 public:
  Runner(Warp& warp, u64& budget)
      : warp_(warp), block_(*warp.block), code_(block_.kernel().code.data()), budget_(budget) {}

  After run(Group group) {
    const s32 meeting = warp_.groups.empty() ? INT_MAX : warp_.groups.back().pc;
    s32 pc = group.pc;
    u32 mask = group.mask;
    while (pc < meeting) {
      if (budget_ == 0) {
        insert(warp_.groups, {pc, mask});
        return After::time_is_up;
      }
      --budget_;
      const Instruction& i = code_[pc];
      u32 active = mask;
      if (i.guard != kNone)
        active &= i.guard_negated ? ~warp_.predicate(i.guard) : warp_.predicate(i.guard);
      threads_ += active == kAll ? kLanes : static_cast<u32>(__builtin_popcount(active));
      warp_.pc = pc;
      if (i.kind == Kind::lanes) {
        if (active == kAll)
          i.lanes(warp_.registers, i.src, warp_.registers + i.dst[0]);
        else if (active != 0)
          blend(warp_, i, active);
        ++pc;
      } else if (i.kind == Kind::plain) {
        if (active != 0) i.run(warp_, i, active);
        ++pc;
      } else if (!control(i, pc, mask, active)) {
        return After::next_group;
      }
    }
    insert(warp_.groups, {pc, mask});
    return After::next_group;
  }

  u64 threads() const { return threads_; }

 private:
  // Branches, exits and meetings; false if the group was put elsewhere.
  bool control(const Instruction& i, s32& pc, u32& mask, u32 active) {
    switch (i.kind) {
      case Kind::branch: return branch(i.target, pc, mask, active);
      case Kind::branch_table: return branch_by_table(i, pc, mask, active);
      case Kind::exit:
        warp_.live &= ~active;
        mask &= ~active;
        ++pc;
        return mask != 0;
      case Kind::barrier:
        if (active != 0) wait_at_barrier(warp_, i, pc, active);
        if ((i.flags & 7) == kArrive) active = 0;  // does not wait
        mask &= ~active;
        ++pc;
        return mask != 0;
      default: return meet(i, pc, mask, active);
    }
  }

  bool branch(s32 target, s32& pc, u32& mask, u32 active) {
    ++block_.counters.branches;
    if (active == mask) {
      pc = target;
      return true;
    }
    ++pc;
    if (active == 0) return true;
    ++block_.counters.divergent_branches;
    insert(warp_.groups, {target, active});
    insert(warp_.groups, {pc, mask & ~active});
    return false;
  }

  bool branch_by_table(const Instruction& i, s32& pc, u32& mask, u32 active) {
    const std::vector<s32>& table = block_.kernel().branch_tables[i.flags];
    const u32* index = warp_.words(i.src[0]);
    ++block_.counters.branches;
    ++pc;
    FOR_LANES(lane, active) {
      if (index[lane] >= table.size())
        fail(warp_, lane, kLaunchFailed,
             "expected an index below " + std::to_string(table.size()) + ", got " +
                 std::to_string(index[lane]));
      insert(warp_.groups, {table[index[lane]], 1u << lane});
    }
    if (mask & ~active) insert(warp_.groups, {pc, mask & ~active});
    return false;
  }

  // Threads that are needed here may stand elsewhere: the group is parked until they have run.
  bool meet(const Instruction& i, s32& pc, u32& mask, u32 active) {
    if (active == 0 || all_arrived(warp_, i, active)) {
      if (active != 0) i.run(warp_, i, active);
      ++pc;
      return true;
    }
    insert(warp_.parked, {pc, active});
    mask &= ~active;
    ++pc;
    return mask != 0;
  }

  Warp& warp_;
  Block& block_;
  const Instruction* code_;
  u64& budget_;
  u64 threads_ = 0;
};

}  // namespace

bool unpark(Warp& warp) {
  for (size_t k = 0; k < warp.parked.size(); ++k) {
    const Group group = warp.parked[k];
    const Instruction& i = warp.block->kernel().code[group.pc];
    warp.pc = group.pc;
    if (!all_arrived(warp, i, group.mask)) continue;
    warp.parked.erase(warp.parked.begin() + static_cast<std::ptrdiff_t>(k));
    i.run(warp, i, group.mask);
    insert(warp.groups, {group.pc + 1, group.mask});
    return true;
  }
  return false;
}

bool run_warp(Warp& warp, u64 slice) {
  u64 budget = slice;
  Runner runner(warp, budget);
  bool ran = false, time_is_up = false;
  while (!time_is_up && (!warp.groups.empty() || unpark(warp))) {
    ran = true;
    const Group group = warp.groups.back();
    warp.groups.pop_back();
    if (runner.run(group) == After::time_is_up) {
      time_is_up = true;
      // Others may be what this group waits for in a loop.
      if (warp.groups.size() > 1)
        std::rotate(warp.groups.begin(), warp.groups.begin() + 1, warp.groups.end());
    }
  }
  Block& block = *warp.block;
  block.counters.instructions += slice - budget;
  block.counters.thread_instructions += runner.threads();
  block.instructions += slice - budget;
  return ran;
}

}  // namespace ptxsim
