// The kernels of one instruction set.
#include "entries.h"

#define NEEDLE_TEXT(x) #x
#define NEEDLE_NAME(x) NEEDLE_TEXT(x)

namespace needle::NEEDLE_ISA {

extern const KernelTable table;
constexpr KernelTable table = make_table(NEEDLE_NAME(NEEDLE_ISA));

}  // namespace needle::NEEDLE_ISA
