// Tile programs on blocks of matrices while they are in cache: on the finished ones of a product,
// and in the place of those that it would copy from an operand.
#pragma once

#include "common/view.h"
#include "kernels/entries.h"
#include "kernels/workspace.h"
#include "tile/program.h"

namespace needle::NEEDLE_ISA {

// A program whose input 0 is a product of floats. Operands have the product's two axes, inputs
// broadcast to them; inputs[0] is not read. It is elementwise, or reduces rows, in one pass over
// them: then blocks must have whole rows.
struct Epilogue {
  const TileProgram* program;
  const View* const* outputs;
  const View* const* inputs;

  bool has_rows() const { return !program->is_elementwise; }
};

// Runs it for rows [row0, row0 + rows) and columns [col0, col0 + cols), whose products lie in
// `block`, rows `block_stride` elements apart; `block` may be an output's own memory.
void run_on_block(const Epilogue& epilogue, float* block, int64_t block_stride, int64_t row0,
                  int64_t rows, int64_t col0, int64_t cols);

// An elementwise program whose one output, of floats, is an operand of a product. Its inputs
// broadcast to the operand's two axes.
struct Prologue {
  const TileProgram* program;
  const View* const* inputs;
};

// Writes rows [row0, row0 + rows) and columns [col0, col0 + cols) of it to `block`, rows
// `block_stride` elements apart.
void compute_block(const Prologue& prologue, float* block, int64_t block_stride, int64_t row0,
                   int64_t rows, int64_t col0, int64_t cols);

namespace {

// What a thread keeps for an operand that is computed apart, beside the product's own workspace.
thread_local Memory kept_operand;

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
      const bool is_full = program.output_kind[k] == ValueKind::full;
      if (is_full && output(k).dtype == DType::f32 && !is_input_memory(output(k))) return k;
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
    run_program(program, operands, program.is_elementwise ? 0 : 1);
  }
};

// The operands of a product whose left factor a program computes: outputs, the program's inputs,
// the right factor, then the inputs from 1 on of the epilogue, if there is one (else one output).
struct OfOperands {
  const TileProgram& program;
  const TileProgram* then;
  const View* const* all;

  int n_outputs() const { return then == nullptr ? 1 : then->n_outputs; }
  const View* const* inputs() const { return all + n_outputs(); }
  const View& b() const { return *inputs()[program.n_inputs]; }
  Prologue prologue() const { return {&program, inputs()}; }

  // Does no output lie in the memory of the program's inputs?
  bool writes_no_input() const {
    for (int k = 0; k < n_outputs(); ++k) {
      for (int i = 0; i < program.n_inputs; ++i) {
        if (all[k]->data == inputs()[i]->data) return false;
      }
    }
    return true;
  }

  // Outputs, both factors and the epilogue's inputs: what the product would be called with.
  void list_factors(const View& a, const View** operands) const {
    for (int k = 0; k < n_outputs(); ++k) *operands++ = all[k];
    *operands++ = &a;
    const int rest = then == nullptr ? 1 : then->n_inputs;
    for (int k = 0; k < rest; ++k) *operands++ = inputs()[program.n_inputs + k];
  }

  // All of the left factor, of `a`'s shape, and then all of the product, by multiply(operands).
  template <class F>
  void run_apart(View a, const F& multiply) const {
    const Workspace workspace(a.size() * 4, kept_operand);
    a.data = workspace.as<char>();
    a.set_compact_strides();
    const View* operands[kMaxProgramOperands];
    operands[0] = &a;
    for (int k = 0; k < program.n_inputs; ++k) operands[1 + k] = inputs()[k];
    run_program(program, operands, 0);
    const View* factors[kMaxProgramOperands + 1];
    list_factors(a, factors);
    multiply(factors);
  }
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
