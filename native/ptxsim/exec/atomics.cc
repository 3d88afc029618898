// atom, red and redux.sync: read, combine, write.
#include <atomic>
#include <bit>
#include <cstring>

#include "../lanes/half_bits.h"
#include "access.h"

namespace ptxsim {
namespace {

template <class T>
T combine_integers(Atomic op, T old, T value, T other) {
  switch (op) {
    case Atomic::add: return static_cast<T>(static_cast<u64>(old) + static_cast<u64>(value));
    case Atomic::exch: return value;
    case Atomic::cas: return old == value ? other : old;
    case Atomic::min: return old < value ? old : value;
    case Atomic::max: return old > value ? old : value;
    case Atomic::and_: return old & value;
    case Atomic::or_: return old | value;
    case Atomic::xor_: return old ^ value;
    case Atomic::inc: return old >= value ? T{0} : static_cast<T>(old + 1);
    case Atomic::dec: return old == 0 || old > value ? value : static_cast<T>(old - 1);
  }
  return old;
}

template <class T>
T combine_floats(Atomic op, T old, T value) {
  switch (op) {
    case Atomic::add: return old + value;
    case Atomic::min: return old < value || value != value ? old : value;
    case Atomic::max: return old > value || value != value ? old : value;
    default: return value;
  }
}

template <class H>
u64 combine_half(Atomic op, u64 old, u64 value) {
  const float a = H::up(static_cast<u32>(old)), b = H::up(static_cast<u32>(value));
  return H::down(combine_floats(op, a, b));
}

template <class H>
u64 combine_halves(Atomic op, bool pair, u64 old, u64 value) {
  const u64 low = combine_half<H>(op, old, value);
  return pair ? low | combine_half<H>(op, old >> 16, value >> 16) << 16 : low;
}

u64 combine(Atomic op, Number type, bool pair, u64 old, u64 value, u64 other) {
  switch (type) {
    case Number::u16_:
      return combine_integers(op, static_cast<u16>(old), static_cast<u16>(value),
                              static_cast<u16>(other));
    case Number::s32_:
      return static_cast<u32>(
          combine_integers(op, static_cast<s32>(old), static_cast<s32>(value), 0));
    case Number::u64_: return combine_integers(op, old, value, other);
    case Number::s64_:
      return static_cast<u64>(
          combine_integers(op, static_cast<s64>(old), static_cast<s64>(value), s64{0}));
    case Number::f32:
      return std::bit_cast<u32>(combine_floats(op, std::bit_cast<float>(static_cast<u32>(old)),
                                               std::bit_cast<float>(static_cast<u32>(value))));
    case Number::f64:
      return std::bit_cast<u64>(
          combine_floats(op, std::bit_cast<double>(old), std::bit_cast<double>(value)));
    case Number::f16: return combine_halves<F16>(op, pair, old, value);
    case Number::bf16: return combine_halves<BF16>(op, pair, old, value);
    default:
      return combine_integers(op, static_cast<u32>(old), static_cast<u32>(value),
                              static_cast<u32>(other));
  }
}

// Blocks on other host threads may do the same.
template <class T>
u64 exchange(char* at, Atomic op, Number type, bool pair, u64 value, u64 other) {
  std::atomic_ref<T> cell(*reinterpret_cast<T*>(at));
  T old = cell.load();
  while (!cell.compare_exchange_weak(old,
                                     static_cast<T>(combine(op, type, pair, old, value, other)))) {
  }
  return old;
}

}  // namespace

void run_atomic(Warp& warp, const Instruction& i, u32 mask) {
  const Atomic op = static_cast<Atomic>(i.flags & 15);
  const Number type = static_cast<Number>(i.flags >> 4 & 15);
  const bool pair = i.flags >> 8 & 1;
  Block& block = *warp.block;
  if (block.launch->races != nullptr) {
    if (block.fenced) block.launch->races->release(block.number);
    block.launch->races->acquire(block.number);
  }
  WarpAccess a;
  read_addresses(warp, i, a.address);
  by_space(i, mask, a.address, [&](Space space, u32 lanes) {
    a.space = space;
    a.mask = lanes;
    a.kind = Access::atomic;
    a.bytes = i.bytes;
    check_access(warp, i, a);
    FOR_LANES(lane, lanes) {
      const auto read = [&](u32 slot) -> u64 {
        return i.wide_value ? warp.wides(slot)[lane] : warp.words(slot)[lane];
      };
      const u64 value = read(i.src[1]), other = op == Atomic::cas ? read(i.src[2]) : 0;
      const u64 old = i.bytes == 8   ? exchange<u64>(a.at(lane), op, type, pair, value, other)
                      : i.bytes == 4 ? exchange<u32>(a.at(lane), op, type, pair, value, other)
                                     : exchange<u16>(a.at(lane), op, type, pair, value, other);
      if (i.dst[0] == kNone) continue;
      if (i.wide_value)
        warp.wides(i.dst[0])[lane] = old;
      else
        warp.words(i.dst[0])[lane] = static_cast<u32>(old);
    }
  });
}

void run_reduce(Warp& warp, const Instruction& i, u32 mask) {
  const Atomic op = static_cast<Atomic>(i.flags & 15);
  const Number type = static_cast<Number>(i.flags >> 4 & 15);
  const u32* from = warp.words(i.src[0]);
  u32 result = 0;
  bool first = true;
  FOR_LANES(lane, mask) {
    result = first ? from[lane] : static_cast<u32>(combine(op, type, false, result, from[lane], 0));
    first = false;
  }
  FOR_LANES(lane, mask) warp.words(i.dst[0])[lane] = result;
}

}  // namespace ptxsim
