// The DLPack C structures (github.com/dmlc/dlpack, version 1.0), as far as needle uses them.
#pragma once

#include <cstdint>

namespace needle::dlpack {

constexpr int32_t kCpu = 1, kCuda = 2;
constexpr uint64_t kReadOnlyFlag = 1;

enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; nullptr: compact
  uint64_t byte_offset;
};

struct ManagedTensor {  // in capsules named "dltensor"
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

struct VersionedTensor {  // in capsules named "dltensor_versioned"
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor* self);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace needle::dlpack
