#include "multiply_block.h"

namespace needle::NEEDLE_ISA {

constexpr Blocks<double> double_blocks = make_blocks<double>();

}  // namespace needle::NEEDLE_ISA
