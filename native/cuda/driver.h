// The CUDA driver API, found by dlopen when it is first asked for: nothing is linked against CUDA,
// and where there is no driver nothing happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace needle::cuda {

using Result = int;  // 0: all is well
using Address = unsigned long long;
struct Context;
struct Stream;
struct Event;
struct Module;
struct Function;
struct Graph;
struct GraphExec;

constexpr Result kOutOfMemory = 2, kNotReady = 600;

// The driver refused a call, or there is none.
struct Error : std::runtime_error {
  explicit Error(const std::string& text, Result code = 0) : std::runtime_error(text), code(code) {}
  Result code;
};

struct Driver {
  Result (*init)(unsigned flags);
#define ENTRY(name, symbol, ...) Result (*name)(__VA_ARGS__);
#define OPTIONAL_ENTRY ENTRY
#include "driver.def"
};

// Which library is the driver: "libcuda.so.1" if nothing is said. Before the first use only.
void set_library(const std::string& path, bool is_simulated);

// Is there a driver with a device? Says why not otherwise. Makes no context.
bool is_available();
const std::string& why_unavailable();
bool is_simulated();

// The driver, with the primary context of the device current on this thread; throws Error.
const Driver& driver();

// Throws Error with the driver's own text, unless result is 0.
void check(Result result, const char* what);

// What the device is.
struct Properties {
  std::string name;  // which says so if it is simulated
  int major, minor;  // compute capability
  int multiprocessors;
  size_t total_memory;
  int shared_memory_per_block, most_shared_memory_per_block;
  int registers_per_block, warp_size, clock_khz;
  int driver_version;  // 12040 is 12.4
};
const Properties& properties();

}  // namespace needle::cuda
