#include "multiply_block.h"

namespace needle::NEEDLE_ISA {

constexpr Blocks<uint32_t> word_blocks = make_blocks<uint32_t>();
constexpr Blocks<uint64_t> long_blocks = make_blocks<uint64_t>();

}  // namespace needle::NEEDLE_ISA
