#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <mutex>

namespace needle::cuda {
namespace {

// Attributes of devices, as cuda.h numbers them.
enum Attribute {
  kSharedMemoryPerBlock = 8,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kClockRate = 13,
  kMultiprocessors = 16,
  kMajor = 75,
  kMinor = 76,
  kMostSharedMemoryPerBlock = 97,
};

std::string library_path = "libcuda.so.1";
bool simulated = false;

bool is_used = false, is_forked = false;  // a context was made, and this is a child of that process

// The library and its functions, looked up once.
struct Library {
  Driver entries = {};
  std::string problem;  // why it cannot be used
  int device = 0;

  Library() { problem = open(); }

  std::string open() {
    void* const handle = dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return dlerror();
    std::string missing;
    const auto find = [&](const char* symbol) {
      void* const entry = dlsym(handle, symbol);
      if (entry == nullptr) missing += std::string(" ") + symbol;
      return entry;
    };
    entries.init = reinterpret_cast<decltype(entries.init)>(find("cuInit"));
#define ENTRY(name, symbol, ...) \
  entries.name = reinterpret_cast<decltype(entries.name)>(find(#symbol));
#define OPTIONAL_ENTRY(name, symbol, ...) \
  entries.name = reinterpret_cast<decltype(entries.name)>(dlsym(handle, #symbol));
#include "driver.def"
    if (!missing.empty()) return library_path + " is too old: it lacks" + missing;
    return start();
  }

  std::string start() {
    int count = 0;
    if (const Result r = entries.init(0); r != 0) return text_of(r);
    if (const Result r = entries.get_device_count(&count); r != 0) return text_of(r);
    if (count == 0) return "the driver finds no device";
    if (const Result r = entries.get_device(&device, 0); r != 0) return text_of(r);
    return "";
  }

  std::string text_of(Result result) const {
    const char *name = nullptr, *text = nullptr;
    entries.get_error_name(result, &name);
    entries.get_error_string(result, &text);
    const std::string number = "error " + std::to_string(result);
    return (name != nullptr ? name : number) + ": " + (text != nullptr ? text : "no text");
  }
};

const Library& library() {
  static const Library* const instance = new Library;  // never freed: outlives everything
  return *instance;
}

Context* primary_context(const Library& lib) {
  static Context* const context = [&] {
    Context* made = nullptr;
    check(lib.entries.retain_primary_context(&made, lib.device), "cuDevicePrimaryCtxRetain");
    is_used = true;
    pthread_atfork(nullptr, nullptr, [] { is_forked = is_used; });
    return made;
  }();
  return context;
}

int attribute(int number) {
  int value = 0;
  const Library& lib = library();
  check(lib.entries.get_device_attribute(&value, number, lib.device), "cuDeviceGetAttribute");
  return value;
}

Properties read_properties() {
  const Library& lib = library();
  char name[256] = "";
  Properties p = {};
  check(lib.entries.get_device_name(name, sizeof name, lib.device), "cuDeviceGetName");
  check(lib.entries.get_total_memory(&p.total_memory, lib.device), "cuDeviceTotalMem");
  check(lib.entries.get_driver_version(&p.driver_version), "cuDriverGetVersion");
  p.name = simulated ? std::string(name) + " (simulated: no GPU)" : name;
  p.major = attribute(kMajor);
  p.minor = attribute(kMinor);
  p.multiprocessors = attribute(kMultiprocessors);
  p.shared_memory_per_block = attribute(kSharedMemoryPerBlock);
  p.most_shared_memory_per_block = attribute(kMostSharedMemoryPerBlock);
  p.registers_per_block = attribute(kRegistersPerBlock);
  p.warp_size = attribute(kWarpSize);
  p.clock_khz = attribute(kClockRate);
  return p;
}

}  // namespace

void set_library(const std::string& path, bool is_simulator) {
  library_path = path;
  simulated = is_simulator;
}

bool is_available() { return library().problem.empty(); }
const std::string& why_unavailable() { return library().problem; }
bool is_simulated() { return simulated; }

const Driver& driver() {
  const Library& lib = library();
  if (!lib.problem.empty()) throw Error("[cuda] there is no device: " + lib.problem);
  if (is_forked) {
    throw Error(
        "[cuda] this process was forked from one that had used cuda(), which no driver supports; "
        "start it by multiprocessing's \"spawn\", or use cuda() in the child only.");
  }
  static thread_local bool is_current = false;
  if (!is_current) {
    check(lib.entries.set_context(primary_context(lib)), "cuCtxSetCurrent");
    is_current = true;
  }
  return lib.entries;
}

void check(Result result, const char* what) {
  if (result != 0) {
    throw Error(std::string("[cuda] ") + what + ": " + library().text_of(result), result);
  }
}

const Properties& properties() {
  driver();
  static const Properties* const instance = new Properties(read_properties());
  return *instance;
}

}  // namespace needle::cuda
