// What the driver's functions share, and how each of them begins.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../check/memory.h"
#include "../exec/launch.h"
#include "../failure.h"
#include "stream.h"

// As cuda.h has them: C functions, found by their names.
#define PTXSIM_API extern "C" __attribute__((visibility("default")))

namespace ptxsim {

struct State {
  std::recursive_mutex mutex;
  u32 checks = PTXSIM_ALL_CHECKS;
  u32 seed = 0, threads = 0;
  u64 max_instructions = u64{1} << 31;
  Result sticky = kSuccess;  // of a kernel that failed: all later work fails too
  std::string report, output;
  std::vector<ptxsim_launch> launches;
  std::vector<ptxsim_access> trace;
  std::set<std::string> kernel_names;  // that launches point to
  std::map<u64, u64> pinned;           // host memory: address, bytes

  bool is_pinned(const void* address) const;
  void fail(Result result, const std::string& text);
};

State& state();

using DevicePointer = u64;

// Runs a function of the driver under its lock; failures become results.
template <class Body>
Result guarded(Body body) {
  std::lock_guard lock(state().mutex);
  try {
    return body();
  } catch (const Failure& failure) {
    if (state().report.empty()) state().report = failure.text;
    return failure.result;
  }
}

// As guarded, unless a kernel has failed before.
template <class Body>
Result guarded_work(Body body) {
  return guarded([&] { return state().sticky != kSuccess ? state().sticky : body(); });
}

// A failure by the caller's mistake: noted for cuGetErrorString.
Result refuse(Result result, const std::string& text);

}  // namespace ptxsim
