// A tile program on the finished blocks of a matrix, while they are in cache.
#pragma once

#include "../program.h"
#include "../view.h"

namespace needle {
namespace NEEDLE_ISA {

// Elementwise and scalar instructions only. Input 0 is the block, the others and the outputs are
// two-dimensional views of the matrix's shape (inputs broadcast to it; output 0 is the matrix).
struct Epilogue {
  const TileProgram* program;
  View outputs[4];
  View inputs[8];  // [0] is not read
};

// Runs it for rows [row0, row0 + rows) and columns [col0, col0 + cols), whose values of float lie
// in `block`, rows `block_stride` elements apart; `block` may be output 0's own memory.
void run_on_block(const Epilogue& epilogue, float* block, int64_t block_stride, int64_t row0,
                  int64_t rows, int64_t col0, int64_t cols);

}  // namespace NEEDLE_ISA
}  // namespace needle
