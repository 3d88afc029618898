// Tile programs (needle/tile/program.py), decoded: instructions that are known to be valid, in
// an order that says when each is computed. Plain data, read by kernels/program.cc.
//
// Row reductions cut a program into *phases* (needle/tile/schedule.py): what depends on the
// reductions of phase p is computed in phase p + 1, in another pass over the row. A value that a
// later phase uses is kept when the row is short, and computed again when it is long.
#pragma once

#include <cstdint>

#include "common/dtype.h"

namespace needle {

constexpr int kMaxProgramOperands = 24;
constexpr int kMaxInstructions = 256;
constexpr int kMaxPhases = 16;

enum class Opcode : uint8_t {
  load,
  constant,
  unary,
  binary,
  pair,  // two of add, subtract, multiply, divide, one after the other
  select,
  cast,
  row_reduce,
  gather,
  add_at,
  column_sum,
  row_index,
  row_size,
  random,
  store,
};

enum class ValueKind : uint8_t { scalar, row, full, column };

struct Instruction {
  Opcode opcode;
  uint8_t function;  // UnaryOp, BinaryOp, ReduceOp, or the number of a pair
  DType dtype;       // what the value stands for; a store's is its output's
  ComputeType type;  // of the value; a store's is its argument's
  ValueKind kind;
  int8_t phase;     // in which it is computed, as the code says
  uint8_t operand;  // of load and store: number among inputs or outputs
  uint8_t n_args;
  int16_t args[3];
  int16_t slot;     // the tile that holds a full value; -1 for loads
  bool is_kept;     // a later phase uses it
  int16_t keep;     // number among kept values
  int16_t direct;   // the store that alone takes this value, or -1
  int16_t spread;   // of row and scalar values that full ones use: number of their tile, or -1
  int64_t payload;  // of a constant: the bits of an int64 or a double

  bool is_row_reduction() const { return opcode == Opcode::row_reduce || opcode == Opcode::gather; }
  // The first phase in which its value can be used. Row reductions end with their phase.
  int available() const { return phase + (is_row_reduction() ? 1 : 0); }
};

// The instructions of one pass over the row.
struct Pass {
  int16_t steps[kMaxInstructions];
  int count = 0;
};

struct Phase {
  Pass fresh;    // what is first computed here; kept values are read back
  Pass again;    // the same with everything from earlier phases computed anew
  Pass rows;     // row values that are known when the phase begins
  Pass reduced;  // the row reductions that this phase completes
};

struct TileProgram {
  int n_inputs, n_outputs;
  DType input_dtype[kMaxProgramOperands];
  ValueKind input_kind[kMaxProgramOperands];
  DType output_dtype[kMaxProgramOperands];
  ValueKind output_kind[kMaxProgramOperands];

  Instruction code[kMaxInstructions];
  int count;

  Pass scalars;  // computed once per call
  Phase phases[kMaxPhases];
  int n_phases;
  Pass last_rows;  // row values after the last phase, and stores of row values
  Pass columns;    // the column sums
  int n_slots;     // tiles that full values need at a time
  int n_spread;
  int n_kept;
  int input_last_use[kMaxProgramOperands];  // the last instruction that reads an input
  bool is_elementwise;  // full and scalar values only, and none depends on its place in a row
  bool is_random;       // has random numbers: elements depend on their position in the whole
  int widest;           // bytes of the widest compute type
  int builtin;          // its number among built-in programs, or -1
};

// Pairs: op2(op1(a, b), c), or op2(c, op1(a, b)) if reversed, where the ops are numbered 0 to 3.
constexpr int kPairOps = 4;
constexpr int pair_number(int op1, int op2, bool is_reversed) {
  return (op1 * kPairOps + op2) * 2 + (is_reversed ? 1 : 0);
}

constexpr int kClipPair = 2 * kPairOps * kPairOps;  // minimum(maximum(a, b), c)

// Joins instructions that one pass over a tile can do. The same bits.
void join_operations(TileProgram& program);

// Decodes and checks; throws std::invalid_argument that says what is wrong.
void decode_program(const char* code, int64_t size, TileProgram& program);

}  // namespace needle
