#include "launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

#include "block.h"

namespace ptxsim {
namespace {

void add(ptxsim_launch& sum, const ptxsim_launch& part) {
  sum.instructions += part.instructions;
  sum.thread_instructions += part.thread_instructions;
  sum.branches += part.branches;
  sum.divergent_branches += part.divergent_branches;
  sum.barriers += part.barriers;
  sum.global_loads += part.global_loads;
  sum.global_load_sectors += part.global_load_sectors;
  sum.global_stores += part.global_stores;
  sum.global_store_sectors += part.global_store_sectors;
  sum.shared_requests += part.shared_requests;
  sum.shared_waves += part.shared_waves;
  sum.shared_conflicts += part.shared_conflicts;
  sum.atomics += part.atomics;
}

// What one host thread has found.
struct Share {
  Block block;
  std::optional<Failure> failure;
  u64 failed_block = ~u64{0};
  std::vector<std::pair<u64, std::string>> output;  // by block
};

class Blocks {
 public:
  explicit Blocks(const Launch& launch) : launch_(launch), count_(launch.grid.count()) {
    if (launch.seed == 0) return;
    order_.resize(count_);
    std::iota(order_.begin(), order_.end(), 0u);
    u64 state = launch.seed;
    for (u64 k = count_; k > 1; --k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order_[k - 1], order_[(state >> 33) % k]);
    }
  }

  // Takes blocks until none is left; calls `between` after each.
  template <class Between>
  void work(Share& share, Between between) {
    for (u64 k = next_++; k < count_; k = next_++) {
      const u64 number = order_.empty() ? k : order_[k];
      if (number < first_failure_) run(share, number);
      between(k + 1 < count_);
    }
  }

 private:
  void run(Share& share, u64 number) {
    Block& block = share.block;
    if (block.launch == nullptr) prepare_block(block, launch_);
    try {
      run_block(block, static_cast<u32>(number));
    } catch (Failure& failure) {
      u64 lowest = first_failure_;
      while (number < lowest && !first_failure_.compare_exchange_weak(lowest, number)) {
      }
      if (number < share.failed_block) {
        share.failure = std::move(failure);
        share.failed_block = number;
      }
    }
    if (block.output.empty()) return;
    share.output.emplace_back(number, std::move(block.output));
    block.output.clear();
  }

  const Launch& launch_;
  const u64 count_;
  std::atomic<u64> next_{0}, first_failure_{~u64{0}};
  std::vector<u32> order_;
};

// The calling thread begins alone. Others join when that has taken longer than to start them.
void run_all(Blocks& blocks, std::vector<Share>& shares) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::vector<std::thread> helpers;
  blocks.work(shares[0], [&](bool more) {
    if (!more || helpers.size() + 1 == shares.size()) return;
    if (Clock::now() - begin < std::chrono::microseconds(200)) return;
    while (helpers.size() + 1 < shares.size()) {
      Share& share = shares[helpers.size() + 1];
      helpers.emplace_back([&blocks, &share] { blocks.work(share, [](bool) {}); });
    }
  });
  for (std::thread& helper : helpers) helper.join();
}

std::string describe(const Launch& launch, const BlockRace& race) {
  const auto verb = [](Access kind) {
    return kind == Access::read ? "read" : kind == Access::write ? "write" : "atomic access";
  };
  const auto site = [&](BlockWho who) {
    return describe_site(launch, who.block(), who.who().thread(), who.who().pc());
  };
  return "[" + launch.kernel->name +
         "] expected blocks that do not depend on each other, got a race: a " +
         verb(race.first_kind) + " and a " + verb(race.second_kind) + " at " + hex(race.address) +
         " of global memory\n  " + site(race.first) + "\n  and\n  " + site(race.second);
}

}  // namespace

Outcome run_launch(Launch& launch, u32 threads) {
  const Kernel& kernel = *launch.kernel;
  std::optional<BlockRaces> races;
  if (launch.checks_for(PTXSIM_GLOBAL_RACES))
    launch.races = &races.emplace(kernel.global_granule, launch.grid.count());
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  if (kernel.ordered_blocks || launch.checks_for(PTXSIM_TRACE)) threads = 1;
  std::vector<Share> shares(std::min<u64>(threads, launch.grid.count()));
  Blocks blocks(launch);
  run_all(blocks, shares);

  Outcome outcome;
  std::vector<std::pair<u64, std::string>> output;
  u64 failed_block = ~u64{0};
  for (Share& share : shares) {
    add(outcome.counters, share.block.counters);
    std::move(share.output.begin(), share.output.end(), std::back_inserter(output));
    outcome.trace.insert(outcome.trace.end(), share.block.trace.begin(), share.block.trace.end());
    if (!share.failure || share.failed_block > failed_block) continue;
    failed_block = share.failed_block;
    outcome.result = share.failure->result;
    outcome.report = share.failure->text;
  }
  std::sort(output.begin(), output.end());
  for (const auto& [block, text] : output) outcome.output += text;
  if (outcome.result == kSuccess && races && races->lowest() != nullptr) {
    outcome.result = kLaunchFailed;
    outcome.report = describe(launch, *races->lowest());
  }
  return outcome;
}

}  // namespace ptxsim
