// Streams, events and graphs, as the driver offers them.
#include <dlfcn.h>

#include <cstring>

#include "state.h"

using namespace ptxsim;

namespace {

Result not_ready_unless(bool done) {
  if (state().sticky != kSuccess) return state().sticky;
  return done ? kSuccess : kNotReady;
}

constexpr unsigned kNonBlocking = 1;

}  // namespace

PTXSIM_API Result cuStreamCreate(void** stream, unsigned flags) {
  return guarded([&] {
    *stream = create_stream(!(flags & kNonBlocking));
    return kSuccess;
  });
}

PTXSIM_API Result cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}

PTXSIM_API Result cuStreamDestroy_v2(void* stream) {
  return guarded([&] {
    destroy_stream(stream_of(stream));
    return kSuccess;
  });
}

PTXSIM_API Result cuStreamSynchronize(void* stream) {
  return guarded([&] {
    Stream* s = stream_of(stream);
    refuse_in_capture(s);
    run_all_of(s);
    return state().sticky;
  });
}

// Who asks again and again must see progress: each question runs one piece of work.
PTXSIM_API Result cuStreamQuery(void* stream) {
  return guarded([&] {
    Stream* s = stream_of(stream);
    const bool done = s->work.empty();
    run_one(s);
    return not_ready_unless(done);
  });
}

PTXSIM_API Result cuStreamWaitEvent(void* stream, void* event, unsigned) {
  return guarded_work([&] {
    wait_for(stream_of(stream), static_cast<Event*>(event));
    return kSuccess;
  });
}

PTXSIM_API Result cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return kSuccess;
}

PTXSIM_API Result cuEventDestroy_v2(void* event) {
  return guarded([&] {
    Event* e = static_cast<Event*>(event);
    if (e->point.stream != nullptr) run_up_to(e->point);  // its record names it
    delete e;
    return kSuccess;
  });
}

PTXSIM_API Result cuEventRecord(void* event, void* stream) {
  return guarded_work([&] {
    record(static_cast<Event*>(event), stream_of(stream));
    return kSuccess;
  });
}

PTXSIM_API Result cuEventSynchronize(void* event) {
  return guarded([&] {
    refuse_in_capture(nullptr);
    const Event* e = static_cast<Event*>(event);
    if (e->point.stream != nullptr) run_up_to(e->point);
    return state().sticky;
  });
}

PTXSIM_API Result cuEventQuery(void* event) {
  return guarded([&] {
    const Event* e = static_cast<Event*>(event);
    const bool done = e->point.stream == nullptr || is_done(e->point);
    if (!done) run_one(e->point.stream);
    return not_ready_unless(done);
  });
}

PTXSIM_API Result cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  return guarded([&] {
    const Event &first = *static_cast<Event*>(begin), &last = *static_cast<Event*>(end);
    if (first.point.stream == nullptr || last.point.stream == nullptr) return kInvalidHandle;
    if (!is_done(first.point) || !is_done(last.point)) return kNotReady;
    *milliseconds = static_cast<float>(last.time - first.time);
    return kSuccess;
  });
}

PTXSIM_API Result cuEventElapsedTime_v2(float* milliseconds, void* begin, void* end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

PTXSIM_API Result cuStreamBeginCapture_v2(void* stream, int) {
  return guarded_work([&] {
    begin_capture(stream_of(stream));
    return kSuccess;
  });
}

PTXSIM_API Result cuStreamEndCapture(void* stream, void** graph) {
  return guarded([&] {
    *graph = new Graph(end_capture(stream_of(stream)));
    return kSuccess;
  });
}

PTXSIM_API Result cuStreamIsCapturing(void* stream, int* status) {
  return guarded([&] {
    *status = stream_of(stream)->capture != nullptr;
    return kSuccess;
  });
}

PTXSIM_API Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}

PTXSIM_API Result cuGraphInstantiate_v2(void** executable, void* graph, void**, char*, size_t) {
  return cuGraphInstantiateWithFlags(executable, graph, 0);
}

PTXSIM_API Result cuGraphLaunch(void* executable, void* stream) {
  return guarded_work([&] {
    enqueue_graph(stream_of(stream), *static_cast<Graph*>(executable), state().seed);
    return kSuccess;
  });
}

PTXSIM_API Result cuGraphGetNodes(void* graph, void**, size_t* count) {
  *count = static_cast<Graph*>(graph)->nodes.size();
  return kSuccess;
}

PTXSIM_API Result cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kSuccess;
}

PTXSIM_API Result cuGraphExecDestroy(void* executable) { return cuGraphDestroy(executable); }

// The address of a function by its name; the newest version where there are several.
PTXSIM_API Result cuGetProcAddress_v2(const char* name, void** function, int, u64, int* status) {
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &self);
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v2", ""}) {
    *function = dlsym(library, (std::string(name) + suffix).c_str());
    if (*function != nullptr) break;
  }
  dlclose(library);
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? kNotFound : kSuccess;
}
