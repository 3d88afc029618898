#include "access.h"

#include <algorithm>
#include <cstring>

namespace ptxsim {
namespace {

const char* verb(Access kind) {
  return kind == Access::read ? "read" : kind == Access::write ? "write" : "atomic access";
}

const char* name(Space space) {
  return space == Space::shared ? "shared" : space == Space::local ? "local" : "global";
}

std::string what(const WarpAccess& a, u32 lane) {
  return std::string(verb(a.kind)) + " of " + std::to_string(a.bytes) + " bytes at " +
         (a.space == Space::shared || a.space == Space::local
              ? "byte " + std::to_string(a.address[lane])
              : hex(a.address[lane])) +
         " of " + name(a.space) + " memory";
}

// Of the addresses: the lowest, the highest, and all bits that any of them has.
struct Extent {
  u64 first, last, bits;
};

// Without a mask, and so as vectors: the usual case.
#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
Extent extent_of_all(const u64* address) {
  s64 first = static_cast<s64>(address[0]), last = first;  // no address has the highest bit
  u64 bits = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const s64 at = static_cast<s64>(address[l]);
    first = at < first ? at : first;
    last = at > last ? at : last;
    bits |= address[l];
  }
  if (bits >> 63) return {0, ~u64{0}, bits};  // a wrong one: looked at lane by lane
  return {static_cast<u64>(first), static_cast<u64>(last), bits};
}

Extent extent_of(const WarpAccess& a) {
  if (a.mask == kAll) return extent_of_all(a.address);
  Extent e{~u64{0}, 0, 0};
  FOR_LANES(lane, a.mask) {
    e.first = std::min(e.first, a.address[lane]);
    e.last = std::max(e.last, a.address[lane]);
    e.bits |= a.address[lane];
  }
  return e;
}

void check_alignment(Warp& warp, const WarpAccess& a, const Extent& extent) {
  if ((extent.bits & (a.bytes - 1)) == 0) return;
  FOR_LANES(lane, a.mask) {
    if (a.address[lane] & (a.bytes - 1))
      fail(warp, lane, kMisalignedAddress,
           "expected an address that is a multiple of " + std::to_string(a.bytes) + ", got a " +
               what(a, lane));
  }
}

void check_global_bounds(Warp& warp, const WarpAccess& a, const Extent& range) {
  Block& block = *warp.block;
  const u64 count = range.last - range.first + a.bytes;
  const bool writes = a.kind != Access::read;
  Allocation* allocation = block.last_allocation;
  if (allocation == nullptr || !allocation->contains(range.first, count))
    allocation = device_memory().find(range.first, count);
  if (allocation != nullptr && !(writes && allocation->read_only)) {
    block.last_allocation = allocation;
    return;
  }
  FOR_LANES(lane, a.mask) {
    Allocation* own = device_memory().find(a.address[lane]);
    const u64 needed = a.may_overrun ? a.checked_bytes : a.bytes;
    if (own == nullptr || !own->contains(a.address[lane], needed))
      fail(warp, lane, kIllegalAddress,
           "expected an address inside an allocation, got a " + what(a, lane) + ": " +
               (own == nullptr ? device_memory().explain(a.address[lane])
                               : "its end is beyond the end of an allocation of " +
                                     std::to_string(own->bytes) + " bytes"));
    if (writes && own->read_only)
      fail(warp, lane, kIllegalAddress,
           "expected no write to constant memory, got a " + what(a, lane));
    block.last_allocation = own;
  }
}

void check_size(Warp& warp, const WarpAccess& a, const Extent& range, u64 size) {
  if (range.last + a.bytes <= size && range.last < ~u64{0} - a.bytes) return;
  FOR_LANES(lane, a.mask) {
    if (a.address[lane] + a.bytes > size || a.address[lane] > size)
      fail(warp, lane, kIllegalAddress,
           "expected an address below " + std::to_string(size) + ", got a " + what(a, lane));
  }
}

[[noreturn]] void fail_unwritten(Warp& warp, const WarpAccess& a, u32 lane) {
  fail(warp, lane, kLaunchFailed,
       "expected memory that was written before, got a " + what(a, lane) +
           ", which nobody wrote; initialize it");
}

// Bits of a lane's elements that somebody reads, a bit per byte.
u64 used_bytes(const WarpAccess& a) {
  if (a.element == 0 || a.used == 0xf) return a.bytes >= 64 ? ~u64{0} : (u64{1} << a.bytes) - 1;
  u64 bits = 0;
  for (u32 k = 0; k * a.element < a.bytes; ++k)
    if (a.used >> k & 1) bits |= ((u64{1} << a.element) - 1) << (k * a.element);
  return bits;
}

// Accesses are aligned and at most 32 bytes, so that a word of 64 bits holds all of their bits.
void check_bits(Warp& warp, const WarpAccess& a, u64* written) {
  const u64 bits = used_bytes(a), all = a.bytes >= 64 ? ~u64{0} : (u64{1} << a.bytes) - 1;
  FOR_LANES(lane, a.mask) {
    const u64 at = a.address[lane];
    u64& word = written[at / 64];
    if (a.kind == Access::write)
      word |= all << at % 64;
    else if ((~word >> at % 64 & bits) != 0)
      fail_unwritten(warp, a, lane);
  }
}

void check_global_written(Warp& warp, const WarpAccess& a) {
  const u64 bits = used_bytes(a), all = (u64{1} << a.bytes) - 1;
  FOR_LANES(lane, a.mask) {
    Allocation* allocation = warp.block->last_allocation;
    if (!allocation->contains(a.address[lane], 1))
      allocation = device_memory().find(a.address[lane]);
    const u64 at = a.address[lane] - allocation->base;
    std::atomic<u64>& word = allocation->written[at / 64];
    const u64 now = word.load(std::memory_order_relaxed) >> at % 64;
    if (a.kind != Access::write) {
      if (~now & bits) fail_unwritten(warp, a, lane);
    } else if (~now & all) {
      word.fetch_or(all << at % 64, std::memory_order_relaxed);
    }
  }
}

[[noreturn]] void fail_race(Warp& warp, const WarpAccess& a, u32 lane, const Touch& earlier) {
  const Block& block = *warp.block;
  fail(warp, lane, kLaunchFailed,
       "expected a barrier between two accesses, got a race: a " + what(a, lane) +
           " and an access of another thread:\n  " +
           describe_site(*block.launch, block.number, earlier.who.thread(), earlier.who.pc()) +
           "\n  and");
}

void check_races(Warp& warp, const WarpAccess& a, NewValue value, const void* context) {
  Block& block = *warp.block;
  const bool shared = a.space == Space::shared;
  const u32 granule = block.kernel().shared_granule;
  const u32 epoch = block.epoch_of(warp);
  const bool atomic = a.kind == Access::atomic || (a.strong && !shared);
  const Access kind = atomic ? Access::atomic : a.kind;
  FOR_LANES(lane, a.mask) {
    const Who who = Who::of(warp.index * kLanes + lane, static_cast<u32>(warp.pc), atomic);
    const bool same =
        kind == Access::write && std::memcmp(value(context, lane), a.at(lane), a.bytes) == 0;
    const Touch now{who, epoch};
    if (shared) {
      const u64 first = a.address[lane] / granule, last = (a.address[lane] + a.bytes - 1) / granule;
      for (u64 cell = first; cell <= last; ++cell)
        if (const Touch* earlier = block.shared_cells[cell].access(now, kind, same))
          fail_race(warp, a, lane, *earlier);
      // Later lanes of the same store see what this one stores.
    } else {
      const Touch earlier = block.launch->races->access(block.race_cache, a.address[lane], a.bytes,
                                                        block.number, now, kind, same);
      if (earlier.epoch != 0) fail_race(warp, a, lane, earlier);
    }
    if (kind == Access::write) std::memcpy(a.at(lane), value(context, lane), a.bytes);
  }
}

void count_global(Warp& warp, const WarpAccess& a) {
  u64 sectors[kLanes * 2];
  u32 count = 0;
  bool ascending = true;
  FOR_LANES(lane, a.mask) {
    for (u64 sector = a.address[lane] / 32; sector <= (a.address[lane] + a.bytes - 1) / 32;
         ++sector) {
      if (count != 0 && sector == sectors[count - 1]) continue;
      ascending &= count == 0 || sector > sectors[count - 1];
      sectors[count++] = sector;
    }
  }
  if (!ascending) {
    std::sort(sectors, sectors + count);
    count = static_cast<u32>(std::unique(sectors, sectors + count) - sectors);
  }
  ptxsim_launch& c = warp.block->counters;
  if (a.kind == Access::atomic) {
    ++c.atomics;
  } else if (a.kind == Access::read) {
    ++c.global_loads;
    c.global_load_sectors += count;
  } else {
    ++c.global_stores;
    c.global_store_sectors += count;
  }
}

// The most words that lanes of `mask` want of one of the 32 banks: the waves that the access takes.
u32 count_waves(const WarpAccess& a, u32 mask, u32 words) {
  u64 seen[kLanes];
  u32 used = 0;
  bool conflict = false;
  FOR_LANES(lane, mask) {
    for (u32 k = 0; k < words; ++k) {
      const u64 word = a.address[lane] / 4 + k;
      const u32 bank = word % 32;
      conflict |= (used >> bank & 1) && seen[bank] != word;
      seen[bank] = word;
      used |= 1u << bank;
    }
  }
  if (!conflict) return 1;
  u64 all[4 * kLanes];
  u32 count = 0, waves = 1;
  u8 of_bank[kLanes] = {};
  FOR_LANES(lane, mask) {
    for (u32 k = 0; k < words; ++k) all[count++] = a.address[lane] / 4 + k;
  }
  std::sort(all, all + count);
  count = static_cast<u32>(std::unique(all, all + count) - all);
  for (u32 k = 0; k < count; ++k) waves = std::max<u32>(waves, ++of_bank[all[k] % 32]);
  return waves;
}

// Banks are 4 bytes wide. Accesses of 8 bytes go by half warps, of 16 bytes by quarters.
void count_shared(Warp& warp, const WarpAccess& a) {
  const u32 words = std::max(1u, a.bytes / 4), group = kLanes / words;
  ptxsim_launch& c = warp.block->counters;
  ++c.shared_requests;
  if (a.kind == Access::atomic) ++c.atomics;
  for (u32 first = 0; first < kLanes; first += group) {
    const u32 mask = a.mask & static_cast<u32>(((u64{1} << group) - 1) << first);
    if (mask == 0) continue;
    const u32 waves = count_waves(a, mask, words);
    c.shared_waves += waves;
    c.shared_conflicts += waves - 1;
  }
}

void trace(Warp& warp, const Instruction& i, const WarpAccess& a) {
  Block& block = *warp.block;
  const u8 space = a.space == Space::shared ? 1 : a.space == Space::local ? 2 : 0;
  const bool outer = i.at.outer_line != 0;
  FOR_LANES(lane, a.mask) {
    if (block.trace.size() >= 1u << 20) return;
    block.trace.push_back({a.address[lane], block.number, warp.index * kLanes + lane, i.at.ptx_line,
                           outer ? i.at.outer_line : i.at.line, outer ? i.at.outer_file : i.at.file,
                           static_cast<u8>(a.bytes), space, static_cast<u8>(a.kind), 0});
  }
}

}  // namespace

void read_addresses(Warp& warp, const Instruction& i, u64* address) {
  if (i.wide_address) {
    const u64* base = warp.wides(i.src[0]);
    for (u32 l = 0; l < kLanes; ++l) address[l] = base[l] + static_cast<u64>(i.immediate);
  } else {
    const u32* base = warp.words(i.src[0]);
    for (u32 l = 0; l < kLanes; ++l) address[l] = base[l] + static_cast<u32>(i.immediate);
  }
}

void check_access(Warp& warp, const Instruction& i, WarpAccess& a, NewValue value,
                  const void* context) {
  Block& block = *warp.block;
  const Launch& launch = *block.launch;
  const Extent extent = extent_of(a);
  check_alignment(warp, a, extent);
  switch (a.space) {
    case Space::shared:
      check_size(warp, a, extent, block.shared_bytes);
      a.base = block.shared.data();
      if (launch.checks_for(PTXSIM_COUNTERS)) count_shared(warp, a);
      if (launch.checks_for(PTXSIM_UNINITIALIZED)) check_bits(warp, a, block.shared_written.data());
      if (launch.checks_for(PTXSIM_SHARED_RACES)) check_races(warp, a, value, context);
      break;
    case Space::local: {
      const u64 bytes = block.kernel().local_bytes;
      check_size(warp, a, extent, bytes);
      if (launch.checks_for(PTXSIM_TRACE)) trace(warp, i, a);
      const u64 stride = (bytes + 63) / 64 * 64;
      FOR_LANES(lane, a.mask) a.address[lane] += lane * stride;
      a.base = warp.local;
      if (launch.checks_for(PTXSIM_UNINITIALIZED)) check_bits(warp, a, warp.local_written.data());
      return;
    }
    default:
      check_global_bounds(warp, a, extent);
      a.base = nullptr;
      if (launch.checks_for(PTXSIM_COUNTERS)) count_global(warp, a);
      if (launch.checks_for(PTXSIM_UNINITIALIZED)) check_global_written(warp, a);
      if (launch.races != nullptr && launch.checks_for(PTXSIM_GLOBAL_RACES))
        check_races(warp, a, value, context);
  }
  if (launch.checks_for(PTXSIM_TRACE)) trace(warp, i, a);
}

}  // namespace ptxsim
