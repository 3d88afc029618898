// Frozen programs: tile programs that every network runs (softmax, layer norm, Adam, ...), known
// when the library is built. The compiler makes one loop of each (kernels/frozen_run.h), where the
// interpreter passes over tiles once per instruction. Results have the same bits.
//
// frozen_programs.h lists them, written by tools/freeze_programs.py from the Python definitions. A
// program is frozen if it equals one of the lists, whatever its constants are.
#pragma once

#include "../common/elementwise.h"
#include "kernels.h"
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
};

namespace frozen {

using enum DType;
using enum ValueKind;

constexpr Line load(uint8_t operand, DType dtype, ValueKind kind) {
  return {Opcode::load, 0, dtype, kind, operand, 0, {}};
}
constexpr Line constant(DType dtype) { return {Opcode::constant, 0, dtype, scalar, 0, 0, {}}; }
constexpr Line row_size(DType dtype) { return {Opcode::row_size, 0, dtype, scalar, 0, 0, {}}; }
constexpr Line unary(UnaryOp op, DType dtype, ValueKind kind, int16_t x) {
  return {Opcode::unary, static_cast<uint8_t>(op), dtype, kind, 0, 1, {x}};
}
constexpr Line binary(BinaryOp op, DType dtype, ValueKind kind, int16_t x, int16_t y) {
  return {Opcode::binary, static_cast<uint8_t>(op), dtype, kind, 0, 2, {x, y}};
}
constexpr Line where(DType dtype, ValueKind kind, int16_t condition, int16_t x, int16_t y) {
  return {Opcode::select, 0, dtype, kind, 0, 3, {condition, x, y}};
}
constexpr Line cast(DType dtype, ValueKind kind, int16_t x) {
  return {Opcode::cast, 0, dtype, kind, 0, 1, {x}};
}
constexpr Line reduce(ReduceOp op, DType dtype, int16_t x) {
  return {Opcode::row_reduce, static_cast<uint8_t>(op), dtype, row, 0, 1, {x}};
}
constexpr Line gather(DType dtype, int16_t x, int16_t index) {
  return {Opcode::gather, 0, dtype, row, 0, 2, {x, index}};
}
constexpr Line add_at(DType dtype, int16_t x, int16_t index, int16_t amount) {
  return {Opcode::add_at, 0, dtype, full, 0, 3, {x, index, amount}};
}
constexpr Line column_sum(DType dtype, int16_t x) {
  return {Opcode::column_sum, 0, dtype, column, 0, 1, {x}};
}
constexpr Line store(uint8_t operand, DType dtype, ValueKind kind, int16_t x) {
  return {Opcode::store, 0, dtype, kind, operand, 1, {x}};
}

}  // namespace frozen

// The number of the frozen program that a decoded one equals, or -1.
int find_frozen(const TileProgram& program);

}  // namespace needle
