#include "isa.h"

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "cpu.h"

namespace needle {

// The build says SET(namespace, table) for each one that it has.
#define SET(isa, table)           \
  namespace isa {                 \
  extern const KernelTable table; \
  }
NEEDLE_SETS
#undef SET

namespace {

#define SET(isa, table) &isa::table,
constexpr const KernelTable* kBuilt[] = {NEEDLE_SETS};
#undef SET

std::atomic<const KernelTable*> current{nullptr};
std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};

}  // namespace

std::vector<const KernelTable*> usable_tables() {
  std::vector<const KernelTable*> tables;
  for (const char* name : kInstructionSets) {
    for (const KernelTable* table : kBuilt) {
      if (std::strcmp(table->name, name) == 0 && machine_has(name)) tables.push_back(table);
    }
  }
  if (tables.empty()) {
    // tools/check_wheel.py looks for these words.
    throw std::runtime_error(
        "[needle] built for the instruction sets " NEEDLE_SET_NAMES
        ", none of which this machine has; build needle with NEEDLE_ISAS=all, or here.");
  }
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
  throw std::runtime_error(
      "[needle] NEEDLE_CPU must be one of those that this build and this machine "
      "have (" +
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
