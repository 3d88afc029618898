#include "isa.h"

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "amx_probe.h"

namespace needle {

#define NEEDLE_DECLARE(isa)       \
  namespace isa {                 \
  extern const KernelTable table; \
  }
#ifdef NEEDLE_HAS_baseline
NEEDLE_DECLARE(baseline)
#endif
#ifdef NEEDLE_HAS_avx2
NEEDLE_DECLARE(avx2)
#endif
#ifdef NEEDLE_HAS_avx512
NEEDLE_DECLARE(avx512)
namespace avx512 {
extern const KernelTable amx_table, bf16_table;
}
#endif
#ifdef NEEDLE_HAS_neon
NEEDLE_DECLARE(neon)
#endif
#ifdef NEEDLE_HAS_wide
NEEDLE_DECLARE(wide)
namespace wide {
extern const KernelTable amx_table;
}
#endif
#undef NEEDLE_DECLARE

namespace {

#if defined(NEEDLE_HAS_avx2) || defined(NEEDLE_HAS_avx512)
// These ask the CPU and whether the operating system saves the registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

#ifdef NEEDLE_HAS_avx512
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif
#endif

std::atomic<const KernelTable*> current{nullptr};
std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};

}  // namespace

std::vector<const KernelTable*> usable_tables() {
  std::vector<const KernelTable*> tables;
#ifdef NEEDLE_HAS_avx512
  if (has_avx512() && has_amx()) tables.push_back(&avx512::amx_table);
  if (has_avx512bf16()) tables.push_back(&avx512::bf16_table);
  if (has_avx512()) tables.push_back(&avx512::table);
#endif
#ifdef NEEDLE_HAS_avx2
  if (has_avx2()) tables.push_back(&avx2::table);
#endif
#ifdef NEEDLE_HAS_neon
  tables.push_back(&neon::table);
#endif
#ifdef NEEDLE_HAS_baseline
  tables.push_back(&baseline::table);
#endif
#ifdef NEEDLE_HAS_wide
  tables.push_back(&wide::table);
  tables.push_back(&wide::amx_table);
#endif
  return tables;
}

void use_instruction_set(const char* name) {
  const auto tables = usable_tables();
  if (name == nullptr) {
    current = tables.front();
    return;
  }
  std::string known;
  for (const KernelTable* table : tables) {
    if (std::strcmp(table->name, name) == 0) {
      current = table;
      return;
    }
    known += known.empty() ? table->name : std::string(", ") + table->name;
  }
  throw std::runtime_error("[needle] NEEDLE_CPU must be one of those that this machine has (" +
                           known + "), got '" + name + "'; unset it for the best.");
}

const KernelTable& kernels() {
  const KernelTable* table = current.load(std::memory_order_relaxed);
  if (table == nullptr) {
    use_instruction_set(nullptr);
    table = current.load(std::memory_order_relaxed);
  }
  return *table;
}

MatmulPrecision matmul_precision() { return precision.load(std::memory_order_relaxed); }

void set_matmul_precision(MatmulPrecision value) { precision = value; }

void throw_index_error(int position, int64_t value, int64_t size) {
  throw IndexOutOfRange{position, value, size};
}

}  // namespace needle
