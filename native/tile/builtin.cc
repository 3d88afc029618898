#include "builtin.h"

#include <span>

#include "builtin_programs.h"

namespace needle {
namespace {

#define BUILTIN(name) builtin::name,
constexpr std::span<const Line> kPrograms[] = {NEEDLE_BUILTIN_PROGRAMS(BUILTIN)};
#undef BUILTIN

bool is_equal(const Line& line, const Instruction& i) {
  if (line.opcode != i.opcode || line.function != i.function || line.dtype != i.dtype ||
      line.kind != i.kind || line.operand != i.operand || line.n_args != i.n_args) {
    return false;
  }
  for (int k = 0; k < i.n_args; ++k) {
    if (line.args[k] != i.args[k]) return false;
  }
  return true;
}

bool is_equal(std::span<const Line> lines, const TileProgram& program) {
  if (static_cast<int>(lines.size()) != program.count) return false;
  for (int n = 0; n < program.count; ++n) {
    if (!is_equal(lines[static_cast<size_t>(n)], program.code[n])) return false;
  }
  return true;
}

}  // namespace

int find_builtin(const TileProgram& program) {
  for (int number = 0; number < static_cast<int>(std::size(kPrograms)); ++number) {
    if (is_equal(kPrograms[number], program)) return number;
  }
  return -1;
}

}  // namespace needle
