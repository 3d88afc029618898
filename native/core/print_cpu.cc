// Prints the instruction sets that this machine can run, best first: what CMakeLists.txt asks for
// when it builds for one machine.
#include <cstdio>

#include "cpu.h"

int main() {
  for (const char* name : needle::kInstructionSets) {
    if (needle::machine_has(name)) std::printf("%s;", name);
  }
}
