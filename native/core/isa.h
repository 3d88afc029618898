// Which kernels run: one table per instruction set that was built, chosen by what the CPU has.
#pragma once

#include <string>
#include <vector>

#include "common/kernels.h"

namespace needle {

// What this machine can run, best first. Throws std::runtime_error if it can run nothing that was
// built.
std::vector<const KernelTable*> usable_tables();

// nullptr: the best. Throws std::runtime_error that lists the usable ones for any other name.
void use_instruction_set(const char* name);

void set_matmul_precision(MatmulPrecision precision);  // for all threads

}  // namespace needle
