// Gathers the kernels of one instruction set.
#include "entries.h"

#define NEEDLE_TEXT(x) #x
#define NEEDLE_NAME(x) NEEDLE_TEXT(x)

namespace needle::NEEDLE_ISA {

extern const KernelTable table;

#define NEEDLE_ONE(name) +1
static_assert(sizeof(KernelTable) == (1 NEEDLE_KERNELS(NEEDLE_ONE)) * sizeof(void*), "all of it");
#undef NEEDLE_ONE

#define NEEDLE_ENTRY(name) .name = name,
constexpr KernelTable table = {.name = NEEDLE_NAME(NEEDLE_ISA), NEEDLE_KERNELS(NEEDLE_ENTRY)};
#undef NEEDLE_ENTRY

#if defined(__AVX512F__)
extern const KernelTable bf16_table;
constexpr KernelTable bf16_table = [] {
  KernelTable kernels = table;
  kernels.name = "avx512bf16";
  kernels.matmul = matmul_bf16;
  return kernels;
}();
#endif

#if defined(__AVX512F__) || defined(NEEDLE_WIDE)
extern const KernelTable amx_table;
constexpr KernelTable amx_table = [] {
  KernelTable kernels = table;
#if defined(NEEDLE_WIDE)
  kernels.name = "wide-amx";
#else
  kernels.name = "amx";
#endif
  kernels.matmul = matmul_amx;
  kernels.matmul_then = matmul_then_amx;
  kernels.matmul_of = matmul_of_amx;
  return kernels;
}();
#endif

}  // namespace needle::NEEDLE_ISA
