// Memory that a kernel needs while it runs, and that its thread keeps for the next one.
#pragma once

#include <cstdint>
#include <new>

namespace needle::NEEDLE_ISA {
namespace {

struct Memory {
  void* data = nullptr;
  int64_t bytes = 0;
  ~Memory() { ::operator delete(data, std::align_val_t{64}); }

  void swap(Memory& other) {
    void* const other_data = other.data;
    const int64_t other_bytes = other.bytes;
    other.data = data;
    other.bytes = bytes;
    data = other_data;
    bytes = other_bytes;
  }
};

// What a thread keeps, as fresh pages would cost more than packing: for the caller of a kernel, and
// for its tasks, which may run on the same thread.
thread_local Memory kept_memory, kept_by_task;

// 64-byte-aligned memory: what the thread keeps, taken for as long as this lives. A signal handler
// that computes between the pieces of another kernel finds none, and gets its own.
class Workspace {
 public:
  explicit Workspace(int64_t bytes, Memory& kept = kept_memory) : kept_(kept) {
    memory_.swap(kept_);
    if (memory_.bytes >= bytes) return;
    Memory().swap(memory_);
    memory_.data = ::operator new(bytes, std::align_val_t{64});
    memory_.bytes = bytes;
  }
  ~Workspace() {
    constexpr int64_t kMostKept = 1 << 26;
    if (memory_.bytes <= kMostKept) memory_.swap(kept_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_.data);
  }

 private:
  Memory& kept_;
  Memory memory_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
