// What the processor of this machine can run.
#pragma once

namespace needle {

// The instruction sets that kernels are written for, best first; CMakeLists.txt chooses which of
// them are built. The last two compute as AVX-512 and AMX do on any machine, for tests.
constexpr const char* kInstructionSets[] = {"amx",  "avx512bf16", "avx512", "avx2",
                                            "neon", "baseline",   "wide",   "wide-amx"};

// Can this process use one of them? Asks the processor, and whether the operating system saves the
// registers.
bool machine_has(const char* instruction_set);

}  // namespace needle
