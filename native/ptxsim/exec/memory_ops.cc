// ld, st, cp.async, ldmatrix and fences.
#include <cstring>

#include "access.h"

namespace ptxsim {
namespace {

// An element of 1, 2, 4 or 8 bytes into a register, with zeros or its sign above it.
u64 read_element(const char* from, u32 bytes, bool sign_extended) {
  u64 value = 0;
  std::memcpy(&value, from, bytes);
  if (sign_extended && bytes < 8 && value >> (8 * bytes - 1) & 1) value |= ~u64{0} << (8 * bytes);
  return value;
}

template <class T, class R>
void load_lanes(const WarpAccess& a, u64 offset, R* to) {
  const char* base = a.base + offset;
  if (a.mask == kAll) {
    for (u32 l = 0; l < kLanes; ++l) {
      T value;
      std::memcpy(&value, base + a.address[l], sizeof value);
      to[l] = static_cast<R>(value);
    }
    return;
  }
  FOR_LANES(lane, a.mask) {
    T value;
    std::memcpy(&value, base + a.address[lane], sizeof value);
    to[lane] = static_cast<R>(value);
  }
}

void load(Warp& warp, const Instruction& i, const WarpAccess& a) {
  for (u32 k = 0; k < i.count; ++k) {
    const u64 offset = u64{k} * i.bytes;
    if (i.dst[k] == kNone) continue;
    if (i.bytes == 4 && !i.wide_value) {
      load_lanes<u32>(a, offset, warp.words(i.dst[k]));
    } else if (i.bytes == 8 && i.wide_value) {
      load_lanes<u64>(a, offset, warp.wides(i.dst[k]));
    } else {
      FOR_LANES(lane, a.mask) {
        const u64 value = read_element(a.at(lane) + offset, i.bytes, i.sign_extended);
        if (i.wide_value)
          warp.wides(i.dst[k])[lane] = value;
        else
          warp.words(i.dst[k])[lane] = static_cast<u32>(value);
      }
    }
  }
}

// The bytes that each lane is about to store.
struct Stored {
  alignas(32) char bytes[kLanes][32];
  static const void* of(const void* context, u32 lane) {
    return static_cast<const Stored*>(context)->bytes[lane];
  }
};

void fill(Warp& warp, const Instruction& i, u32 mask, Stored& stored) {
  for (u32 k = 0; k < i.count; ++k) {
    const u32 slot = i.src[1 + k];
    FOR_LANES(lane, mask) {
      const void* from = i.wide_value ? static_cast<const void*>(warp.wides(slot) + lane)
                                      : static_cast<const void*>(warp.words(slot) + lane);
      std::memcpy(stored.bytes[lane] + k * i.bytes, from, i.bytes);
    }
  }
}

void note_order(Warp& warp, const Instruction& i, bool writes) {
  Block& block = *warp.block;
  if (!i.ordering || block.launch->races == nullptr) return;
  if (writes && block.fenced) block.launch->races->release(block.number);
  if (!writes) block.launch->races->acquire(block.number);
}

}  // namespace

void run_load_param(Warp& warp, const Instruction& i, u32 mask) {
  const std::vector<char>& params = warp.block->launch->params;
  u64 address[kLanes];
  read_addresses(warp, i, address);
  FOR_LANES(lane, mask) {
    if (address[lane] + u64{i.bytes} * i.count > params.size())
      fail(warp, lane, kIllegalAddress,
           "expected an address below " + std::to_string(params.size()) +
               " of the kernel's parameters, got " + std::to_string(address[lane]));
    for (u32 k = 0; k < i.count; ++k) {
      if (i.dst[k] == kNone) continue;
      const u64 value =
          read_element(params.data() + address[lane] + k * i.bytes, i.bytes, i.sign_extended);
      if (i.wide_value)
        warp.wides(i.dst[k])[lane] = value;
      else
        warp.words(i.dst[k])[lane] = static_cast<u32>(value);
    }
  }
}

void run_load(Warp& warp, const Instruction& i, u32 mask) {
  WarpAccess a;
  read_addresses(warp, i, a.address);
  note_order(warp, i, false);
  by_space(i, mask, a.address, [&](Space space, u32 lanes) {
    a.space = space == Space::constant ? Space::global : space;
    a.mask = lanes;
    a.kind = Access::read;
    a.bytes = u32{i.bytes} * i.count;
    a.element = i.bytes;
    a.used = i.used;
    a.strong = i.ordering;
    a.may_overrun = i.count > 1 && i.used != 0xf;
    a.checked_bytes =
        i.used == 0
            ? i.bytes
            : (32 - static_cast<u32>(__builtin_clz(i.used & ((1u << i.count) - 1)))) * i.bytes;
    check_access(warp, i, a);
    load(warp, i, a);
  });
}

void run_store(Warp& warp, const Instruction& i, u32 mask) {
  WarpAccess a;
  read_addresses(warp, i, a.address);
  note_order(warp, i, true);
  Stored stored;
  fill(warp, i, mask, stored);
  by_space(i, mask, a.address, [&](Space space, u32 lanes) {
    a.space = space;
    a.mask = lanes;
    a.kind = Access::write;
    a.bytes = u32{i.bytes} * i.count;
    a.strong = i.ordering;
    check_access(warp, i, a, Stored::of, &stored);
    FOR_LANES(lane, lanes) std::memcpy(a.at(lane), stored.bytes[lane], a.bytes);
  });
}

// Copies from global to shared memory; the bytes beyond src[2] become zero. It is done at once,
// which is one of the moments at which a GPU may do it.
void run_copy_async(Warp& warp, const Instruction& i, u32 mask) {
  WarpAccess from, to;
  const u32* reads = i.src[2] == kNone ? nullptr : warp.words(i.src[2]);
  for (u32 l = 0; l < kLanes; ++l) {
    to.address[l] = i.flags & 1 ? warp.wides(i.src[0])[l] : warp.words(i.src[0])[l];
    to.address[l] += static_cast<u64>(i.immediate);
    if (to.address[l] >= kSharedWindow) to.address[l] -= kSharedWindow;
    from.address[l] =
        warp.wides(i.src[1])[l] + static_cast<u64>(static_cast<s64>(static_cast<s32>(i.src[3])));
  }
  Stored stored{};
  u32 reading = 0;
  FOR_LANES(lane, mask) {
    if (reads == nullptr || reads[lane] != 0) reading |= 1u << lane;
  }
  from.mask = reading;
  from.bytes = from.checked_bytes = i.bytes;
  if (reading) check_access(warp, i, from);
  FOR_LANES(lane, reading) {
    std::memcpy(stored.bytes[lane], from.at(lane),
                reads ? std::min<u32>(reads[lane], i.bytes) : i.bytes);
  }
  to.mask = mask;
  to.space = Space::shared;
  to.kind = Access::write;
  to.bytes = i.bytes;
  check_access(warp, i, to, Stored::of, &stored);
  FOR_LANES(lane, mask) std::memcpy(to.at(lane), stored.bytes[lane], i.bytes);
}

// Matrices of 8 x 8 halves: lanes 8m..8m+7 give the rows of matrix m; lane l gets elements 2(l%4)
// and 2(l%4)+1 of row l/4, or, transposed, of column l/4.
void run_load_matrix(Warp& warp, const Instruction& i, u32 mask) {
  if (mask != kAll)
    fail(warp, 0, kLaunchFailed, "expected all 32 threads at ldmatrix; some are absent");
  WarpAccess a;
  read_addresses(warp, i, a.address);
  for (u32 l = 0; l < kLanes; ++l)
    if (a.address[l] >= kSharedWindow) a.address[l] -= kSharedWindow;
  a.mask = i.count == 4 ? kAll : (1u << (8 * i.count)) - 1;
  a.space = Space::shared;
  a.bytes = 16;
  check_access(warp, i, a);
  for (u32 m = 0; m < i.count; ++m) {
    u16 matrix[8][8];
    for (u32 r = 0; r < 8; ++r) std::memcpy(matrix[r], a.at(8 * m + r), 16);
    u32* to = warp.words(i.dst[m]);
    for (u32 l = 0; l < kLanes; ++l) {
      const u32 r = l / 4, c = l % 4 * 2;
      const u16 low = i.flags & 1 ? matrix[c][r] : matrix[r][c];
      const u16 high = i.flags & 1 ? matrix[c + 1][r] : matrix[r][c + 1];
      to[l] = low | u32{high} << 16;
    }
  }
}

void run_fence(Warp& warp, const Instruction&, u32) { warp.block->fenced = true; }

}  // namespace ptxsim
