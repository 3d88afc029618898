// A tile program on the finished blocks of a matrix, while they are in cache.
#pragma once

#include "../program.h"
#include "../view.h"

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

}  // namespace NEEDLE_ISA
}  // namespace needle
