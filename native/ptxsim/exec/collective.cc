// Instructions by which the lanes of a warp exchange values. The executor runs them once all lanes
// of their member mask have arrived.
#include <cstring>

#include "handlers.h"
#include "warp.h"

namespace ptxsim {

void run_shuffle(Warp& warp, const Instruction& i, u32 mask) {
  const u32* b = warp.words(i.src[1]);
  const u32* c = warp.words(i.src[2]);
  u32 in[kLanes], out[kLanes], inside = 0;
  std::memcpy(in, warp.words(i.src[0]), sizeof in);
  FOR_LANES(lane, mask) {
    const u32 segment = c[lane] >> 8 & 31, clamp = c[lane] & 31, amount = b[lane] & 31;
    const s32 highest = static_cast<s32>((lane & segment) | (clamp & ~segment));
    const s32 lowest = static_cast<s32>(lane & segment), own = static_cast<s32>(lane);
    s32 from = own;
    bool valid = true;
    switch (static_cast<Shuffle>(i.flags)) {
      case Shuffle::up:
        from = own - static_cast<s32>(amount);
        valid = from >= highest;
        break;
      case Shuffle::down:
        from = own + static_cast<s32>(amount);
        valid = from <= highest;
        break;
      case Shuffle::bfly:
        from = static_cast<s32>(lane ^ amount);
        valid = from <= highest;
        break;
      case Shuffle::idx:
        from = lowest | static_cast<s32>(amount & ~segment);
        valid = from <= highest;
        break;
    }
    if (!valid) from = own;
    if (!(mask >> from & 1))
      fail(warp, lane, kLaunchFailed,
           "expected a shuffle from a thread that takes part, got lane " + std::to_string(from) +
               ", which is absent");
    inside |= u32{valid} << lane;
    out[lane] = in[from];
  }
  FOR_LANES(lane, mask) if (i.dst[0] != kNone) warp.words(i.dst[0])[lane] = out[lane];
  if (i.dst[1] != kNone) {
    u32& predicate = warp.predicate(i.dst[1]);
    predicate = (predicate & ~mask) | inside;
  }
}

void run_vote(Warp& warp, const Instruction& i, u32 mask) {
  const u32 truth = warp.predicate(i.src[0]) & mask;
  if (static_cast<Vote>(i.flags) == Vote::ballot) {
    FOR_LANES(lane, mask) warp.words(i.dst[0])[lane] = truth;
    return;
  }
  bool result = truth != 0;
  if (static_cast<Vote>(i.flags) == Vote::all) result = truth == mask;
  if (static_cast<Vote>(i.flags) == Vote::uni) result = truth == mask || truth == 0;
  u32& predicate = warp.predicate(i.dst[0]);
  predicate = result ? predicate | mask : predicate & ~mask;
}

void run_match(Warp& warp, const Instruction& i, u32 mask) {
  const auto value = [&](u32 lane) -> u64 {
    return i.wide_value ? warp.wides(i.src[0])[lane] : warp.words(i.src[0])[lane];
  };
  u32 same[kLanes] = {}, all_same = 0;
  FOR_LANES(lane, mask) {
    FOR_LANES(other, mask) same[lane] |= u32{value(lane) == value(other)} << other;
    all_same |= u32{same[lane] == mask} << lane;
  }
  const bool all = i.flags & 1;
  FOR_LANES(lane, mask)
  warp.words(i.dst[0])[lane] = all && !(all_same >> lane & 1) ? 0 : same[lane];
  if (i.dst[1] != kNone) {
    u32& predicate = warp.predicate(i.dst[1]);
    predicate = (predicate & ~mask) | all_same;
  }
}

void run_sync_warp(Warp& warp, const Instruction&, u32) { ++warp.epoch; }

void run_active_mask(Warp& warp, const Instruction& i, u32 mask) {
  FOR_LANES(lane, mask) warp.words(i.dst[0])[lane] = mask;
}

}  // namespace ptxsim
