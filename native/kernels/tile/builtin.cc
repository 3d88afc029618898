// The table of built-in programs, each one function.
#include "builtin_run.h"

#include "tile/builtin_programs.h"

namespace needle::NEEDLE_ISA {
namespace {

// Vectors of float32 that do not fuse products and sums are no faster than the interpreter.
template <const auto& kCode>
constexpr Builtin entry_of() {
  if constexpr (kFusesVectors) return BuiltinRows<kCode>::entry();
  return {};
}

}  // namespace

#define BUILTIN(name) entry_of<builtin::name>(),
constexpr Builtin kBuiltin[] = {NEEDLE_BUILTIN_PROGRAMS(BUILTIN)};
#undef BUILTIN

}  // namespace needle::NEEDLE_ISA
