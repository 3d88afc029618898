// Runs a launch on all cores.
#pragma once

#include "warp.h"

namespace ptxsim {

struct Outcome {
  ptxsim_launch counters{};
  std::string output;
  std::vector<ptxsim_access> trace;
  Result result = kSuccess;
  std::string report;
};

// Runs all blocks. What comes out does not depend on the number of host threads: of several
// failures the one of the lowest block counts.
Outcome run_launch(Launch& launch, u32 threads);

}  // namespace ptxsim
