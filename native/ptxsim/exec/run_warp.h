// Runs one warp.
#pragma once

#include "warp.h"

namespace ptxsim {

// Runs until all threads have ended or wait, or `slice` instructions have run. False if none could.
bool run_warp(Warp& warp, u64 slice);

// Runs a parked instruction whose lanes have all arrived.
bool unpark(Warp& warp);

}  // namespace ptxsim
