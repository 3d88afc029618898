// Memory of the device, pinned memory of the host, copies between them.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "state.h"

using namespace ptxsim;

namespace {

Allocation* device_range(DevicePointer address, size_t bytes, const char* what) {
  Allocation* found = device_memory().find(address, bytes);
  if (found == nullptr)
    throw Failure{kInvalidValue, std::string("[") + what + "] expected " + std::to_string(bytes) +
                                     " bytes inside an allocation, got " + hex(address) + ": " +
                                     device_memory().explain(address)};
  return found;
}

void write_device(DevicePointer to, const void* from, size_t bytes, const char* what) {
  if (bytes == 0) return;
  device_range(to, bytes, what)->mark(to, bytes, true);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
}

void read_device(void* to, DevicePointer from, size_t bytes) {
  if (bytes == 0) return;
  device_range(from, bytes, "cuMemcpyDtoH");
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
}

// Bytes that nobody wrote stay so in the copy.
void copy_device(DevicePointer to, DevicePointer from, size_t bytes) {
  if (bytes == 0) return;
  const Allocation* source = device_range(from, bytes, "cuMemcpyDtoD");
  Allocation* target = device_range(to, bytes, "cuMemcpyDtoD");
  if (source->is_written(from, bytes)) {
    target->mark(to, bytes, true);
  } else {
    for (size_t k = 0; k < bytes; ++k) target->mark(to + k, 1, source->is_written(from + k, 1));
  }
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
}

template <class T>
void fill_device(DevicePointer to, T value, size_t count) {
  if (count == 0) return;
  device_range(to, count * sizeof(T), "cuMemset")->mark(to, count * sizeof(T), true);
  T* first = reinterpret_cast<T*>(to);
  for (size_t k = 0; k < count; ++k) first[k] = value;
}

// Puts work into a stream; a wait makes it and all before it happen.
Result work(void* handle, std::function<void()> run, bool wait) {
  return guarded_work([&]() -> Result {
    Stream* stream = stream_of(handle);
    if (wait) refuse_in_capture(stream);
    enqueue(stream, std::move(run));
    if (wait) run_all_of(stream);
    return wait ? state().sticky : kSuccess;
  });
}

// Only pinned memory is read later; other memory is copied before the call returns.
std::function<void()> upload(DevicePointer to, const void* from, size_t bytes) {
  if (state().is_pinned(from)) return [=] { write_device(to, from, bytes, "cuMemcpyHtoDAsync"); };
  const char* first = static_cast<const char*>(from);
  const auto copy = std::make_shared<std::vector<char>>(first, first + bytes);
  return [=] { write_device(to, copy->data(), bytes, "cuMemcpyHtoDAsync"); };
}

template <class T>
Result fill(DevicePointer to, T value, size_t count, void* stream) {
  return work(stream, [=] { fill_device(to, value, count); }, false);
}

Result allocate(DevicePointer* pointer, size_t bytes) {
  if (bytes == 0) return refuse(kInvalidValue, "[cuMemAlloc] expected a size above zero, got 0");
  *pointer = device_memory().allocate(bytes);
  return *pointer == 0 ? kOutOfMemory : kSuccess;
}

Result release(DevicePointer pointer) {
  if (pointer == 0 || device_memory().free(pointer)) return kSuccess;
  return refuse(kInvalidValue, "[cuMemFree] expected the beginning of an allocation, got " +
                                   hex(pointer) + ": " + device_memory().explain(pointer));
}

Result allocate_host(void** pointer, size_t bytes) {
  return guarded([&] {
    *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*pointer == nullptr) return kOutOfMemory;
    state().pinned[reinterpret_cast<u64>(*pointer)] = bytes;
    return kSuccess;
  });
}

}  // namespace

PTXSIM_API Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  return guarded([&] {
    *total = DeviceMemory::kCapacity;
    *free = DeviceMemory::kCapacity - device_memory().used();
    return kSuccess;
  });
}

PTXSIM_API Result cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  return guarded_work([&] { return allocate(pointer, bytes); });
}

PTXSIM_API Result cuMemAllocAsync(DevicePointer* pointer, size_t bytes, void*) {
  return guarded_work([&] { return allocate(pointer, bytes); });
}

// Waits for all work, as the driver's does.
PTXSIM_API Result cuMemFree_v2(DevicePointer pointer) {
  return guarded([&] {
    run_everything();
    return release(pointer);
  });
}

PTXSIM_API Result cuMemFreeAsync(DevicePointer pointer, void* stream) {
  return work(stream, [=] { release(pointer); }, false);
}

PTXSIM_API Result cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return allocate_host(pointer, bytes);
}
PTXSIM_API Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  return allocate_host(pointer, bytes);
}

PTXSIM_API Result cuMemFreeHost(void* pointer) {
  return guarded([&] {
    run_everything();
    if (state().pinned.erase(reinterpret_cast<u64>(pointer)) == 0)
      return refuse(kInvalidValue,
                    "[cuMemFreeHost] expected memory of cuMemAllocHost, got another address");
    std::free(pointer);
    return kSuccess;
  });
}

PTXSIM_API Result cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
  return guarded([&] {
    state().pinned[reinterpret_cast<u64>(pointer)] = bytes;
    return kSuccess;
  });
}

PTXSIM_API Result cuMemHostUnregister(void* pointer) {
  return guarded([&] {
    run_everything();
    state().pinned.erase(reinterpret_cast<u64>(pointer));
    return kSuccess;
  });
}

PTXSIM_API Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  return work(nullptr, [=] { write_device(to, from, bytes, "cuMemcpyHtoD"); }, true);
}

PTXSIM_API Result cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  return work(nullptr, [=] { read_device(to, from, bytes); }, true);
}

PTXSIM_API Result cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
  return work(nullptr, [=] { copy_device(to, from, bytes); }, false);
}

PTXSIM_API Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes,
                                       void* stream) {
  return work(stream, upload(to, from, bytes), false);
}

// Into memory that is not pinned the copy waits.
PTXSIM_API Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, void* stream) {
  return work(stream, [=] { read_device(to, from, bytes); }, !state().is_pinned(to));
}

PTXSIM_API Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                                       void* stream) {
  return work(stream, [=] { copy_device(to, from, bytes); }, false);
}

PTXSIM_API Result cuMemsetD8_v2(DevicePointer to, u8 value, size_t count) {
  return fill(to, value, count, nullptr);
}
PTXSIM_API Result cuMemsetD16_v2(DevicePointer to, u16 value, size_t count) {
  return fill(to, value, count, nullptr);
}
PTXSIM_API Result cuMemsetD32_v2(DevicePointer to, u32 value, size_t count) {
  return fill(to, value, count, nullptr);
}

PTXSIM_API Result cuMemsetD8Async(DevicePointer to, u8 value, size_t count, void* stream) {
  return fill(to, value, count, stream);
}
PTXSIM_API Result cuMemsetD16Async(DevicePointer to, u16 value, size_t count, void* stream) {
  return fill(to, value, count, stream);
}
PTXSIM_API Result cuMemsetD32Async(DevicePointer to, u32 value, size_t count, void* stream) {
  return fill(to, value, count, stream);
}

PTXSIM_API Result cuPointerGetAttribute(void* data, int attribute, DevicePointer pointer) {
  return guarded([&] {
    if (attribute != 2 || device_memory().find(pointer) == nullptr) return kInvalidValue;
    *static_cast<unsigned*>(data) = 2;  // memory of the device
    return kSuccess;
  });
}
