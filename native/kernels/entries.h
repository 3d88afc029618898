// The kernels of one instruction set, as they are declared to each other, and gathered.
#pragma once

#include <type_traits>

#include "common/kernels.h"

// The members of KernelTable that are functions.
// clang-format off
#define NEEDLE_KERNELS(X) \
  X(has_unary) X(has_binary) X(copy) X(unary) X(binary) X(where) X(random) X(draw_uniforms) \
  X(run_program) X(run_each) X(reduce) X(arg_reduce) X(scan) X(mix) \
  X(matmul) X(matmul_then) X(matmul_of) X(conv) X(conv_then) X(conv_by_data) X(conv_by_weight) \
  X(attention) X(attention_backward) X(recurrence) X(recurrence_backward) \
  X(gather) X(scatter) X(argsort) X(searchsorted) X(count_nonzero) X(nonzero)
// clang-format on

namespace needle::NEEDLE_ISA {

// Each of them is a function of the same name, with the parameters that the table says.
#define NEEDLE_DECLARE(name) std::remove_pointer_t<decltype(KernelTable::name)> name;
NEEDLE_KERNELS(NEEDLE_DECLARE)
#undef NEEDLE_DECLARE

namespace {

// The table of this instruction set, under a name of its own.
constexpr KernelTable make_table(const char* name) {
#define NEEDLE_ONE(name) +1
  static_assert(sizeof(KernelTable) == (1 NEEDLE_KERNELS(NEEDLE_ONE)) * sizeof(void*), "all of it");
#undef NEEDLE_ONE
#define NEEDLE_ENTRY(name) .name = NEEDLE_ISA::name,
  return {.name = name, NEEDLE_KERNELS(NEEDLE_ENTRY)};
#undef NEEDLE_ENTRY
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
