#include "graph.h"

#include <algorithm>
#include <atomic>

#include "streams.h"

namespace needle::cuda {
namespace {

std::atomic<bool> is_capturing = true;

bool has_graphs() { return is_capturing && driver().make_executable != nullptr; }

GraphExec* captured(const std::function<void()>& launch) {
  const Driver& cuda = driver();
  constexpr int kThisThread = 1;  // what other threads do is no part of it
  Graph* graph = nullptr;
  GraphExec* executable = nullptr;
  check(cuda.begin_capture(stream(), kThisThread), "cuStreamBeginCapture");
  try {
    launch();
  } catch (...) {
    cuda.end_capture(stream(), &graph);
    if (graph != nullptr) cuda.destroy_graph(graph);
    throw;
  }
  check(cuda.end_capture(stream(), &graph), "cuStreamEndCapture");
  const Result result = cuda.make_executable(&executable, graph, 0);
  cuda.destroy_graph(graph);
  check(result, "cuGraphInstantiate");
  return executable;
}

}  // namespace

void set_capturing(bool on) { is_capturing = on; }

void Graphs::destroy(const Made& made) {
  if (made.graph != nullptr) driver().destroy_executable(made.graph);
}

Graphs::~Graphs() {
  for (const Made& made : made_) destroy(made);
}

void Graphs::run(const Key& key, const std::function<void()>& launch) {
  if (!has_graphs()) return launch();
  const auto found =
      std::find_if(made_.begin(), made_.end(), [&](const Made& made) { return made.key == key; });
  if (found == made_.end()) {
    if (made_.size() == kMost) {
      destroy(made_.back());
      made_.pop_back();
    }
    made_.push_front({key, nullptr});
    return launch();
  }
  std::rotate(made_.begin(), found, found + 1);
  if (made_.front().graph == nullptr) made_.front().graph = captured(launch);
  check(driver().launch_graph(made_.front().graph, stream()), "cuGraphLaunch");
}

}  // namespace needle::cuda
