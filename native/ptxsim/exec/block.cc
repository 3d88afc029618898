// The warps of a block take turns; barriers open when all of their threads have come.
#include "block.h"

#include <algorithm>
#include <numeric>

#include "handlers.h"
#include "run_warp.h"

namespace ptxsim {

void begin_block(Block& block, u32 number);  // prepare.cc

namespace {

constexpr u64 kSlice = 20'000;  // instructions of a warp before the next one has its turn

// A seeded order of warps; seed 0 is ascending.
struct Order {
  explicit Order(const Block& block)
      : numbers(block.warps.size()),
        seed(block.launch->seed),
        state(seed * 2654435761u + block.number) {
    std::iota(numbers.begin(), numbers.end(), 0u);
  }
  void shuffle() {
    if (seed == 0) return;
    for (size_t k = numbers.size(); k > 1; --k) {
      state = state * 1664525u + 1013904223u;
      std::swap(numbers[k - 1], numbers[(state >> 8) % k]);
    }
  }
  std::vector<u32> numbers;
  u32 seed, state;
};

struct Arrival {
  Warp* warp;
  Waiting* waiting;
};

std::vector<Arrival> arrivals_at(Block& block, u32 barrier) {
  std::vector<Arrival> arrivals;
  for (Warp& warp : block.warps)
    for (Waiting& waiting : warp.waiting)
      if (waiting.barrier == barrier) arrivals.push_back({&warp, &waiting});
  return arrivals;
}

// bar.red: the result of all threads' predicates.
void reduce_at_barrier(Block& block, const std::vector<Arrival>& arrivals) {
  const Instruction& i = block.kernel().code[arrivals.front().waiting->pc];
  const u32 op = i.flags & 7;
  if (op < kReducePopc) return;
  u32 count = 0, threads = 0;
  for (const Arrival& a : arrivals) {
    u32 truth = a.warp->predicate(i.src[2]);
    if (i.flags & kReduceNegated) truth = ~truth;
    count += static_cast<u32>(__builtin_popcount(truth & a.waiting->mask));
    threads += static_cast<u32>(__builtin_popcount(a.waiting->mask));
  }
  for (const Arrival& a : arrivals) {
    if (op == kReducePopc) {
      FOR_LANES(lane, a.waiting->mask) a.warp->words(i.dst[0])[lane] = count;
    } else {
      const bool truth = op == kReduceAnd ? count == threads : count != 0;
      u32& to = a.warp->predicate(i.dst[0]);
      to = truth ? to | a.waiting->mask : to & ~a.waiting->mask;
    }
  }
}

void open_barrier(Block& block, u32 barrier) {
  const std::vector<Arrival> arrivals = arrivals_at(block, barrier);
  reduce_at_barrier(block, arrivals);
  for (const Arrival& a : arrivals) {
    if (a.waiting->arrived_only) continue;
    // The lowest stays last; those that come from one barrier are at one or two places.
    a.warp->groups.push_back({a.waiting->pc + 1, a.waiting->mask});
  }
  for (Warp& warp : block.warps) {
    std::erase_if(warp.waiting, [&](const Waiting& w) { return w.barrier == barrier; });
    auto& groups = warp.groups;
    std::sort(groups.begin(), groups.end(), [](Group a, Group b) { return a.pc > b.pc; });
    for (size_t k = groups.size(); k-- > 1;)
      if (groups[k].pc == groups[k - 1].pc) {
        groups[k - 1].mask |= groups[k].mask;
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(k));
      }
  }
  ++block.epoch;
}

[[noreturn]] void fail_barrier(Block& block, const Arrival& at, const std::string& text) {
  at.warp->pc = at.waiting->pc;
  fail(*at.warp, first_lane(at.waiting->mask), kLaunchFailed, text);
  (void)block;
}

std::string name_thread(const Block& block, const Warp& warp, u32 lane) {
  const Dims& dims = block.launch->block;
  const u32 thread = warp.index * kLanes + lane;
  return "thread (" + std::to_string(thread % dims.x) + "," +
         std::to_string(thread / dims.x % dims.y) + "," + std::to_string(thread / dims.x / dims.y) +
         ")";
}

// Nobody can run: who is missing at this barrier?
[[noreturn]] void fail_missing(Block& block, const Arrival& at) {
  const std::string expected = "expected all threads of the block at a barrier, but ";
  for (Warp& warp : block.warps) {
    u32 here = 0;
    for (const Waiting& w : warp.waiting)
      if (w.barrier == at.waiting->barrier) here |= w.mask;
    const u32 absent = warp.present & ~here;
    if (absent == 0) continue;
    const u32 lane = first_lane(absent);
    std::string why = " has ended";
    for (const Waiting& w : warp.waiting)
      if (w.mask >> lane & 1)
        why = " waits at another: " + describe_line(block.kernel(), static_cast<u32>(w.pc));
    for (const Group& g : warp.parked)
      if (g.mask >> lane & 1)
        why = " waits for its warp: " + describe_line(block.kernel(), static_cast<u32>(g.pc));
    fail_barrier(block, at, expected + name_thread(block, warp, lane) + why);
  }
  fail_barrier(block, at,
               "expected " + std::to_string(at.waiting->count) + " threads at barrier " +
                   std::to_string(at.waiting->barrier) + ", got another number");
}

// Opens one barrier that is complete; false if nobody waits.
bool open_complete_barrier(Block& block) {
  Arrival first{nullptr, nullptr};
  for (Warp& warp : block.warps) {
    for (Waiting& waiting : warp.waiting) {
      if (first.warp == nullptr) first = {&warp, &waiting};
      const std::vector<Arrival> arrivals = arrivals_at(block, waiting.barrier);
      u32 threads = 0, count = 0, all = 0;
      bool same_place = true;
      for (const Arrival& a : arrivals) {
        threads += static_cast<u32>(__builtin_popcount(a.waiting->mask));
        count = std::max(count, a.waiting->count);
        same_place &= a.waiting->pc == waiting.pc;
      }
      for (const Warp& w : block.warps) all += static_cast<u32>(__builtin_popcount(w.present));
      if (threads != (count != 0 ? count : all)) continue;
      if (count == 0 && !same_place) {
        for (const Arrival& a : arrivals)
          if (a.waiting->pc != waiting.pc)
            fail_barrier(block, a,
                         "expected all threads of the block at one barrier, but " +
                             name_thread(block, warp, first_lane(waiting.mask)) +
                             " waits at another: " +
                             describe_line(block.kernel(), static_cast<u32>(waiting.pc)));
      }
      open_barrier(block, waiting.barrier);
      return true;
    }
  }
  if (first.warp != nullptr && !first.waiting->arrived_only) fail_missing(block, first);
  return false;
}

void check_parked(Block& block) {
  for (Warp& warp : block.warps) {
    if (warp.parked.empty()) continue;
    const Group group = warp.parked.front();
    warp.pc = group.pc;
    const u32 absent = warp.live & ~group.mask;
    fail(warp, first_lane(group.mask), kLaunchFailed,
         "expected all threads of the mask at this instruction, but lane " +
             std::to_string(first_lane(absent)) + " never comes");
  }
}

}  // namespace

void run_block(Block& block, u32 number) {
  begin_block(block, number);
  Order order(block);
  for (;;) {
    order.shuffle();
    bool ran = false;
    for (const u32 w : order.numbers) ran |= run_warp(block.warps[w], kSlice);
    if (block.instructions > block.launch->max_instructions)
      fail(block.warps[0], 0, kLaunchFailed,
           "expected the block to end within " + std::to_string(block.launch->max_instructions) +
               " instructions; does it wait for another block?");
    if (ran) continue;
    check_parked(block);
    if (!open_complete_barrier(block)) return;
  }
}

}  // namespace ptxsim
