// The table of instructions that compute lane by lane: name, operands, function.
#pragma once

#include "../base.h"

namespace ptxsim {

// Operands are letters: the result's, then those of the sources. w: 32-bit lanes, d: 64-bit lanes,
// p: a predicate.
struct Form {
  const char* name;
  const char* operands;
  LaneFunction function;
};

struct Forms {
  const Form* first;
  u64 count;
};

// Compiled once per instruction set.
#define PTXSIM_DECLARE_FORMS(isa) \
  namespace isa {                 \
  Forms integer_forms();          \
  Forms floating_forms();         \
  Forms half_forms();             \
  Forms convert_forms();          \
  }

PTXSIM_DECLARE_FORMS(baseline)
PTXSIM_DECLARE_FORMS(avx2)
#undef PTXSIM_DECLARE_FORMS

}  // namespace ptxsim
