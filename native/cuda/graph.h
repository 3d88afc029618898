// Work that was handed over once, as a graph that the driver launches at once.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "driver.h"

namespace needle::cuda {

// The graphs of one list of launches, for the last few sets of addresses that it ran on.
class Graphs {
 public:
  using Key = std::vector<const void*>;

  Graphs() = default;
  Graphs(Graphs&& other) noexcept { made_.swap(other.made_); }
  ~Graphs();

  // Hands over the work of `launch`, which depends on the key alone. The first time it is called;
  // the second time what it does is captured, if the driver can.
  void run(const Key& key, const std::function<void()>& launch);

 private:
  struct Made {
    Key key;
    GraphExec* graph;  // null until the second time
  };
  static constexpr size_t kMost = 4;

  static void destroy(const Made& made);

  std::deque<Made> made_;  // the last one that was used comes first
};

// From now on no graphs are made: for tests, and for work that waits for itself.
void set_capturing(bool on);

}  // namespace needle::cuda
