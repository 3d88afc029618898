// Built-in programs: tile programs that every network runs (softmax, layer norm, Adam, ...), known
// when the library is built. The compiler makes one loop of each (kernels/builtin_run.h), where the
// interpreter passes over tiles once per instruction. Results have the same bits.
//
// builtin_programs.h lists them, written by tools/builtin_programs.py from the Python definitions.
// A program is built-in if it equals one of the lists, whatever its constants are.
#pragma once

#include <algorithm>
#include <array>

#include "common/elementwise.h"
#include "common/kernels.h"
#include "common/reduce.h"
#include "program.h"

namespace needle {

// An instruction as it is decoded, without what differs from call to call.
struct Line {
  Opcode opcode;
  uint8_t function;
  DType dtype;
  ValueKind kind;
  uint8_t operand;
  uint8_t n_args;
  int16_t args[3];
  int8_t phase = 0;
};

// How programs are written: program({load(0), row_max(0), subtract(0, 1), ...}, {0, 0, 1, ...}).
// Arguments are positions in the list; dtypes and kinds that follow from the arguments' are not
// said. The second list has the phases (needle/tile/schedule.py).
namespace builtin {

using enum DType;
using enum ValueKind;

constexpr DType kOfArguments = static_cast<DType>(kNumDTypes);

template <class Op, class... Args>
constexpr Line line(Opcode opcode, Op function, DType dtype, Args... args) {
  return {opcode,          static_cast<uint8_t>(function), dtype, scalar, 0,
          sizeof...(args), {static_cast<int16_t>(args)...}};
}

constexpr Line load(uint8_t operand, ValueKind kind = full, DType dtype = f32) {
  return {Opcode::load, 0, dtype, kind, operand, 0, {}};
}
constexpr Line store(uint8_t operand, int16_t x) {
  return {Opcode::store, 0, kOfArguments, scalar, operand, 1, {x}};
}
constexpr Line constant(DType dtype) { return line(Opcode::constant, 0, dtype); }
constexpr Line row_size(DType dtype) { return line(Opcode::row_size, 0, dtype); }
constexpr Line cast(DType dtype, int x) { return line(Opcode::cast, 0, dtype, x); }
constexpr Line where(int condition, int x, int y) {
  return line(Opcode::select, 0, kOfArguments, condition, x, y);
}
constexpr Line reduce(ReduceOp op, int x) { return line(Opcode::row_reduce, op, kOfArguments, x); }
constexpr Line row_sum(int x) { return reduce(ReduceOp::sum, x); }
constexpr Line row_max(int x) { return reduce(ReduceOp::max, x); }
constexpr Line gather(int x, int index) { return line(Opcode::gather, 0, kOfArguments, x, index); }
constexpr Line add_at(int x, int index, int amount) {
  return line(Opcode::add_at, 0, kOfArguments, x, index, amount);
}
constexpr Line column_sum(int x) { return line(Opcode::column_sum, 0, kOfArguments, x); }

constexpr DType result_of(ElementwiseKind kind) {
  return kind == ElementwiseKind::predicate ? b8 : kOfArguments;
}
#define UNARY(name, kind, ...)                                                      \
  constexpr Line name(int x) {                                                      \
    return line(Opcode::unary, UnaryOp::name, result_of(ElementwiseKind::kind), x); \
  }
#define BINARY(name, kind, ...)                                                          \
  constexpr Line name(int x, int y) {                                                    \
    return line(Opcode::binary, BinaryOp::name, result_of(ElementwiseKind::kind), x, y); \
  }
#include "common/elementwise.def"

template <size_t kCount>
constexpr std::array<Line, kCount> program(const Line (&lines)[kCount],
                                           const int (&phases)[kCount]) {
  std::array<Line, kCount> code{};
  for (size_t n = 0; n < kCount; ++n) {
    Line i = lines[n];
    i.phase = static_cast<int8_t>(phases[n]);
    for (int k = 0; k < i.n_args; ++k) {
      const Line& used = code[static_cast<size_t>(i.args[k])];
      i.kind = std::max(i.kind, used.kind);
      const bool is_condition = i.opcode == Opcode::select && k == 0;
      if (i.dtype == kOfArguments && !is_condition) i.dtype = used.dtype;
    }
    if (i.opcode == Opcode::row_reduce || i.opcode == Opcode::gather) i.kind = row;
    if (i.opcode == Opcode::column_sum) i.kind = column;
    code[n] = i;
  }
  return code;
}

}  // namespace builtin

// The number of the built-in program that a decoded one equals, or -1.
int find_builtin(const TileProgram& program);

}  // namespace needle
