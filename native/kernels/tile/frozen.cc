// The table of frozen programs, each one function.
#include "frozen_run.h"

#include "tile/frozen_programs.h"

namespace needle::NEEDLE_ISA {
namespace {

// Vectors of float32 that do not fuse products and sums are no faster than the interpreter.
template <const auto& kCode>
constexpr Frozen entry_of() {
  if constexpr (kFusesVectors) return FrozenRows<kCode>::entry();
  return {};
}

}  // namespace

#define FROZEN(name) entry_of<frozen::name>(),
constexpr Frozen kFrozen[] = {NEEDLE_FROZEN_PROGRAMS(FROZEN)};
#undef FROZEN

}  // namespace needle::NEEDLE_ISA
