// parallel_for over the one thread pool (threads.cc). Work is cut by shape, never by the number of
// threads, so results do not depend on it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace needle {

using RangeFn = void (*)(void* context, int64_t begin, int64_t end);

// Calls fn on [0, n) in pieces of `grain` (the last may be shorter), on the pool and this thread;
// returns when all are done. Runs inline when there is one piece or one thread, or when called from
// inside another parallel_for. Polls for Ctrl-C between pieces, and throws Interrupted.
void parallel_for_range(int64_t n, int64_t grain, RangeFn fn, void* context);

// For long loops on one thread: throws Interrupted after Ctrl-C, as parallel_for does. It reads the
// clock (25 ns), and does nothing on the pool's own threads.
void check_interrupt();

template <class F>
inline void parallel_for(int64_t n, int64_t grain, F&& body) {
  using Body = std::remove_reference_t<F>;
  parallel_for_range(
      n, grain,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<Body*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace needle
