// Kernels: functions of PTX that was given to the driver, and calls of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver.h"

namespace needle::cuda {

struct Grid {
  unsigned blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
  unsigned shared_bytes = 0;  // beside what the kernel declares
};

// A function of a module. Modules stay loaded as long as the process.
class Kernel {
 public:
  Kernel(const char* ptx, const char* function);

  // The parameters are one struct of these bytes. The call is only handed over; errors of the
  // kernel itself show when somebody waits for it.
  void launch(const Grid& grid, const std::vector<char>& parameters) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  Function* function_ = nullptr;
  mutable unsigned allowed_shared_ = 48 * 1024;
};

// While it lives, this thread waits for each kernel that it launches.
class Waiting {
 public:
  explicit Waiting(bool on);
  ~Waiting();

 private:
  bool before_;
};

// The bytes of a kernel's struct of parameters, member by member.
class Parameters {
 public:
  template <class T>
  void add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* const first = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof(T));
  }
  // Bytes of a struct that begins at a multiple of 8.
  void add_struct(std::span<const char> bytes) {
    pad();
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<char>& bytes() {
    pad();
    return bytes_;
  }

 private:
  void pad() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }

  std::vector<char> bytes_;
};

}  // namespace needle::cuda
