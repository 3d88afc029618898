// One job at a time: its caller and the workers each have a share of the pieces, and take from the
// others when it is empty. A second caller that finds the pool busy computes its pieces alone, so
// callers never wait for each other.
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
#include <span>
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

// Neighbouring pieces that one thread takes first: it is the same thread from loop to loop, which
// finds in its own cache what it wrote or read before. Beside one counter for all, x + y of 1024 x
// 1024 floats took 102 instead of 178 us, of 256 x 384 9.3 instead of 9.4.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};  // the first piece that nobody has taken
  int64_t end = 0;
};

struct Job {
  const RangeFn fn;
  void* const context;
  const int64_t n, grain;
  const std::span<Share> shares;
  std::mutex mutex{};
  std::exception_ptr error{};

  void hand_out() {
    const int64_t pieces = (n + grain - 1) / grain, count = static_cast<int64_t>(shares.size());
    int64_t first = 0;
    for (int64_t i = 0; i < count; ++i) {
      Share& share = shares[static_cast<size_t>(i)];
      share.end = pieces * (i + 1) / count;
      share.next.store(first, std::memory_order_relaxed);
      first = share.end;
    }
  }

  bool run_piece(Share& share) {
    const int64_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
    if (piece >= share.end) return false;
    fn(context, piece * grain, std::min(n, (piece + 1) * grain));
    return true;
  }

  // Takes pieces until there are none. The first error cancels those that are left.
  void work(size_t own_share) noexcept {
    try {
      for (size_t i = 0; i < shares.size(); ++i) {
        while (run_piece(shares[(own_share + i) % shares.size()])) check_interrupt();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
      for (Share& share : shares) share.next.store(share.end, std::memory_order_relaxed);
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

class ThreadPool {
 public:
  explicit ThreadPool(int count) : count_(count), shares_(static_cast<size_t>(count)) {}

  int count() const { return count_.load(std::memory_order_relaxed); }

  void set_count(int count) {
    const std::lock_guard running(running_);
    stop_workers();
    count_ = count;
    shares_ = std::vector<Share>(static_cast<size_t>(count));
  }

  // False when the pool is busy with another caller's job.
  bool try_run(int64_t n, int64_t grain, RangeFn fn, void* context) {
    const std::unique_lock running(running_, std::try_to_lock);
    if (!running) return false;
    const int64_t pieces = (n + grain - 1) / grain;
    const auto threads = static_cast<size_t>(std::min<int64_t>(count(), pieces));
    start_workers(threads - 1);
    placement_.keep_off_this_cpu(workers_);
    wanted_ = static_cast<int>(threads) - 1;
    Job job{fn, context, n, grain, std::span(shares_).first(threads)};
    job.hand_out();
    job_ = &job;
    announce();
    job.work(0);
    // Nobody joins the job any more; wait for those inside.
    job_ = nullptr;
    wait_until(active_, [&] { return active_ == 0; });
    if (job.error != nullptr) std::rethrow_exception(job.error);
    return true;
  }

 private:
  void announce() {
    ++epoch_;
    epoch_.notify_all();
  }

  // Fewer workers than asked for when the system refuses a thread: the caller does their share.
  void start_workers(size_t needed) {
    if (workers_.size() >= needed) return;
    const BlockedSignals blocked;
    try {
      while (workers_.size() < needed) {
        workers_.emplace_back(
            [this, share = workers_.size() + 1, seen = epoch_.load()] { serve(share, seen); });
      }
    } catch (const std::system_error&) {
    }
  }

  void stop_workers() {
    stopping_ = true;
    announce();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    placement_ = {};
    stopping_ = false;
  }

  void serve(size_t own_share, uint32_t seen) {
    inside_parallel_for = is_worker = true;
    while (true) {
      wait_until(epoch_, [&] { return epoch_ != seen; });
      seen = epoch_;
      if (stopping_) return;
      join_job(own_share);
    }
  }

  // The mark in active_ comes before the look at job_, and in try_run the other way round: either
  // the worker sees that the job has ended, or the caller sees the worker.
  void join_job(size_t own_share) {
    ++active_;
    if (Job* const job = job_; job != nullptr && wanted_-- > 0) job->work(own_share);
    if (--active_ == 0) active_.notify_one();
  }

  std::atomic<int> count_;           // of threads, the caller included
  std::mutex running_;               // held by the caller whose job is in the pool
  std::atomic<uint32_t> epoch_{0};   // changes when there is something to look at
  std::atomic<uint32_t> active_{0};  // workers that may be looking at job_
  std::atomic<Job*> job_{nullptr};
  std::atomic<int> wanted_{0};  // workers that may still join job_
  std::vector<Share> shares_;   // one for each thread, the caller's first
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
  Placement placement_;
};

std::atomic<ThreadPool*> current_pool{nullptr};
std::once_flag pool_once;

// The child of a fork has none of the threads, and mutexes in any state: it gets a pool of its own,
// and the old one is left as it is.
void renew_pool_in_child() {
  const ThreadPool* const old = current_pool.load();
  if (old != nullptr) current_pool.store(new ThreadPool(old->count()));
}

// Never destroyed: sleeping workers must not see it go at exit.
ThreadPool& thread_pool() {
  ThreadPool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  std::call_once(pool_once, [] {
    pthread_atfork(nullptr, nullptr, renew_pool_in_child);
    current_pool.store(new ThreadPool(available_cpus()), std::memory_order_release);
  });
  return *current_pool.load(std::memory_order_acquire);
}

// Restores the mark also when a piece throws.
struct InsideParallelFor {
  InsideParallelFor() { inside_parallel_for = true; }
  ~InsideParallelFor() { inside_parallel_for = false; }
};

void run_alone(int64_t n, int64_t grain, RangeFn fn, void* context) {
  for (int64_t i = 0; i < n; i += grain) {
    fn(context, i, std::min(n, i + grain));
    check_interrupt();
  }
}

}  // namespace

int get_num_threads() { return thread_pool().count(); }

void set_num_threads(int count) {
  // A signal handler that runs between the pieces of a kernel would wait for itself.
  if (inside_parallel_for) throw std::logic_error("[set_num_threads] a kernel is running");
  thread_pool().set_count(std::max(1, count));
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
  if (inside_parallel_for) return run_alone(n, grain, fn, context);
  const InsideParallelFor mark;
  if (thread_pool().count() == 1 || !thread_pool().try_run(n, grain, fn, context)) {
    run_alone(n, grain, fn, context);
  }
}

}  // namespace needle
