// What is changed in a decoded program before it is scheduled: fewer passes over its tiles.
#include "common/elementwise.h"
#include "common/kernels.h"
#include "common/reduce.h"
#include "program.h"

namespace needle {
namespace {

// A cast to the type that its argument is computed in changes nothing: others use the argument.
void skip_idle_casts(TileProgram& p) {
  for (int n = 0; n < p.count; ++n) {
    Instruction& i = p.code[n];
    for (int k = 0; k < i.n_args; ++k) {
      const Instruction& used = p.code[i.args[k]];
      const bool is_idle = used.opcode == Opcode::cast && is_native(used.dtype) &&
                           used.type == p.code[used.args[0]].type;
      if (is_idle) i.args[k] = used.args[0];
    }
  }
}

// Joins arithmetic on floats with the one instruction that uses its result: two operations, or a
// product and the sum over rows or columns that it is part of, in one pass over the tile. The same
// bits.
class Pairing {
 public:
  explicit Pairing(TileProgram& program) : p_(program) {}

  void run() {
    for (int n = 0; n < p_.count; ++n) write_square_as_product(p_.code[n]);
    for (int n = 0; n < p_.count; ++n) {
      for (int k = 0; k < p_.code[n].n_args; ++k) ++uses_[p_.code[n].args[k]];
    }
    for (int n = 0; n < p_.count; ++n) {
      Instruction& i = p_.code[n];
      for (int k = 0; k < 2 && position(i) >= 0; ++k) join(i, k);
      if (is_full_binary(i, BinaryOp::minimum)) join_clip(i);
      if (is_sum(i)) join_product(i);
    }
  }

 private:
  static constexpr BinaryOp kOps[kPairOps] = {BinaryOp::add, BinaryOp::subtract, BinaryOp::multiply,
                                              BinaryOp::divide};

  static bool is_full_float(const Instruction& i) {
    return i.kind == ValueKind::full && (i.type == ComputeType::f32 || i.type == ComputeType::f64);
  }

  static bool is_full_binary(const Instruction& i, BinaryOp op) {
    return i.opcode == Opcode::binary && i.function == static_cast<uint8_t>(op) && is_full_float(i);
  }

  static bool is_sum(const Instruction& i) {
    return i.opcode == Opcode::column_sum ||
           (i.opcode == Opcode::row_reduce && i.function == static_cast<uint8_t>(ReduceOp::sum));
  }

  static void write_square_as_product(Instruction& i) {
    if (i.opcode != Opcode::unary || i.function != static_cast<uint8_t>(UnaryOp::square)) return;
    if (!is_full_float(i)) return;
    i.opcode = Opcode::binary;
    i.function = static_cast<uint8_t>(BinaryOp::multiply);
    i.args[1] = i.args[0];
    i.n_args = 2;
  }

  // Among kOps on full floats, or -1.
  static int position(const Instruction& i) {
    if (i.opcode != Opcode::binary || !is_full_float(i)) return -1;
    for (int p = 0; p < kPairOps; ++p) {
      if (i.function == static_cast<uint8_t>(kOps[p])) return p;
    }
    return -1;
  }

  void join(Instruction& i, int k) {
    const Instruction& first = p_.code[i.args[k]];
    const int op1 = position(first), op2 = position(i);
    if (op1 < 0 || uses_[i.args[k]] != 1) return;
    make_pair(i, pair_number(op1, op2, k == 1), first, i.args[1 - k]);
  }

  void join_clip(Instruction& i) {
    const Instruction& first = p_.code[i.args[0]];
    if (!is_full_binary(first, BinaryOp::maximum) || uses_[i.args[0]] != 1) return;
    make_pair(i, kClipPair, first, i.args[1]);
  }

  static void make_pair(Instruction& i, int number, const Instruction& first, int16_t other) {
    i.opcode = Opcode::pair;
    i.function = static_cast<uint8_t>(number);
    i.args[0] = first.args[0];
    i.args[1] = first.args[1];
    i.args[2] = other;
    i.n_args = 3;
  }

  // A sum of one argument becomes one of two: of their products.
  void join_product(Instruction& i) {
    const Instruction& product = p_.code[i.args[0]];
    if (!is_full_binary(product, BinaryOp::multiply) || uses_[i.args[0]] != 1) return;
    const bool is_full = p_.code[product.args[0]].kind == ValueKind::full &&
                         p_.code[product.args[1]].kind == ValueKind::full;
    if (!is_full) return;
    i.args[0] = product.args[0];
    i.args[1] = product.args[1];
    i.n_args = 2;
  }

  TileProgram& p_;
  int uses_[kMaxInstructions] = {};
};

}  // namespace

void join_operations(TileProgram& program) {
  skip_idle_casts(program);
  Pairing(program).run();
}

}  // namespace needle
