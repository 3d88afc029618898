// Modules, functions, launches.
#include <cstring>

#include "../parse/parser.h"
#include "state.h"

using namespace ptxsim;

namespace {

constexpr u32 kMostShared = 163 << 10;

void check_launch(const Kernel& kernel, const Dims& grid, const Dims& block, u32 dynamic_shared) {
  const auto refuse_because = [&](Result result, const std::string& text) {
    throw Failure{result, "[" + kernel.name + "] " + text};
  };
  const u64 threads = block.count();
  if (grid.count() == 0 || threads == 0)
    refuse_because(kInvalidValue, "expected a grid and a block of at least one thread, got none");
  if (threads > 1024 || block.z > 64)
    refuse_because(kInvalidValue, "expected at most 1024 threads of a block (64 along z), got " +
                                      std::to_string(block.x) + " x " + std::to_string(block.y) +
                                      " x " + std::to_string(block.z));
  if (threads > kernel.max_threads)
    refuse_because(kInvalidValue, "expected at most " + std::to_string(kernel.max_threads) +
                                      " threads, as __launch_bounds__ says, got " +
                                      std::to_string(threads));
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    refuse_because(kInvalidValue, "expected at most 2147483647 x 65535 x 65535 blocks, got " +
                                      std::to_string(grid.x) + " x " + std::to_string(grid.y) +
                                      " x " + std::to_string(grid.z));
  const u64 shared = u64{kernel.static_shared} + dynamic_shared;
  if (dynamic_shared > kernel.max_dynamic_shared ||
      shared > std::max(kernel.max_dynamic_shared, 48u << 10))
    refuse_because(kInvalidValue, "expected at most " + std::to_string(kernel.max_dynamic_shared) +
                                      " bytes of shared memory, got " + std::to_string(shared) +
                                      "; more is allowed by cuFuncSetAttribute");
  if (u64{kernel.registers} * ((threads + 31) / 32 * 32) > 65536)
    refuse_because(kOutOfResources, "expected at most 65536 registers of a block, got about " +
                                        std::to_string(kernel.registers) + " for each of " +
                                        std::to_string(threads) + " threads");
}

void copy_params(const Kernel& kernel, void** params, void** extra, std::vector<char>& to) {
  to.assign(kernel.param_bytes, 0);
  if (params != nullptr) {
    for (size_t k = 0; k < kernel.params.size(); ++k)
      std::memcpy(to.data() + kernel.params[k].offset, params[k], kernel.params[k].bytes);
    return;
  }
  // A list of keys and values: 1 the buffer, 2 its size.
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (size_t k = 0; extra != nullptr && extra[k] != nullptr; k += 2) {
    if (reinterpret_cast<u64>(extra[k]) == 1) buffer = extra[k + 1];
    if (reinterpret_cast<u64>(extra[k]) == 2) bytes = *static_cast<const size_t*>(extra[k + 1]);
  }
  if (bytes != kernel.param_bytes &&
      !(bytes > kernel.param_bytes && bytes < kernel.param_bytes + u64{16}))
    throw Failure{kInvalidValue, "[" + kernel.name + "] expected " +
                                     std::to_string(kernel.param_bytes) +
                                     " bytes of parameters, got " + std::to_string(bytes)};
  if (buffer != nullptr) std::memcpy(to.data(), buffer, kernel.param_bytes);
}

void run(Launch launch) {
  State& s = state();
  launch.checks = s.checks;
  launch.seed = s.seed;
  launch.max_instructions = s.max_instructions;
  Outcome outcome = run_launch(launch, s.threads);
  ptxsim_launch& entry = outcome.counters;
  entry.kernel = s.kernel_names.insert(launch.kernel->name).first->c_str();
  const Dims dims[] = {launch.grid, launch.block};
  std::memcpy(entry.grid, &dims[0], sizeof entry.grid);
  std::memcpy(entry.block, &dims[1], sizeof entry.block);
  entry.static_shared = launch.kernel->static_shared;
  entry.dynamic_shared = launch.dynamic_shared;
  if (s.launches.size() == 65536) s.launches.erase(s.launches.begin(), s.launches.begin() + 32768);
  s.launches.push_back(entry);
  s.output += outcome.output;
  if (launch.checks & PTXSIM_TRACE) s.trace = std::move(outcome.trace);
  if (outcome.result != kSuccess) throw Failure{outcome.result, outcome.report};
}

int function_attribute(const Kernel& kernel, int number) {
  switch (number) {
    case 0: return static_cast<int>(kernel.max_threads);
    case 1: return static_cast<int>(kernel.static_shared);
    case 3: return static_cast<int>(kernel.local_bytes);
    case 4: return static_cast<int>(kernel.registers);
    case 5:
    case 6: return 80;
    case 8: return static_cast<int>(kernel.max_dynamic_shared);
    default: return 0;
  }
}

}  // namespace

PTXSIM_API Result cuModuleLoadData(void** module, const void* image) {
  return guarded([&] {
    const char* text = static_cast<const char*>(image);
    if (std::strstr(text, ".version") == nullptr)
      return refuse(
          kInvalidPtx,
          "[cuModuleLoadData] expected PTX, got something else; the simulator runs no cubin");
    *module = parse_module(text).release();
    return kSuccess;
  });
}

PTXSIM_API Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

PTXSIM_API Result cuModuleUnload(void* module) {
  return guarded([&] {
    run_everything();
    delete static_cast<Module*>(module);
    return kSuccess;
  });
}

PTXSIM_API Result cuModuleGetFunction(void** function, void* module, const char* name) {
  return guarded([&] {
    const auto& kernels = static_cast<Module*>(module)->kernels;
    const auto found = kernels.find(std::string_view(name));
    if (found == kernels.end())
      return refuse(kNotFound, "[cuModuleGetFunction] expected a kernel of the module, got " +
                                   std::string(name));
    *function = found->second.get();
    return kSuccess;
  });
}

PTXSIM_API Result cuModuleGetGlobal_v2(DevicePointer* address, size_t* bytes, void* module,
                                       const char* name) {
  return guarded([&] {
    const auto& variables = static_cast<Module*>(module)->variables;
    const auto found = variables.find(std::string_view(name));
    if (found == variables.end())
      return refuse(kNotFound, "[cuModuleGetGlobal] expected a variable of the module, got " +
                                   std::string(name));
    if (address != nullptr) *address = found->second.address;
    if (bytes != nullptr) *bytes = found->second.bytes;
    return kSuccess;
  });
}

PTXSIM_API Result cuFuncGetAttribute(int* value, int number, void* function) {
  *value = function_attribute(*static_cast<Kernel*>(function), number);
  return kSuccess;
}

PTXSIM_API Result cuFuncSetAttribute(void* function, int number, int value) {
  return guarded([&] {
    if (number != 8) return kSuccess;  // the others are hints
    Kernel& kernel = *static_cast<Kernel*>(function);
    if (value < 0 || static_cast<u32>(value) + kernel.static_shared > kMostShared)
      return refuse(kInvalidValue, "[cuFuncSetAttribute] expected at most " +
                                       std::to_string(kMostShared) +
                                       " bytes of shared memory, got " + std::to_string(value));
    kernel.max_dynamic_shared = static_cast<u32>(value);
    return kSuccess;
  });
}

PTXSIM_API Result cuFuncSetCacheConfig(void*, int) { return kSuccess; }

PTXSIM_API Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned dynamic_shared, void* handle,
                                 void** params, void** extra) {
  return guarded_work([&] {
    const Kernel& kernel = *static_cast<Kernel*>(function);
    Launch launch;
    launch.kernel = &kernel;
    launch.grid = {gx, gy, gz};
    launch.block = {bx, by, bz};
    launch.dynamic_shared = dynamic_shared;
    check_launch(kernel, launch.grid, launch.block, dynamic_shared);
    copy_params(kernel, params, extra, launch.params);
    enqueue(stream_of(handle), [launch = std::move(launch)] { run(launch); });
    return kSuccess;
  });
}

// Blocks that fit on a multiprocessor at the same time.
PTXSIM_API Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function,
                                                              int threads, size_t dynamic_shared) {
  const Kernel& kernel = *static_cast<Kernel*>(function);
  const u64 warps = (static_cast<u64>(threads) + 31) / 32;
  const u64 registers = (u64{kernel.registers} * 32 + 255) / 256 * 256 * warps;
  const u64 shared = kernel.static_shared + dynamic_shared + 1024;  // the system's share
  u64 most = std::min<u64>(32, 64 / std::max<u64>(warps, 1));
  most = std::min(most, 65536 / std::max<u64>(registers, 1));
  most = std::min(most, (u64{164} << 10) / shared);
  *blocks = static_cast<int>(most);
  return kSuccess;
}
