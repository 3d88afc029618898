// DLPack both ways, without copies.
#include <memory>

#include "cuda/streams.h"
#include "dlpack.h"
#include "python/bindings.h"

namespace needle {
namespace {

constexpr dlpack::DataType kTypes[kNumDTypes] = {{dlpack::kFloat, 32, 1}, {dlpack::kFloat, 64, 1},
                                                 {dlpack::kFloat, 16, 1}, {dlpack::kBfloat, 16, 1},
                                                 {dlpack::kInt, 8, 1},    {dlpack::kInt, 16, 1},
                                                 {dlpack::kInt, 32, 1},   {dlpack::kInt, 64, 1},
                                                 {dlpack::kUInt, 8, 1},   {dlpack::kBool, 8, 1}};

// What differs between the two kinds of capsule.
struct Plain {
  using Managed = dlpack::ManagedTensor;
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
  static void set_flags(Managed&, bool) {}
  static bool is_readonly(const Managed&) { return false; }
};

struct Versioned {
  using Managed = dlpack::VersionedTensor;
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
  static void set_flags(Managed& managed, bool readonly) {
    managed.major = 1;
    managed.minor = 0;
    managed.flags = readonly ? dlpack::kReadOnlyFlag : 0;
  }
  static bool is_readonly(const Managed& managed) {
    return (managed.flags & dlpack::kReadOnlyFlag) != 0;
  }
};

int32_t device_type(Where where) { return where == Where::host ? dlpack::kCpu : dlpack::kCuda; }

// An exported array: what the consumer's tensor points to, and the buffer that it keeps alive.
template <class Kind>
struct Export {
  typename Kind::Managed managed{};
  Operand operand;

  // Consumers call this from any thread, with or without the GIL.
  static void destroy(typename Kind::Managed* managed) {
    if (!Py_IsInitialized()) return;
    const GilAcquire gil;
    delete static_cast<Export*>(managed->context);
  }

  static void destroy_unused(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, Kind::kName)) return;  // renamed by its consumer
    auto* const managed =
        static_cast<typename Kind::Managed*>(PyCapsule_GetPointer(capsule, Kind::kName));
    managed->deleter(managed);
  }
};

template <class Kind>
nb::object export_capsule(Operand&& operand) {
  auto owner = std::make_unique<Export<Kind>>();
  owner->operand = std::move(operand);
  Buffer& buffer = *buffer_in(owner->operand.handle);
  buffer.expose();
  View& view = owner->operand.view;
  auto& managed = owner->managed;
  managed.context = owner.get();
  managed.deleter = Export<Kind>::destroy;
  Kind::set_flags(managed, owner->operand.readonly);
  managed.tensor = {view.data,  {device_type(buffer.where()), 0},
                    view.ndim,  kTypes[static_cast<int>(view.dtype)],
                    view.shape, view.strides,
                    0};
  nb::object capsule = checked(PyCapsule_New(&managed, Kind::kName, Export<Kind>::destroy_unused));
  owner.release();
  return capsule;
}

// The operand's elements in a compact buffer of their own.
Operand copy_of(const Operand& source) {
  Operand copied = {source.view, new_buffer(source.view.size(), source.view.dtype), false};
  View& view = copied.view;
  view.data = buffer_of(copied.handle, {"to_dlpack"}).data();
  view.set_compact_strides();
  run_kernel(view.size(), [&] { kernels().copy(view, source.view); });
  return copied;
}

[[noreturn]] void raise_buffer_error(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

// The arguments are those of the array API's __dlpack__.
nb::object to_dlpack(nb::handle a, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                     nb::handle copy) {
  const nb::object handle = nb::getattr(a, "_handle", nb::none());
  const Buffer* const buffer = buffer_in(handle);
  const Where where = buffer == nullptr ? Where::host : buffer->where();
  Operand operand = read_operand(a, {"to_dlpack", "a"}, where);
  if (!dl_device.is_none() && !dl_device.equal(nb::make_tuple(device_type(where), 0))) {
    raise_buffer_error(where == Where::host
                           ? "[to_dlpack] the array is in CPU memory, DLPack device (1, 0)"
                           : "[to_dlpack] the array is on the GPU, DLPack device (2, 0)");
  }
  if (where == Where::device) {
    cuda::synchronize();  // the consumer's stream then has nothing to wait for
  } else if (!stream.is_none()) {
    raise_buffer_error("[to_dlpack] CPU memory has no stream; pass None");
  } else if (copy.ptr() == Py_True) {
    operand = copy_of(operand);
  }
  if (!max_version.is_none()) {
    const nb::object major = checked(PySequence_GetItem(max_version.ptr(), 0));
    if (read_int(major, {"to_dlpack"}, "max_version") >= 1) {
      return export_capsule<Versioned>(std::move(operand));
    }
  }
  if (operand.readonly) {
    raise_buffer_error("[to_dlpack] read-only memory needs a consumer of DLPack 1.0 or later");
  }
  return export_capsule<Plain>(std::move(operand));
}

DType find_dtype(dlpack::DataType type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (type.code == kTypes[i].code && type.bits == kTypes[i].bits && type.lanes == 1) {
      return static_cast<DType>(i);
    }
  }
  raise_type({"from_dlpack"},
             "no dtype for DLPack type code %d with %d bits and %d lanes; convert the array first",
             type.code, type.bits, type.lanes);
}

// The tensor as a view, and the number of elements that it reaches over.
View read_tensor(const dlpack::Tensor& tensor, int64_t* reach) {
  constexpr Site site{"from_dlpack"};
  if (tensor.device.type != dlpack::kCpu && tensor.device.type != dlpack::kCuda) {
    raise_value(site,
                "expected an array in CPU memory or on a CUDA device, got DLPack device type %d; "
                "copy it first",
                tensor.device.type);
  }
  if (tensor.ndim < 0 || tensor.ndim > kMaxDims) {
    raise_value(site, "expected at most %d axes, got %d", kMaxDims, tensor.ndim);
  }
  View view;
  view.dtype = find_dtype(tensor.dtype);
  view.ndim = tensor.ndim;
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  int64_t compact = 1, last = 0;
  bool is_empty = false;
  for (int d = view.ndim - 1; d >= 0; --d) {
    view.shape[d] = tensor.shape[d];
    view.strides[d] = tensor.strides != nullptr ? tensor.strides[d] : compact;
    is_empty |= view.shape[d] == 0;
    if (view.shape[d] > 1 && view.strides[d] < 0) {
      raise_value(site, "negative strides cannot be shared; pass a contiguous copy");
    }
    int64_t step = 0;
    if (view.shape[d] < 0 ||
        (view.shape[d] > 0 && (__builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &step) ||
                               __builtin_add_overflow(last, step, &last) ||
                               __builtin_mul_overflow(compact, view.shape[d], &compact)))) {
      raise_value(site, "the tensor's shape or strides are out of range");
    }
  }
  *reach = is_empty ? 0 : last + 1;
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(item_size(view.dtype)) != 0) {
    raise_value(site, "the memory is not aligned to its elements; pass a copy");
  }
  return view;
}

template <class Kind>
nb::object import_capsule(nb::handle capsule) {
  using Managed = typename Kind::Managed;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Kind::kName));
  if (managed == nullptr) throw nb::python_error();
  int64_t reach;
  const View view = read_tensor(managed->tensor, &reach);
  // From here on the buffer owns the tensor.
  const auto release = [](void* owner) {
    auto* const tensor = static_cast<Managed*>(owner);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  };
  const bool readonly = Kind::is_readonly(*managed);
  const bool is_on_host = managed->tensor.device.type == dlpack::kCpu;
  Buffer buffer(view.data, reach, view.dtype, readonly, managed, release,
                is_on_host ? Where::host : Where::device);
  if (PyCapsule_SetName(capsule.ptr(), Kind::kUsed) != 0) throw nb::python_error();
  return nb::make_tuple(adopt_buffer(std::move(buffer)), make_tuple(view.shape, view.ndim),
                        make_tuple(view.strides, view.ndim), dtype_name(view.dtype));
}

nb::object from_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), Versioned::kName)) {
    const auto* const managed = static_cast<const dlpack::VersionedTensor*>(
        PyCapsule_GetPointer(capsule.ptr(), Versioned::kName));
    if (managed->major != 1) {
      raise_value({"from_dlpack"}, "expected DLPack version 1, got %u", managed->major);
    }
    return import_capsule<Versioned>(capsule);
  }
  if (PyCapsule_IsValid(capsule.ptr(), Plain::kName)) return import_capsule<Plain>(capsule);
  raise_type({"from_dlpack"}, "expected an unused DLPack capsule, got %s",
             class_name(capsule).c_str());
}

}  // namespace

void bind_dlpack(nb::module_& m) {
  m.def("to_dlpack", to_dlpack, nb::arg("a"), nb::kw_only(), nb::arg("stream").none() = nb::none(),
        nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
        nb::arg("copy").none() = nb::none(), "A DLPack capsule that shares the operand's memory.");
  m.def("from_dlpack", from_dlpack, nb::arg("capsule"),
        "(handle, shape, strides, dtype name) of the memory in a DLPack capsule, not copied.");
}

}  // namespace needle
