#include "block_races.h"

#include <algorithm>

namespace ptxsim {
namespace {

// Keeps the lower block.
void keep_lowest(BlockWho& kept, BlockWho now) {
  if (!kept.any() || now.bits < kept.bits) kept = now;
}

struct Locked {
  explicit Locked(std::atomic_flag& f) : flag(f) {
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { flag.clear(std::memory_order_release); }
  std::atomic_flag& flag;
};

}  // namespace

BlockRaces::BlockRaces(u32 granule, u64 blocks)
    : granule_(granule), released_(blocks), acquired_(blocks) {}

RacePage& BlockRaces::page(Cache& cache, u64 number) {
  const u64 entry = number % Cache::kEntries;
  if (cache.pages[entry] != nullptr && cache.numbers[entry] == number) return *cache.pages[entry];
  std::lock_guard lock(mutex_);
  auto& page = pages_[number];
  if (page == nullptr) {
    page = std::make_unique<RacePage>();
    page->cells.resize(kRacePage / granule_);
  }
  cache.numbers[entry] = number;
  cache.pages[entry] = page.get();
  return *page;
}

Touch BlockRaces::access(Cache& cache, u64 address, u32 bytes, u32 block, Touch now, Access kind,
                         bool same_value) {
  const BlockWho who = BlockWho::of(block, now.who);
  for (u64 at = address / granule_ * granule_; at < address + bytes; at += granule_) {
    RacePage& watched = page(cache, at / kRacePage);
    Locked lock(watched.busy);
    BlockCell& cell = watched.cells[at % kRacePage / granule_];
    if (cell.block != block) {
      cell.threads = {};
      cell.block = block;
    }
    if (const Touch* conflict = cell.threads.access(now, kind, same_value)) return *conflict;
    check(cell, at, who, kind, same_value);
  }
  return {};
}

void BlockRaces::check(BlockCell& cell, u64 address, BlockWho now, Access kind, bool same_value) {
  const u32 block = now.block();
  const auto other = [&](BlockWho who) { return who.any() && who.block() != block; };
  if (other(cell.writer) && !(kind == Access::write && same_value))
    found(address, cell.writer, Access::write, now, kind);
  if (kind != Access::atomic && other(cell.atomic))
    found(address, cell.atomic, Access::atomic, now, kind);
  if (kind != Access::read) {
    const BlockWho reader = other(cell.reader) ? cell.reader : cell.reader2;
    if (other(reader)) found(address, reader, Access::read, now, kind);
    keep_lowest(kind == Access::write ? cell.writer : cell.atomic, now);
    return;
  }
  if (!cell.reader.any() || cell.reader.block() == block || now.bits < cell.reader.bits) {
    if (cell.reader.any() && cell.reader.block() != block) cell.reader2 = cell.reader;
    keep_lowest(cell.reader, now);
  } else if (!cell.reader2.any() || now.bits < cell.reader2.bits) {
    cell.reader2 = now;
  }
}

void BlockRaces::found(u64 address, BlockWho earlier, Access earlier_kind, BlockWho now,
                       Access kind) {
  if (ordered(earlier.block(), now.block())) return;
  BlockRace race{earlier, now, address, earlier_kind, kind};
  if (now.bits < earlier.bits) race = {now, earlier, address, kind, earlier_kind};
  std::lock_guard lock(mutex_);
  const auto [entry, is_new] = races_.try_emplace(address, race);
  const auto key = [](const BlockRace& r) { return std::make_pair(r.first.bits, r.second.bits); };
  if (!is_new && key(race) < key(entry->second)) entry->second = race;
}

}  // namespace ptxsim
