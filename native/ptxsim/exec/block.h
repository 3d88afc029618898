// Runs the blocks of a launch, one at a time.
#pragma once

#include "warp.h"

namespace ptxsim {

// Prepares a block's memory for a launch; then run_block for each of its blocks.
void prepare_block(Block& block, const Launch& launch);
void run_block(Block& block, u32 number);  // throws Failure

}  // namespace ptxsim
