// One job at a time: its caller and the workers take pieces from a shared counter. A second caller
// that finds the pool busy computes its pieces alone, so callers never wait for each other.
#include "threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "host.h"

namespace needle {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough to catch the next kernel of a busy loop, with Python's work of 10 to 60 us in between
// (waking a thread takes as long); short enough to cost nothing when idle. An LSTM layer's step
// took 5.5 ms with 10 us and 4.8 ms with 100 us.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr auto kInterruptPeriod = std::chrono::milliseconds(50);

std::atomic<bool (*)()> interrupt_hook{nullptr};
thread_local Clock::time_point last_poll{};
thread_local bool inside_parallel_for = false;
thread_local bool is_worker = false;

void poll_interrupt() {
  bool (*const hook)() = interrupt_hook.load(std::memory_order_relaxed);
  if (hook == nullptr) return;
  const auto now = Clock::now();
  if (now - last_poll < kInterruptPeriod) return;
  last_poll = now;
  if (hook()) throw Interrupted{};
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

struct Job {
  const RangeFn fn;
  void* const context;
  const int64_t n, grain;
  std::atomic<int64_t> next{0};  // start of the next piece nobody has taken
  std::mutex mutex{};
  std::exception_ptr error{};

  bool run_piece() {
    const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= n) return false;
    fn(context, begin, std::min(n, begin + grain));
    return true;
  }

  // Takes pieces until there are none. The first error cancels those that are left.
  void work(bool is_caller) noexcept {
    try {
      while (run_piece()) {
        if (is_caller) poll_interrupt();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
      next.store(n, std::memory_order_relaxed);
    }
  }
};

// Threads started while this lives leave signals to the program's own threads: one that all of
// those block (to wait for it with sigwait) would otherwise take its default action here, and end
// it.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t mask;
    sigfillset(&mask);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
      sigdelset(&mask, fault);
    }
    pthread_sigmask(SIG_BLOCK, &mask, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

class Pool {
 public:
  explicit Pool(int count) : count_(count) {}

  int count() const { return count_.load(std::memory_order_relaxed); }

  void set_count(int count) {
    const std::lock_guard running(running_);
    stop_workers();
    count_ = count;
  }

  // False when the pool is busy with another caller's job.
  bool try_run(Job& job) {
    const std::unique_lock running(running_, std::try_to_lock);
    if (!running) return false;
    const int64_t pieces = (job.n + job.grain - 1) / job.grain;
    const int helpers = static_cast<int>(std::min<int64_t>(count(), pieces)) - 1;
    start_workers(helpers);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      wanted_ = helpers;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    if (helpers == 1) {
      work_.notify_one();
    } else {
      work_.notify_all();
    }
    job.work(true);
    finish();
    return true;
  }

 private:
  // No worker joins the job any more; waits for those inside.
  void finish() {
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    wanted_ = 0;
    if (active_ > 0) {
      lock.unlock();
      for (const auto end = Clock::now() + kSpin; active_ > 0 && Clock::now() < end;) pause();
      lock.lock();
    }
    done_.wait(lock, [&] { return active_ == 0; });
  }

  // Fewer workers than asked for when the system refuses a thread: the caller does their share.
  void start_workers(int needed) {
    if (static_cast<int>(workers_.size()) >= needed) return;
    const BlockedSignals blocked;
    try {
      while (static_cast<int>(workers_.size()) < needed) {
        workers_.emplace_back([this] { serve(); });
      }
    } catch (const std::system_error&) {
    }
  }

  void stop_workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_ = false;
  }

  void serve() {
    inside_parallel_for = is_worker = true;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (wanted_ == 0) {
        wait_for_epoch(lock);
        continue;
      }
      Job* const job = job_;
      --wanted_;
      ++active_;
      lock.unlock();
      job->work(false);
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  void wait_for_epoch(std::unique_lock<std::mutex>& lock) {
    const uint64_t seen = epoch_.load(std::memory_order_relaxed);
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    lock.unlock();
    for (const auto end = Clock::now() + kSpin; !changed() && Clock::now() < end;) pause();
    lock.lock();
    work_.wait(lock, changed);
  }

  std::atomic<int> count_;  // of threads, the caller included
  std::mutex running_;      // held by the caller whose job is in the pool
  std::mutex mutex_;        // guards what follows
  std::condition_variable work_, done_;
  std::atomic<uint64_t> epoch_{0};  // changes when there is something to look at
  Job* job_ = nullptr;
  int wanted_ = 0;  // workers that may still join job_
  std::atomic<int> active_{0};
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

std::atomic<Pool*> current_pool{nullptr};
std::once_flag pool_once;

// The child of a fork has none of the threads, and mutexes in any state: it gets a pool of its own,
// and the old one is left as it is.
void renew_pool_in_child() {
  const Pool* const old = current_pool.load();
  if (old != nullptr) current_pool.store(new Pool(old->count()));
}

// Never destroyed: sleeping workers must not see it go at exit.
Pool& pool() {
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  std::call_once(pool_once, [] {
    pthread_atfork(nullptr, nullptr, renew_pool_in_child);
    current_pool.store(new Pool(available_cpus()), std::memory_order_release);
  });
  return *current_pool.load(std::memory_order_acquire);
}

// Restores the mark also when a piece throws.
struct InsideParallelFor {
  InsideParallelFor() { inside_parallel_for = true; }
  ~InsideParallelFor() { inside_parallel_for = false; }
};

}  // namespace

int get_num_threads() { return pool().count(); }

void set_num_threads(int count) {
  // A signal handler that runs between the pieces of a kernel would wait for itself.
  if (inside_parallel_for) throw std::logic_error("[set_num_threads] a kernel is running");
  pool().set_count(std::max(1, count));
}

void set_interrupt_hook(bool (*hook)()) { interrupt_hook = hook; }

void restart_interrupt_clock() { last_poll = Clock::now(); }

void check_interrupt() {
  if (!is_worker) poll_interrupt();
}

void parallel_for_range(int64_t n, int64_t grain, RangeFn fn, void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain) return fn(context, 0, n);
  if (inside_parallel_for) {
    for (int64_t i = 0; i < n; i += grain) fn(context, i, std::min(n, i + grain));
    return;
  }
  Job job{fn, context, n, grain};
  {
    const InsideParallelFor mark;
    if (pool().count() == 1 || !pool().try_run(job)) job.work(true);
  }
  if (job.error != nullptr) std::rethrow_exception(job.error);
}

}  // namespace needle
