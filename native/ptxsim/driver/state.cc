#include "state.h"

#include <cstdlib>

#include "../lanes/find.h"

namespace ptxsim {

bool State::is_pinned(const void* address) const {
  const u64 at = reinterpret_cast<u64>(address);
  const auto next = pinned.upper_bound(at);
  return next != pinned.begin() && at < std::prev(next)->first + std::prev(next)->second;
}

void State::fail(Result result, const std::string& text) {
  if (sticky != kSuccess) return;
  sticky = result;
  if (report.empty()) report = text;
}

State& state() {
  static State* only = new State;  // used until the process ends
  return *only;
}

Result refuse(Result result, const std::string& text) {
  if (state().report.empty()) state().report = text;
  return result;
}

}  // namespace ptxsim

using ptxsim::state;

PTXSIM_API void ptxsim_set_checks(uint32_t checks) { state().checks = checks; }
PTXSIM_API uint32_t ptxsim_checks() { return state().checks; }
PTXSIM_API void ptxsim_set_seed(uint32_t seed) { state().seed = seed; }
PTXSIM_API void ptxsim_set_threads(uint32_t count) { state().threads = count; }
PTXSIM_API void ptxsim_set_max_instructions(uint64_t count) { state().max_instructions = count; }
PTXSIM_API const char* ptxsim_report() { return state().report.c_str(); }
PTXSIM_API const char* ptxsim_output() { return state().output.c_str(); }

PTXSIM_API void ptxsim_reset() {
  std::lock_guard lock(state().mutex);
  ptxsim::forget_pending_work();
  state().sticky = ptxsim::kSuccess;
  state().report.clear();
  state().output.clear();
  state().launches.clear();
  state().trace.clear();
}

PTXSIM_API void ptxsim_forget(uint64_t address, size_t bytes) {
  std::lock_guard lock(state().mutex);
  if (ptxsim::Allocation* allocation = ptxsim::device_memory().find(address, bytes))
    allocation->mark(address, bytes, false);
}

PTXSIM_API size_t ptxsim_launches(const ptxsim_launch** launches) {
  *launches = state().launches.data();
  return state().launches.size();
}

PTXSIM_API void ptxsim_clear_launches() {
  std::lock_guard lock(state().mutex);
  state().launches.clear();
  state().trace.clear();
}

PTXSIM_API size_t ptxsim_trace(const ptxsim_access** accesses) {
  *accesses = state().trace.data();
  return state().trace.size();
}

PTXSIM_API const char* ptxsim_instructions() {
  static std::string text;
  text = ptxsim::describe_forms();
  return text.c_str();
}
