// Registers, shared memory and special registers before a kernel runs.
#include <cstring>

#include "block.h"

namespace ptxsim {
namespace {

void set_words(Warp& warp, u32 slot, const u32* values) {
  if (slot != kNone) std::memcpy(warp.words(slot), values, 4 * kLanes);
}

void set_all(Warp& warp, u32 slot, u32 value) {
  if (slot == kNone) return;
  for (u32 l = 0; l < kLanes; ++l) warp.words(slot)[l] = value;
}

void set_constants(Warp& warp, const Kernel& kernel) {
  for (const Constant& constant : kernel.constants) {
    u64 value = constant.value;
    if (constant.after_static_shared) value += kernel.dynamic_shared_offset();
    if (constant.width == Width::predicate) {
      warp.predicate(constant.slot) = value ? kAll : 0;
    } else if (constant.width == Width::wide) {
      for (u32 l = 0; l < kLanes; ++l) warp.wides(constant.slot)[l] = value;
    } else {
      set_all(warp, constant.slot, static_cast<u32>(value));
    }
  }
}

void set_thread_numbers(Warp& warp, const Launch& launch) {
  const u32* special = launch.kernel->special;
  const Dims& block = launch.block;
  u32 x[kLanes], y[kLanes], z[kLanes], lane[kLanes], masks[5][kLanes];
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 thread = warp.index * kLanes + l;
    x[l] = thread % block.x;
    y[l] = thread / block.x % block.y;
    z[l] = thread / block.x / block.y;
    lane[l] = l;
    masks[0][l] = 1u << l;
    masks[1][l] = (1u << l) - 1;
    masks[2][l] = masks[0][l] | masks[1][l];
    masks[3][l] = ~masks[2][l];
    masks[4][l] = ~masks[1][l];
  }
  set_words(warp, special[kTid], x);
  set_words(warp, special[kTid + 1], y);
  set_words(warp, special[kTid + 2], z);
  set_words(warp, special[kLaneId], lane);
  for (u32 k = 0; k < 5; ++k) set_words(warp, special[kLaneMaskEq + k], masks[k]);
}

void set_sizes(Warp& warp, const Launch& launch) {
  const u32* special = launch.kernel->special;
  const u32 sizes[] = {launch.block.x, launch.block.y, launch.block.z};
  const u32 counts[] = {launch.grid.x, launch.grid.y, launch.grid.z};
  for (u32 k = 0; k < 3; ++k) {
    set_all(warp, special[kNtid + k], sizes[k]);
    set_all(warp, special[kNctaid + k], counts[k]);
  }
  set_all(warp, special[kWarpId], warp.index);
  set_all(warp, special[kNwarpId], static_cast<u32>(warp.block->warps.size()));
  set_all(warp, special[kDynamicShared], launch.dynamic_shared);
  set_all(warp, special[kTotalShared], warp.block->shared_bytes);
}

}  // namespace

void prepare_block(Block& block, const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  const u32 threads = static_cast<u32>(launch.block.count()),
            warps = (threads + kLanes - 1) / kLanes;
  block.launch = &launch;
  block.shared_bytes = kernel.dynamic_shared_offset() + launch.dynamic_shared;
  block.shared.assign(block.shared_bytes + 64, static_cast<char>(0xff));
  const u64 registers = (kernel.register_bytes + 63) / 64 * 64;
  const u64 local = (kernel.local_bytes + u64{63}) / 64 * 64;
  const u64 per_warp = registers + kLanes * local;
  block.storage = std::make_unique<char[]>(warps * per_warp + 64);  // zeros
  char* storage = block.storage.get();
  storage += (64 - reinterpret_cast<u64>(storage) % 64) % 64;
  block.warps.resize(warps);
  for (u32 w = 0; w < warps; ++w) {
    Warp& warp = block.warps[w];
    warp.block = &block;
    warp.index = w;
    warp.registers = storage + w * per_warp;
    warp.local = warp.registers + registers;
    const u32 count = threads - w * kLanes;
    warp.present = count >= kLanes ? kAll : (1u << count) - 1;
    set_constants(warp, kernel);
    set_thread_numbers(warp, launch);
    set_sizes(warp, launch);
  }
}

void begin_block(Block& block, u32 number) {
  const Launch& launch = *block.launch;
  const Kernel& kernel = *launch.kernel;
  block.number = number;
  block.epoch = 1;
  block.fenced = false;
  block.instructions = 0;
  const u32 id[] = {number % launch.grid.x, number / launch.grid.x % launch.grid.y,
                    number / launch.grid.x / launch.grid.y};
  for (Warp& warp : block.warps) {
    for (u32 k = 0; k < 3; ++k) set_all(warp, kernel.special[kCtaid + k], id[k]);
    warp.live = warp.present;
    warp.epoch = 0;
    warp.groups.assign(1, {0, warp.present});
    warp.parked.clear();
    warp.waiting.clear();
    if (launch.checks_for(PTXSIM_UNINITIALIZED))
      warp.local_written.assign(kLanes * ((kernel.local_bytes + 63) / 64) + 1, 0);
  }
  if (launch.checks_for(PTXSIM_UNINITIALIZED)) {
    std::memset(block.shared.data(), 0xff, block.shared.size());
    block.shared_written.assign(block.shared_bytes / 64 + 2, 0);
  }
  if (launch.checks_for(PTXSIM_SHARED_RACES))
    block.shared_cells.assign(block.shared_bytes / kernel.shared_granule + 1, {});
}

}  // namespace ptxsim
