#include "scope.h"

#include <tuple>

namespace ptxsim {

Width width_of(u32 bits) {
  return bits == 1 ? Width::predicate : bits > 32 ? Width::wide : Width::word;
}

void Scope::declare_registers(std::string_view prefix, u32 count, u32 bits) {
  for (u32 i = 0; i < count; ++i) {
    const Width width = width_of(bits);
    declare(std::string(prefix) + std::to_string(i),
            {Symbol::reg, width, static_cast<u8>(bits), new_slot(width), 0});
  }
}

const Symbol* Scope::find(std::string_view name) const {
  const std::string key(name);
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const auto found = level->find(key);
    if (found != level->end()) return &found->second;
  }
  return nullptr;
}

u32 Scope::new_slot(Width width) {
  const u32 slot = kernel_.register_bytes;
  kernel_.register_bytes += width == Width::predicate ? 32 : bytes_of(width);  // aligned for AVX
  return slot;
}

u32 Scope::constant(u64 value, Width width, bool after_static_shared) {
  if (width == Width::word) value &= 0xffffffff;
  const auto [entry, is_new] = constants_.try_emplace({value, width, after_static_shared}, 0);
  if (is_new) {
    entry->second = new_slot(width);
    kernel_.constants.push_back({entry->second, width, value, after_static_shared});
  }
  return entry->second;
}

u32 Scope::special(std::string_view name) {
  static const std::map<std::string_view, u32> numbers = {{"%tid.x", kTid},
                                                          {"%tid.y", kTid + 1},
                                                          {"%tid.z", kTid + 2},
                                                          {"%ntid.x", kNtid},
                                                          {"%ntid.y", kNtid + 1},
                                                          {"%ntid.z", kNtid + 2},
                                                          {"%ctaid.x", kCtaid},
                                                          {"%ctaid.y", kCtaid + 1},
                                                          {"%ctaid.z", kCtaid + 2},
                                                          {"%nctaid.x", kNctaid},
                                                          {"%nctaid.y", kNctaid + 1},
                                                          {"%nctaid.z", kNctaid + 2},
                                                          {"%laneid", kLaneId},
                                                          {"%warpid", kWarpId},
                                                          {"%nwarpid", kNwarpId},
                                                          {"%lanemask_eq", kLaneMaskEq},
                                                          {"%lanemask_lt", kLaneMaskLt},
                                                          {"%lanemask_le", kLaneMaskLe},
                                                          {"%lanemask_gt", kLaneMaskGt},
                                                          {"%lanemask_ge", kLaneMaskGe},
                                                          {"%dynamic_smem_size", kDynamicShared},
                                                          {"%total_smem_size", kTotalShared}};
  const auto found = numbers.find(name);
  if (found == numbers.end()) return kNone;
  u32& slot = kernel_.special[found->second];
  if (slot == kNone) slot = new_slot(Width::word);
  return slot;
}

}  // namespace ptxsim
