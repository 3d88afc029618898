#include "launch.h"

#include "streams.h"

namespace needle::cuda {
namespace {

thread_local bool is_waiting = false;

}  // namespace

Waiting::Waiting(bool on) : before_(is_waiting) { is_waiting = on; }
Waiting::~Waiting() { is_waiting = before_; }

Kernel::Kernel(const char* ptx, const char* function) : name_(function) {
  const Driver& cuda = driver();
  Module* module = nullptr;
  check(cuda.load_module(&module, ptx, 0, nullptr, nullptr), "cuModuleLoadDataEx");
  check(cuda.get_function(&function_, module, function), "cuModuleGetFunction");
}

void Kernel::launch(const Grid& grid, const std::vector<char>& parameters) const {
  const Driver& cuda = driver();
  if (grid.shared_bytes > allowed_shared_) {
    constexpr int kMostSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(cuda.set_function_attribute(function_, kMostSharedBytes,
                                      static_cast<int>(grid.shared_bytes)),
          "cuFuncSetAttribute");
    allowed_shared_ = grid.shared_bytes;
  }
  void* pointers[] = {const_cast<char*>(parameters.data())};  // the driver copies what it needs
  const auto &b = grid.blocks, &t = grid.threads;
  check(cuda.launch(function_, b[0], b[1], b[2], t[0], t[1], t[2], grid.shared_bytes, stream(),
                    pointers, nullptr),
        name_.c_str());
  if (is_waiting) check(cuda.synchronize_stream(stream()), name_.c_str());
}

}  // namespace needle::cuda
