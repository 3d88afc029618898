// Streams, events, and work that is put off as long as a driver may put it off.
//
// Nothing runs until somebody waits for it, and then only what that wait needs. So a forgotten
// wait shows: the host or another stream finds old data.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "../failure.h"

namespace ptxsim {

struct Stream;

// A place in a stream: all work with a number up to this.
struct Point {
  Stream* stream = nullptr;
  u64 number = 0;
};

struct Work {
  std::function<void()> run;
  std::vector<Point> after;
  u64 number = 0;
};

// A node of a graph: work, and which nodes must come first.
struct Node {
  std::function<void()> run;
  std::vector<u32> after;
};

struct Graph {
  std::vector<Node> nodes;
};

struct Capture {
  Stream* origin = nullptr;
  Graph graph;
  std::vector<Stream*> streams;  // that take part
  bool invalid = false;
};

struct Stream {
  u64 next_number = 1, done = 0;
  bool blocking = true;  // with the default stream, in both directions
  std::deque<Work> work;
  std::shared_ptr<Capture> capture;
  std::vector<u32> last_nodes;  // of the capture: what the next node comes after
};

struct Event {
  Point point;      // where it was recorded; stream null: never
  double time = 0;  // in milliseconds, when it was passed
  std::shared_ptr<Capture> capture;
  std::vector<u32> nodes;
};

Stream* default_stream();
Stream* stream_of(void* handle);  // 0, 1 and 2 are the default stream; throws for others unknown
Stream* create_stream(bool blocking);
void destroy_stream(Stream* stream);

// Adds work to a stream, or to the graph that it captures.
void enqueue(Stream* stream, std::function<void()> run);
void record(Event* event, Stream* stream);
void wait_for(Stream* stream, Event* event);

bool is_done(const Point& point);
void run_up_to(const Point& point);
void run_all_of(Stream* stream);
void run_everything();
void run_one(Stream* stream);  // progress, for those who ask again and again
void forget_pending_work();

// Throws if the stream, or for the host's waits any stream, captures.
void refuse_in_capture(const Stream* stream);

void begin_capture(Stream* stream);
Graph end_capture(Stream* stream);
// The nodes in an order that their dependencies allow; the seed chooses which.
void enqueue_graph(Stream* stream, const Graph& graph, u32 seed);

}  // namespace ptxsim
