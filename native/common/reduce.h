// The reductions as an enumeration, in the order of reduce.def.
#pragma once

#if !defined(__CUDACC_RTC__)  // which has no headers
#include <cstdint>
#endif

namespace needle {

enum class ReduceOp : uint8_t {
#define REDUCTION(name, ...) name,
#include "reduce.def"
};

enum class ReduceKind : uint8_t { total, extreme, truth };

#if !defined(__CUDACC_RTC__)  // where functions are for one of both sides
struct ReduceInfo {
  const char* name;
  ReduceKind kind;
  const char* nothing;  // the reduction of no elements
};

constexpr ReduceInfo kReduceInfo[] = {
#define REDUCTION(name, kind, nothing, step) {#name, ReduceKind::kind, #nothing},
#include "reduce.def"
};

constexpr ReduceKind kind_of(ReduceOp op) { return kReduceInfo[static_cast<int>(op)].kind; }
#endif

}  // namespace needle
