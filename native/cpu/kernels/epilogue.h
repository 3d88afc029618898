// A tile program on the finished blocks of a matrix, while they are in cache.
#pragma once

#include "../program.h"
#include "../view.h"
#include "entries.h"
#include "workspace.h"

namespace needle {
namespace NEEDLE_ISA {

// An elementwise program whose input 0 is a product of floats. Operands have the product's two
// axes, inputs broadcast to them; inputs[0] is not read.
struct Epilogue {
  const TileProgram* program;
  const View* const* outputs;
  const View* const* inputs;
};

// Runs it for rows [row0, row0 + rows) and columns [col0, col0 + cols), whose products lie in
// `block`, rows `block_stride` elements apart; `block` may be an output's own memory.
void run_on_block(const Epilogue& epilogue, float* block, int64_t block_stride, int64_t row0,
                  int64_t rows, int64_t col0, int64_t cols);

namespace {

// The operands of a product with an epilogue: outputs, the two factors, then the program's inputs
// from 1 on.
struct ThenOperands {
  const TileProgram& program;
  const View* const* all;

  const View& output(int k) const { return *all[k]; }
  const View& a() const { return *all[program.n_outputs]; }
  const View& b() const { return *all[program.n_outputs + 1]; }
  Epilogue epilogue() const { return {&program, all, all + program.n_outputs + 1}; }

  bool is_input_memory(const View& out) const {
    for (int k = 0; k <= program.n_inputs; ++k) {
      if (all[program.n_outputs + k]->data == out.data) return true;
    }
    return false;
  }

  // May the program write before all inputs are read?
  bool writes_no_input() const {
    for (int k = 0; k < program.n_outputs; ++k) {
      if (is_input_memory(output(k))) return false;
    }
    return true;
  }

  // The output whose memory can hold the product until the program writes it, or -1.
  int holder() const {
    for (int k = 0; k < program.n_outputs; ++k) {
      if (output(k).dtype == DType::f32 && !is_input_memory(output(k))) return k;
    }
    return -1;
  }

  // All of the product, by multiply(view), and then all of the program.
  template <class F>
  void run_apart(const F& multiply) const {
    const int held = holder();
    View product = output(held < 0 ? 0 : held);
    const Workspace workspace(held >= 0 ? 0 : product.size() * 4);
    if (held < 0) {
      product.data = workspace.as<char>();
      product.dtype = DType::f32;
      product.set_compact_strides();
    }
    multiply(product);
    const View* operands[kMaxProgramOperands];
    for (int k = 0; k < program.n_outputs; ++k) operands[k] = &output(k);
    operands[program.n_outputs] = &product;
    for (int k = 1; k < program.n_inputs; ++k) {
      operands[program.n_outputs + k] = all[program.n_outputs + 1 + k];
    }
    run_program(program, operands, 0);
  }
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
