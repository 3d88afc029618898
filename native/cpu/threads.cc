// One job at a time: its caller and the workers take pieces from a shared counter. A second caller
// that finds the pool busy computes its pieces alone, so callers never wait for each other.
#include "threads.h"

#include <pthread.h>
#include <signal.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Linux wakes a thread near the one that wakes it, often on the very CPU that is about to be busy
// with the caller's share, where it stays until the balancer looks, milliseconds later. So workers
// are kept off the CPU of the last caller. After 5 ms of sleep, four products of 256 x 256 matrices
// took 0.71, 0.55, 0.53 and 0.52 ms without this, and 0.35, 0.26, 0.25 and 0.25 ms with it.
class Placement {
 public:
  // Called by the thread that is about to hand out work.
  void keep_off_this_cpu(std::vector<std::thread>& workers) {
#if defined(__linux__)
    const int cpu = sched_getcpu();
    if (cpu == avoided_ && workers.size() == placed_) return;
    cpu_set_t allowed;
    if (cpu < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    CPU_CLR(cpu, &allowed);
    if (CPU_COUNT(&allowed) == 0) return;
    for (std::thread& worker : workers) {
      pthread_setaffinity_np(worker.native_handle(), sizeof allowed, &allowed);
    }
    avoided_ = cpu;
    placed_ = workers.size();
#else
    (void)workers;
#endif
  }

 private:
  int avoided_ = -1;
  size_t placed_ = 0;
};

// Waits until done() is true: spins first, then sleeps on `word`, which changes when it may be.
template <class Done>
void wait_until(const std::atomic<uint32_t>& word, const Done& done) {
  for (const auto end = Clock::now() + kSpin; Clock::now() < end; pause()) {
    if (done()) return;
  }
  while (true) {
    const uint32_t seen = word.load();
    if (done()) return;
    word.wait(seen);
  }
}

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
    placement_.keep_off_this_cpu(workers_);
    wanted_ = helpers;
    job_ = &job;
    announce();
    job.work(true);
    // Nobody joins the job any more; wait for those inside.
    job_ = nullptr;
    wait_until(active_, [&] { return active_ == 0; });
    return true;
  }

 private:
  void announce() {
    ++epoch_;
    epoch_.notify_all();
  }

  // Fewer workers than asked for when the system refuses a thread: the caller does their share.
  void start_workers(int needed) {
    if (static_cast<int>(workers_.size()) >= needed) return;
    const BlockedSignals blocked;
    try {
      while (static_cast<int>(workers_.size()) < needed) {
        workers_.emplace_back([this, seen = epoch_.load()] { serve(seen); });
      }
    } catch (const std::system_error&) {
    }
  }

  void stop_workers() {
    stopping_ = true;
    announce();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_ = false;
  }

  void serve(uint32_t seen) {
    inside_parallel_for = is_worker = true;
    while (true) {
      wait_until(epoch_, [&] { return epoch_ != seen; });
      seen = epoch_;
      if (stopping_) return;
      join_job();
    }
  }

  // The mark in active_ comes before the look at job_, and in try_run the other way round: either
  // the worker sees that the job has ended, or the caller sees the worker.
  void join_job() {
    ++active_;
    if (Job* const job = job_; job != nullptr && wanted_-- > 0) job->work(false);
    if (--active_ == 0) active_.notify_one();
  }

  std::atomic<int> count_;           // of threads, the caller included
  std::mutex running_;               // held by the caller whose job is in the pool
  std::atomic<uint32_t> epoch_{0};   // changes when there is something to look at
  std::atomic<uint32_t> active_{0};  // workers that may be looking at job_
  std::atomic<Job*> job_{nullptr};
  std::atomic<int> wanted_{0};  // workers that may still join job_
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
  Placement placement_;
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
