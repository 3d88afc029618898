#include "multiply_block.h"

namespace needle::NEEDLE_ISA {

constexpr Blocks<float> float_blocks = make_blocks<float>();

}  // namespace needle::NEEDLE_ISA
