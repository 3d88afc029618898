// The parts of needle_selftest.
#pragma once

#include <cstdint>

#include "common/kernels.h"

namespace needle {

// Prints the largest error of each float32 function over every n-th float; true if all are small.
bool check_accuracy(const KernelTable& table, uint32_t every);

}  // namespace needle
