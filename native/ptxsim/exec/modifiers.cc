// What surrounds a function over lanes: rounding modes, .ftz, .sat, combined comparisons.
#include <cfenv>
#include <cstring>

#include "handlers.h"
#include "warp.h"

namespace ptxsim {
namespace {

constexpr u32 kMaxSources = 3;

struct Rounding {
  explicit Rounding(u32 flags) : before(std::fegetround()) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[flags & kRoundingMask]);
  }
  ~Rounding() { std::fesetround(before); }
  int before;
};

void flush(u32* bits) {
  for (u32 l = 0; l < kLanes; ++l)
    if ((bits[l] & 0x7f800000) == 0) bits[l] &= 0x80000000;
}

template <class T>
void saturate(T* values) {
  for (u32 l = 0; l < kLanes; ++l)
    values[l] = values[l] > 0 ? (values[l] < 1 ? values[l] : T{1}) : T{0};
}

void write(Warp& warp, u32 slot, Width width, u32 mask, const void* from) {
  if (width == Width::predicate) {
    u32& to = warp.predicate(slot);
    to = (to & ~mask) | (*static_cast<const u32*>(from) & mask);
  } else if (width == Width::wide) {
    FOR_LANES(lane, mask) warp.wides(slot)[lane] = static_cast<const u64*>(from)[lane];
  } else {
    FOR_LANES(lane, mask) warp.words(slot)[lane] = static_cast<const u32*>(from)[lane];
  }
}

// Calls the function with its float32 sources flushed.
void compute(Warp& warp, const Instruction& i, void* result) {
  if (!(i.flags & kFlush)) return i.lanes(warp.registers, i.src, result);
  alignas(64) u32 copies[kMaxSources][kLanes];
  u32 sources[kMaxSources];
  for (u32 k = 0; k < kMaxSources; ++k) {
    std::memcpy(copies[k], warp.words(i.src[k]), sizeof copies[k]);
    flush(copies[k]);
    sources[k] = static_cast<u32>(k * sizeof copies[k]);
  }
  i.lanes(reinterpret_cast<const char*>(copies), sources, result);
}

}  // namespace

void run_modified(Warp& warp, const Instruction& i, u32 mask) {
  alignas(64) u64 result[kLanes];
  {
    Rounding rounding(i.flags);
    compute(warp, i, result);
  }
  if (i.flags & kFlush && i.result == Width::word) flush(reinterpret_cast<u32*>(result));
  if (i.flags & kSaturate) {
    if (i.flags & kDouble)
      saturate(reinterpret_cast<double*>(result));
    else
      saturate(reinterpret_cast<float*>(result));
  }
  write(warp, i.dst[0], i.result, mask, result);
}

// p|q = a < b [and c]: q has the comparison's opposite.
void run_setp(Warp& warp, const Instruction& i, u32 mask) {
  u32 truth = 0;
  compute(warp, i, &truth);
  if (i.flags & kInvert) truth = ~truth;
  u32 opposite = ~truth;
  const u32 combine = i.flags >> kCombine & kCombineMask;
  if (combine != 0) {
    const u32 other = warp.predicate(i.src[3]);
    truth = combine == 1 ? truth & other : combine == 2 ? truth | other : truth ^ other;
    opposite = combine == 1 ? opposite & other : combine == 2 ? opposite | other : opposite ^ other;
  }
  if (i.dst[0] != kNone) write(warp, i.dst[0], Width::predicate, mask, &truth);
  if (i.dst[1] != kNone) write(warp, i.dst[1], Width::predicate, mask, &opposite);
}

void run_pack(Warp& warp, const Instruction& i, u32 mask) {
  const bool wide = i.wide_value;
  const u32 parts = i.flags, bits = (wide ? 64 : 32) / parts;
  FOR_LANES(lane, mask) {
    u64 value = 0;
    for (u32 k = 0; k < parts; ++k)
      value |= (u64{warp.words(i.src[k])[lane]} & (~u64{0} >> (64 - bits))) << (k * bits);
    if (wide)
      warp.wides(i.dst[0])[lane] = value;
    else
      warp.words(i.dst[0])[lane] = static_cast<u32>(value);
  }
}

void run_unpack(Warp& warp, const Instruction& i, u32 mask) {
  const bool wide = i.wide_value;
  const u32 parts = i.flags, bits = (wide ? 64 : 32) / parts;
  FOR_LANES(lane, mask) {
    const u64 value = wide ? warp.wides(i.src[0])[lane] : warp.words(i.src[0])[lane];
    for (u32 k = 0; k < parts; ++k)
      if (i.dst[k] != kNone)
        warp.words(i.dst[k])[lane] =
            static_cast<u32>(value >> (k * bits) & (~u64{0} >> (64 - bits)));
  }
}

void run_window(Warp& warp, const Instruction& i, u32 mask) {
  FOR_LANES(lane, mask)
  warp.wides(i.dst[0])[lane] = warp.wides(i.src[0])[lane] + static_cast<u64>(i.immediate);
}

void run_isspacep(Warp& warp, const Instruction& i, u32 mask) {
  u32 truth = 0;
  FOR_LANES(lane, mask) {
    const u64 address = warp.wides(i.src[0])[lane];
    const Space space = address >= kLocalWindow    ? Space::local
                        : address >= kSharedWindow ? Space::shared
                                                   : Space::global;
    truth |= u32{space == i.space} << lane;
  }
  write(warp, i.dst[0], Width::predicate, mask, &truth);
}

// A clock that counts the block's instructions: the same in each run.
void run_clock(Warp& warp, const Instruction& i, u32 mask) {
  const u64 now = i.flags & 1 ? 0 : warp.block->instructions;
  FOR_LANES(lane, mask) {
    if (i.wide_value)
      warp.wides(i.dst[0])[lane] = now;
    else
      warp.words(i.dst[0])[lane] = static_cast<u32>(now);
  }
}

void run_nothing(Warp&, const Instruction&, u32) {}

void run_trap(Warp& warp, const Instruction&, u32 mask) {
  fail(warp, first_lane(mask), kLaunchFailed, "expected no trap; the kernel stopped itself");
}

}  // namespace ptxsim
