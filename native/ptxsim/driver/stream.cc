#include "stream.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "state.h"

namespace ptxsim {
namespace {

struct Streams {
  Stream first;  // the default
  std::set<Stream*> others;
};

Streams& streams() {
  static Streams* only = new Streams;
  return *only;
}

std::vector<Stream*> all_streams() {
  std::vector<Stream*> all(streams().others.begin(), streams().others.end());
  all.push_back(&streams().first);
  if (state().seed % 2 == 1) std::reverse(all.begin(), all.end());
  return all;
}

// The default stream waits for all blocking ones, and they for it.
std::vector<Point> implied_dependencies(Stream* stream) {
  std::vector<Point> after;
  if (stream == default_stream()) {
    for (Stream* other : streams().others)
      if (other->blocking && !other->work.empty()) after.push_back({other, other->next_number - 1});
  } else if (stream->blocking && !default_stream()->work.empty()) {
    after.push_back({default_stream(), default_stream()->next_number - 1});
  }
  return after;
}

void append(Stream* stream, std::function<void()> run, std::vector<Point> after) {
  for (const Point& point : implied_dependencies(stream)) after.push_back(point);
  stream->work.push_back({std::move(run), std::move(after), stream->next_number++});
}

void join_capture(Stream* stream, const std::shared_ptr<Capture>& capture) {
  if (stream->capture == capture) return;
  stream->capture = capture;
  stream->last_nodes.clear();
  capture->streams.push_back(stream);
}

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

Stream* default_stream() { return &streams().first; }

Stream* stream_of(void* handle) {
  if (reinterpret_cast<u64>(handle) <= 2) return default_stream();
  Stream* stream = static_cast<Stream*>(handle);
  if (!streams().others.contains(stream))
    throw Failure{kInvalidHandle,
                  "[driver] expected a stream, got one that is destroyed or never was"};
  return stream;
}

Stream* create_stream(bool blocking) {
  Stream* stream = new Stream;
  stream->blocking = blocking;
  streams().others.insert(stream);
  return stream;
}

void destroy_stream(Stream* stream) {
  run_all_of(stream);
  streams().others.erase(stream);
  delete stream;
}

void enqueue(Stream* stream, std::function<void()> run) {
  if (stream->capture == nullptr) return append(stream, std::move(run), {});
  auto& nodes = stream->capture->graph.nodes;
  nodes.push_back({std::move(run), stream->last_nodes});
  stream->last_nodes = {static_cast<u32>(nodes.size() - 1)};
}

void record(Event* event, Stream* stream) {
  event->capture = stream->capture;
  event->nodes = stream->last_nodes;
  if (stream->capture != nullptr) return;
  event->nodes.clear();
  append(stream, [event] { event->time = now(); }, {});
  event->point = {stream, stream->next_number - 1};
}

void wait_for(Stream* stream, Event* event) {
  if (event->capture != nullptr) {
    join_capture(stream, event->capture);
    for (const u32 node : event->nodes) {
      auto& last = stream->last_nodes;
      if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
    }
  } else if (event->point.stream != nullptr && !is_done(event->point)) {
    append(stream, [] {}, {event->point});
  }
}

bool is_done(const Point& point) {
  if (point.stream != default_stream() && !streams().others.contains(point.stream)) return true;
  return point.stream->done >= point.number;
}

void run_up_to(const Point& point) {
  if (is_done(point)) return;
  Stream* stream = point.stream;
  while (!stream->work.empty() && stream->work.front().number <= point.number) run_one(stream);
}

void run_one(Stream* stream) {
  if (stream->work.empty()) return;
  const Work work = std::move(stream->work.front());
  stream->work.pop_front();
  for (const Point& point : work.after) run_up_to(point);
  if (state().sticky == kSuccess) {
    try {
      work.run();
    } catch (const Failure& failure) {
      state().fail(failure.result, failure.text);
    }
  }
  stream->done = work.number;
}

void run_all_of(Stream* stream) { run_up_to({stream, stream->next_number - 1}); }

void run_everything() {
  for (Stream* stream : all_streams()) run_all_of(stream);
}

void forget_pending_work() {
  for (Stream* stream : all_streams()) {
    stream->work.clear();
    stream->done = stream->next_number - 1;
    stream->capture = nullptr;
  }
}

void refuse_in_capture(const Stream* stream) {
  for (const Stream* one : all_streams()) {
    if (one->capture == nullptr || (stream != nullptr && one != stream)) continue;
    one->capture->invalid = true;
    throw Failure{
        kCaptureUnsupported,
        "[driver] expected no wait while a stream captures a graph; end the capture first"};
  }
}

void begin_capture(Stream* stream) {
  if (stream == default_stream())
    throw Failure{kCaptureUnsupported,
                  "[driver] expected a stream of one's own to capture, got the default one"};
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  join_capture(stream, capture);
}

Graph end_capture(Stream* stream) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != stream)
    throw Failure{kInvalidValue, "[driver] expected the stream that began a capture"};
  // What others of the capture did must be something that this stream waited for.
  std::vector<bool> reached(capture->graph.nodes.size());
  std::vector<u32> rest = stream->last_nodes;
  while (!rest.empty()) {
    const u32 node = rest.back();
    rest.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    for (const u32 before : capture->graph.nodes[node].after) rest.push_back(before);
  }
  const bool all = std::find(reached.begin(), reached.end(), false) == reached.end();
  for (Stream* other : capture->streams) {
    other->capture = nullptr;
    other->last_nodes.clear();
  }
  if (capture->invalid)
    throw Failure{
        kCaptureInvalidated,
        "[driver] expected a valid capture; something that cannot be captured was called"};
  if (!all)
    throw Failure{kCaptureUnjoined,
                  "[driver] expected the capturing stream to wait for all others at the end"};
  return std::move(capture->graph);
}

void enqueue_graph(Stream* stream, const Graph& graph, u32 seed) {
  const u32 count = static_cast<u32>(graph.nodes.size());
  std::vector<bool> done(count);
  for (u32 left = count; left != 0; --left) {
    u32 chosen = count;
    for (u32 k = 0; k < count; ++k) {
      const auto& after = graph.nodes[k].after;
      const bool ready = std::all_of(after.begin(), after.end(), [&](u32 n) { return done[n]; });
      if (done[k] || !ready) continue;
      chosen = k;
      if (seed % 2 == 0) break;  // the first; for odd seeds the last
    }
    done[chosen] = true;
    enqueue(stream, graph.nodes[chosen].run);
  }
}

}  // namespace ptxsim
