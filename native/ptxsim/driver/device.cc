// The device: one, of compute capability 8.0, with the limits of that.
#include <cstdio>
#include <cstring>

#include "state.h"

using namespace ptxsim;

namespace {

constexpr const char* kName = "needle PTX simulator";

// By the numbers of CUdevice_attribute.
int attribute(int number) {
  switch (number) {
    case 1:
    case 2:
    case 3: return 1024;        // threads of a block; x, y
    case 4: return 64;          // z
    case 5: return 2147483647;  // blocks: x
    case 6:
    case 7: return 65535;     // y, z
    case 8: return 48 << 10;  // shared memory of a block
    case 9: return 64 << 10;  // constant memory
    case 10: return 32;       // lanes
    case 12: return 65536;    // registers of a block
    case 13: return 1000000;  // kHz
    case 15:
    case 31:
    case 40:
    case 41: return 1;  // overlap, concurrent kernels, engines, unified
    case 16: return 4;  // multiprocessors
    case 36: return 1000000;
    case 37: return 256;
    case 38: return 4 << 20;  // L2
    case 39: return 2048;     // threads of a multiprocessor
    case 75: return 8;
    case 76: return 0;
    case 81: return 164 << 10;  // shared memory of a multiprocessor
    case 82: return 65536;
    case 97: return 163 << 10;  // shared memory of a block, if it asks
    case 106: return 32;        // blocks of a multiprocessor
    case 115: return 1;         // memory pools
    default: return 0;
  }
}

struct ResultName {
  int result;
  const char *name, *text;
};

const ResultName kResults[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kAssert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}};

const ResultName* find(int result) {
  for (const ResultName& entry : kResults)
    if (entry.result == result) return &entry;
  return nullptr;
}

int context;  // its address is the one context

}  // namespace

PTXSIM_API Result cuInit(unsigned) { return kSuccess; }

PTXSIM_API Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

PTXSIM_API Result cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}

PTXSIM_API Result cuDeviceGet(int* device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? kSuccess : kInvalidDevice;
}

PTXSIM_API Result cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "%s", kName);
  return kSuccess;
}

PTXSIM_API Result cuDeviceGetUuid_v2(char* uuid, int) {
  std::memcpy(uuid, "needle-simulator", 16);
  return kSuccess;
}

PTXSIM_API Result cuDeviceComputeCapability(int* major, int* minor, int) {
  *major = attribute(75);
  *minor = attribute(76);
  return kSuccess;
}

PTXSIM_API Result cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = DeviceMemory::kCapacity;
  return kSuccess;
}

PTXSIM_API Result cuDeviceGetAttribute(int* value, int number, int) {
  *value = attribute(number);
  return kSuccess;
}

PTXSIM_API Result cuDevicePrimaryCtxRetain(void** made, int) {
  *made = &context;
  return kSuccess;
}

PTXSIM_API Result cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
PTXSIM_API Result cuDevicePrimaryCtxReset_v2(int) { return kSuccess; }
PTXSIM_API Result cuCtxSetCurrent(void*) { return kSuccess; }
PTXSIM_API Result cuCtxPushCurrent_v2(void*) { return kSuccess; }

PTXSIM_API Result cuCtxGetCurrent(void** current) {
  *current = &context;
  return kSuccess;
}

PTXSIM_API Result cuCtxPopCurrent_v2(void** popped) {
  if (popped != nullptr) *popped = &context;
  return kSuccess;
}

PTXSIM_API Result cuCtxGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}

PTXSIM_API Result cuCtxSynchronize() {
  return guarded([] {
    refuse_in_capture(nullptr);
    run_everything();
    return state().sticky;
  });
}

PTXSIM_API Result cuGetErrorName(int result, const char** name) {
  const ResultName* entry = find(result);
  *name = entry == nullptr ? nullptr : entry->name;
  return entry == nullptr ? kInvalidValue : kSuccess;
}

// The driver's words, and the report where there is one.
PTXSIM_API Result cuGetErrorString(int result, const char** text) {
  const ResultName* entry = find(result);
  *text = entry == nullptr ? nullptr : entry->text;
  static thread_local std::string full;
  if (entry != nullptr && result != kSuccess && !state().report.empty()) {
    full = std::string(entry->text) + "\n" + state().report;
    *text = full.c_str();
  }
  return entry == nullptr ? kInvalidValue : kSuccess;
}
