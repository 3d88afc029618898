#include "cpu.h"

#include <cstring>

#include "amx_probe.h"

namespace needle {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512bf16() { return false; }
#endif

}  // namespace

bool machine_has(const char* instruction_set) {
  const auto is = [&](const char* name) { return std::strcmp(instruction_set, name) == 0; };
  if (is("amx")) return has_avx512() && has_amx();
  if (is("avx512bf16")) return has_avx512bf16();
  if (is("avx512")) return has_avx512();
  if (is("avx2")) return has_avx2();
#if defined(__aarch64__)
  if (is("neon")) return true;
#else
  if (is("neon")) return false;
#endif
  return true;
}

}  // namespace needle
