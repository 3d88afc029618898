// Typed pieces of memory: 64-byte aligned and pooled, or owned by someone else (DLPack import).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/dtype.h"

namespace needle {

struct MemoryStats {
  int64_t live;    // bytes in buffers that exist
  int64_t peak;    // the most that `live` has been since reset_peak_memory
  int64_t pooled;  // bytes of freed blocks kept for reuse
};

MemoryStats memory_stats();
void reset_peak_memory();
void release_pooled_memory();  // gives pooled blocks back to the system

// No room for `bytes`; the bindings turn it into Python's MemoryError.
struct AllocationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Where : uint8_t { host, device };  // whose memory: a device's is only passed to it

class Buffer {
 public:
  Buffer(int64_t size, DType dtype);  // uninitialised; throws AllocationError

  // Memory of someone else: `release(owner)` is called once, when the buffer goes.
  Buffer(void* data, int64_t size, DType dtype, bool readonly, void* owner,
         void (*release)(void* owner), Where where = Where::host);

  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  char* data() const { return data_; }
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  int64_t nbytes() const { return size_ * item_size(dtype_); }
  bool readonly() const { return readonly_; }
  Where where() const { return where_; }
  bool is_foreign() const { return is_foreign_; }  // memory of someone else
  void make_own() { is_foreign_ = false; }         // of a pool of ours, which `release` knows

  // A number that no other buffer has, and another one after each write: what was made of the
  // elements at that number is still right. Memory that others can write has a new one each time.
  uint64_t version() const { return is_exposed_ || is_foreign() ? next_version() : version_; }
  void note_write() { version_ = next_version(); }
  void expose() { is_exposed_ = true; }

 private:
  static uint64_t next_version();

  char* data_ = nullptr;
  int64_t size_ = 0;
  DType dtype_ = DType::f32;
  uint16_t size_class_ = 0;  // of its block in the pool
  uint16_t era_ = 0;         // of the pool, when it gave the block
  bool readonly_ = false;
  bool is_exposed_ = false;  // somebody else knows the address
  bool is_foreign_ = false;
  Where where_ = Where::host;
  uint64_t version_ = next_version();
  void* owner_ = nullptr;
  void (*release_)(void*) = nullptr;  // nullptr: a block of the pool, or nothing
};

}  // namespace needle
