// When each instruction of a built-in program (../builtin.h) is computed, found while the library
// is built.
#pragma once

#include <algorithm>
#include <array>

#include "tile/builtin.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr bool ends_phase(const Line& i) {
  return i.opcode == Opcode::row_reduce || i.opcode == Opcode::gather;
}

// What each phase of a program computes: Scheduler of program.cc, at compile time.
template <size_t kCount>
struct Schedule {
  std::array<int, kCount> phase{};
  std::array<int, kCount> keep{};      // number among kept values, or -1
  std::array<int, kCount> last_use{};  // the last phase that needs a value; n_phases: after all
  int n_phases = 1, n_kept = 0;
  int n_full = 0;                        // operands
  bool is_needed[kMaxPhases][kCount]{};  // full values and sums, in each pass over the row

  constexpr explicit Schedule(const std::array<Line, kCount>& code) {
    for (size_t n = 0; n < kCount; ++n) {
      phase[n] = code[n].phase;
      if (is_full_step(code[n])) n_phases = std::max(n_phases, phase[n] + 1);
    }
    find_kept(code);
    for (int p = 0; p < n_phases; ++p) find_needed(code, p);
    find_last_uses(code);
  }

  // Of an element of all full operands and kept values.
  constexpr int64_t element_bytes() const { return (n_full + n_kept) * sizeof(float); }

 private:
  static constexpr bool is_full_step(const Line& i) {
    return i.kind == ValueKind::full || i.opcode == Opcode::column_sum || ends_phase(i);
  }

  // Is a value computed again as quickly as it is stored and loaded? A core stores one vector of
  // AVX-512 in two cycles: layer norm of 256 x 384, one thread, took 28.1 us with its deviations
  // kept, and takes 26.9; its gradient with g (x - m) s kept took 38, and takes 32.
  static constexpr bool is_cheap(const std::array<Line, kCount>& code, size_t n) {
    constexpr int kMostSteps = 3;
    for (const Line& i : code) {  // what a gather reads must be in memory
      if (i.opcode == Opcode::gather && static_cast<size_t>(i.args[0]) == n) return false;
    }
    return steps_of(code, n) <= kMostSteps;
  }

  // Sums, differences and products that make a full value of what is loaded; many if it takes more.
  static constexpr int steps_of(const std::array<Line, kCount>& code, size_t n) {
    constexpr int kMany = 100;
    const Line& i = code[n];
    if (i.kind != ValueKind::full || i.opcode == Opcode::load) return 0;
    const auto op = static_cast<BinaryOp>(i.function);
    const bool is_quick =
        op == BinaryOp::add || op == BinaryOp::subtract || op == BinaryOp::multiply;
    if (i.opcode != Opcode::binary || !is_quick) return kMany;
    return 1 + steps_of(code, static_cast<size_t>(i.args[0])) +
           steps_of(code, static_cast<size_t>(i.args[1]));
  }

  constexpr void find_kept(const std::array<Line, kCount>& code) {
    keep.fill(-1);
    for (size_t n = 0; n < kCount; ++n) {
      const bool is_result = code[n].opcode == Opcode::store && code[n].kind == ValueKind::full;
      if (is_result || code[n].opcode == Opcode::column_sum) phase[n] = n_phases - 1;
      for (int k = 0; k < code[n].n_args && is_full_step(code[n]); ++k) {
        const auto a = static_cast<size_t>(code[n].args[k]);
        const bool is_late = code[a].kind == ValueKind::full && phase[n] > phase[a];
        if (is_late && code[a].opcode != Opcode::load && keep[a] < 0 && !is_cheap(code, a)) {
          keep[a] = n_kept++;
        }
      }
    }
  }

  constexpr void find_needed(const std::array<Line, kCount>& code, int pass) {
    for (size_t n = kCount; n-- > 0;) {
      bool& needed = is_needed[pass][n];
      const bool is_root =
          is_full_step(code[n]) && phase[n] == pass &&
          (code[n].kind != ValueKind::full || keep[n] >= 0 || code[n].opcode == Opcode::store);
      needed |= is_root;
      const bool is_at_hand = keep[n] >= 0 && phase[n] < pass;
      for (int k = 0; k < code[n].n_args && needed && !is_at_hand; ++k) {
        const auto a = static_cast<size_t>(code[n].args[k]);
        if (code[a].kind == ValueKind::full) is_needed[pass][a] = true;
      }
    }
  }

  constexpr void find_last_uses(const std::array<Line, kCount>& code) {
    for (size_t n = 0; n < kCount; ++n) {
      const bool is_row_store = code[n].opcode == Opcode::store && code[n].kind == ValueKind::row;
      int last = is_row_store ? n_phases : phase[n];
      for (int p = 0; p < n_phases; ++p) {
        if (is_needed[p][n]) last = std::max(last, p);
      }
      for (int k = 0; k < code[n].n_args; ++k) {
        int& use = last_use[static_cast<size_t>(code[n].args[k])];
        use = std::max(use, last);
      }
      const bool is_operand = code[n].opcode == Opcode::load || code[n].opcode == Opcode::store;
      if (is_operand && code[n].kind == ValueKind::full) ++n_full;
    }
  }
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
