// The table behind FakeDriver: counts objects and, in deferred mode, queues what is submitted.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "gpukit/driver/host_table.h"
#include "tests/support/fake_state.h"

namespace gpukit::testing {

using namespace gpukit::driver;

CUresult counted(CUresult code, int Live::*kind, int change) {
  if (code == CUDA_SUCCESS) fake_state().live.*kind += change;
  return code;
}

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

const CudaTable& host() { return host_table(); }

CUcontext current_context() {
  CUcontext context = nullptr;
  host().cuCtxGetCurrent(&context);
  return context;
}

bool capturing(CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  host().cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool known(CUstream stream) { return fake_state().stream_contexts.contains(stream); }

// Whether work for this stream is to be queued; anything odd goes to the host table, which has the right error.
bool queued(CUstream stream) { return fake_state().deferring && known(stream) && !capturing(stream); }

std::shared_ptr<Marker> marker_of(CUevent event) {
  auto found = fake_state().markers.find(event);
  return found == fake_state().markers.end() ? nullptr : found->second;
}

// Copies and fills

bool page_locked(const void* memory) {
  unsigned type = 0;
  return host().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(memory)) ==
         CUDA_SUCCESS;
}

CUresult copy_to_device(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || bytes == 0) return host().cuMemcpyHtoDAsync(destination, source, bytes, stream);
  auto* to = reinterpret_cast<void*>(destination);
  if (page_locked(source)) {
    fake_state().work.push(stream, [=] { std::memmove(to, source, bytes); });
  } else {
    // The real driver has read pageable memory when it returns.
    auto* first = static_cast<const char*>(source);
    auto staged = std::make_shared<std::vector<char>>(first, first + bytes);
    fake_state().work.push(stream, [=] { std::memcpy(to, staged->data(), bytes); });
  }
  return CUDA_SUCCESS;
}

CUresult copy_to_host(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || bytes == 0) return host().cuMemcpyDtoHAsync(destination, source, bytes, stream);
  fake_state().work.push(stream, [=] { std::memmove(destination, reinterpret_cast<const void*>(source), bytes); });
  // The real driver returns from a copy to pageable memory when it is done.
  if (!page_locked(destination)) fake_state().work.finish(stream);
  return CUDA_SUCCESS;
}

CUresult copy_on_device(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || bytes == 0) return host().cuMemcpyDtoDAsync(destination, source, bytes, stream);
  fake_state().work.push(stream, [=] {
    std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes);
  });
  return CUDA_SUCCESS;
}

template <auto Member, typename Value>
CUresult set(CUdeviceptr destination, Value value, size_t count, CUstream stream) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || destination % sizeof(Value) != 0) return (host().*Member)(destination, value, count, stream);
  fake_state().work.push(stream, [=] { std::fill_n(reinterpret_cast<Value*>(destination), count, value); });
  return CUDA_SUCCESS;
}

CUresult launch_host(CUstream stream, CUhostFn function, void* argument) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || function == nullptr) return host().cuLaunchHostFunc(stream, function, argument);
  fake_state().work.push(stream, [=] { function(argument); });
  return CUDA_SUCCESS;
}

CUresult launch_graph(CUgraphExec exec, CUstream stream) {
  Lock lock(fake_state().mutex);
  if (!queued(stream) || host_graph_nodes(exec) == nullptr) return host().cuGraphLaunch(exec, stream);
  fake_state().work.push_graph(stream, exec);
  return CUDA_SUCCESS;
}

// Streams

CUresult create_stream(CUstream* stream, unsigned flags, int priority) {
  Lock lock(fake_state().mutex);
  CUresult code = host().cuStreamCreateWithPriority(stream, flags, priority);
  if (code == CUDA_SUCCESS) fake_state().stream_contexts[*stream] = current_context();
  return counted(code, &Live::streams, 1);
}

CUresult create_green_stream(CUstream* stream, CUgreenCtx green, unsigned flags, int priority) {
  Lock lock(fake_state().mutex);
  CUresult code = host().cuGreenCtxStreamCreate(stream, green, flags, priority);
  if (code == CUDA_SUCCESS) fake_state().stream_contexts[*stream] = current_context();
  return counted(code, &Live::streams, 1);
}

CUresult destroy_stream(CUstream stream) {
  Lock lock(fake_state().mutex);
  FakeState& s = fake_state();
  bool ours = s.stream_contexts.erase(stream) != 0;
  if (!s.work.idle(stream)) {
    s.leaving.insert(stream);
    return counted(CUDA_SUCCESS, &Live::streams, -1);
  }
  CUresult code = host().cuStreamDestroy(stream);
  return ours ? counted(code, &Live::streams, -1) : code;
}

CUresult synchronize_stream(CUstream stream) {
  Lock lock(fake_state().mutex);
  if (CUresult code = host().cuStreamSynchronize(stream)) return code;
  fake_state().work.finish(stream);
  return CUDA_SUCCESS;
}

// A program that polls must come to an end, so asking brings the work one step further.
CUresult query_stream(CUstream stream) {
  Lock lock(fake_state().mutex);
  if (CUresult code = host().cuStreamQuery(stream)) return code;
  if (fake_state().work.idle(stream)) return CUDA_SUCCESS;
  if (fake_state().queries_run) fake_state().work.step(stream);
  return CUDA_ERROR_NOT_READY;
}

CUresult synchronize_context() {
  Lock lock(fake_state().mutex);
  if (CUresult code = host().cuCtxSynchronize()) return code;
  FakeState& s = fake_state();
  CUcontext context = current_context();
  for (CUstream stream : s.work.streams()) {
    auto found = s.stream_contexts.find(stream);
    if (found == s.stream_contexts.end() || found->second == context) s.work.finish(stream);
  }
  return CUDA_SUCCESS;
}

CUresult wait_event(CUstream stream, CUevent event, unsigned flags) {
  Lock lock(fake_state().mutex);
  FakeState& s = fake_state();
  if (s.drop_all_waits || (s.drop_countdown > 0 && --s.drop_countdown == 0)) {
    ++s.dropped_waits;
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Marker> marker = marker_of(event);
  if (marker == nullptr || !queued(stream) || marker->captured) {
    if (marker != nullptr) s.work.finish(marker);
    return host().cuStreamWaitEvent(stream, event, flags);
  }
  s.work.push_wait(stream, marker);
  return CUDA_SUCCESS;
}

// Events

CUresult create_event(CUevent* event, unsigned flags) {
  Lock lock(fake_state().mutex);
  CUresult code = host().cuEventCreate(event, flags);
  if (code == CUDA_SUCCESS) {
    auto marker = std::make_shared<Marker>();
    marker->handle = *event;
    fake_state().markers[*event] = std::move(marker);
    fake_state().event_contexts[*event] = current_context();
  }
  return counted(code, &Live::events, 1);
}

CUresult destroy_event(CUevent event) {
  Lock lock(fake_state().mutex);
  FakeState& s = fake_state();
  std::shared_ptr<Marker> marker = marker_of(event);
  if (marker == nullptr) return host().cuEventDestroy(event);
  s.markers.erase(event);
  s.event_contexts.erase(event);
  marker->destroyed = true;
  return counted(CUDA_SUCCESS, &Live::events, -1);
}

CUresult record_event(CUevent event, CUstream stream) {
  Lock lock(fake_state().mutex);
  FakeState& s = fake_state();
  std::shared_ptr<Marker> marker = marker_of(event);
  bool same_context = marker != nullptr && known(stream) && s.event_contexts[event] == s.stream_contexts[stream];
  if (!same_context || !queued(stream)) {
    CUresult code = host().cuEventRecord(event, stream);
    if (code == CUDA_SUCCESS && marker != nullptr) marker->captured = capturing(stream);
    return code;
  }
  s.work.push_record(stream, marker);
  return CUDA_SUCCESS;
}

CUresult synchronize_event(CUevent event) {
  Lock lock(fake_state().mutex);
  std::shared_ptr<Marker> marker = marker_of(event);
  if (marker == nullptr || marker->captured || DeferredWork::reached(*marker)) return host().cuEventSynchronize(event);
  if (CUresult code = host().cuEventSynchronize(event)) return code;
  fake_state().work.finish(marker);
  return CUDA_SUCCESS;
}

CUresult query_event(CUevent event) {
  Lock lock(fake_state().mutex);
  if (CUresult code = host().cuEventQuery(event)) return code;
  std::shared_ptr<Marker> marker = marker_of(event);
  if (marker == nullptr || DeferredWork::reached(*marker)) return CUDA_SUCCESS;
  if (fake_state().queries_run) fake_state().work.run_one();
  return CUDA_ERROR_NOT_READY;
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent stop) {
  Lock lock(fake_state().mutex);
  for (CUevent event : {start, stop}) {
    std::shared_ptr<Marker> marker = marker_of(event);
    if (marker != nullptr && !DeferredWork::reached(*marker)) return CUDA_ERROR_NOT_READY;
  }
  return host().cuEventElapsedTime(milliseconds, start, stop);
}

// Capture and graphs

CUresult begin_capture(CUstream stream, int mode) {
  Lock lock(fake_state().mutex);
  // Queued work must not run into the capture.
  fake_state().work.finish(stream);
  return host().cuStreamBeginCapture(stream, mode);
}

CUresult end_capture(CUstream stream, CUgraph* graph) {
  Lock lock(fake_state().mutex);
  return counted(host().cuStreamEndCapture(stream, graph), &Live::graphs, 1);
}

CUresult destroy_graph(CUgraph graph) {
  Lock lock(fake_state().mutex);
  return counted(host().cuGraphDestroy(graph), &Live::graphs, -1);
}

CUresult instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  Lock lock(fake_state().mutex);
  return counted(host().cuGraphInstantiateWithFlags(exec, graph, flags), &Live::execs, 1);
}

CUresult destroy_exec(CUgraphExec exec) {
  Lock lock(fake_state().mutex);
  return counted(host().cuGraphExecDestroy(exec), &Live::execs, -1);
}

// Memory and contexts

CUresult allocate(CUdeviceptr* address, size_t bytes) {
  Lock lock(fake_state().mutex);
  return counted(host().cuMemAlloc(address, bytes), &Live::memory, 1);
}

// The real driver waits for the device before it gives memory back.
CUresult release(CUdeviceptr address) {
  Lock lock(fake_state().mutex);
  fake_state().work.run_all();
  return counted(host().cuMemFree(address), &Live::memory, address == 0 ? 0 : -1);
}

CUresult allocate_pinned(void** memory, size_t bytes, unsigned flags) {
  Lock lock(fake_state().mutex);
  return counted(host().cuMemHostAlloc(memory, bytes, flags), &Live::pinned, 1);
}

CUresult release_pinned(void* memory) {
  Lock lock(fake_state().mutex);
  fake_state().work.run_all();
  return counted(host().cuMemFreeHost(memory), &Live::pinned, -1);
}

CUresult retain(CUcontext* context, CUdevice device) {
  Lock lock(fake_state().mutex);
  return counted(host().cuDevicePrimaryCtxRetain(context, device), &Live::contexts, 1);
}

CUresult release_context(CUdevice device) {
  Lock lock(fake_state().mutex);
  return counted(host().cuDevicePrimaryCtxRelease(device), &Live::contexts, -1);
}

}  // namespace

FakeState::FakeState() : behind(host_table()) {
  behind.cuDevicePrimaryCtxRetain = retain;
  behind.cuDevicePrimaryCtxRelease = release_context;
  behind.cuCtxSynchronize = synchronize_context;
  behind.cuMemAlloc = allocate;
  behind.cuMemFree = release;
  behind.cuMemHostAlloc = allocate_pinned;
  behind.cuMemFreeHost = release_pinned;
  behind.cuMemcpyHtoDAsync = copy_to_device;
  behind.cuMemcpyDtoHAsync = copy_to_host;
  behind.cuMemcpyDtoDAsync = copy_on_device;
  behind.cuMemsetD8Async = set<&CudaTable::cuMemsetD8Async, unsigned char>;
  behind.cuMemsetD16Async = set<&CudaTable::cuMemsetD16Async, unsigned short>;
  behind.cuMemsetD32Async = set<&CudaTable::cuMemsetD32Async, unsigned>;
  behind.cuLaunchHostFunc = launch_host;
  behind.cuStreamCreateWithPriority = create_stream;
  behind.cuGreenCtxStreamCreate = create_green_stream;
  behind.cuStreamDestroy = destroy_stream;
  behind.cuStreamSynchronize = synchronize_stream;
  behind.cuStreamQuery = query_stream;
  behind.cuStreamWaitEvent = wait_event;
  behind.cuEventCreate = create_event;
  behind.cuEventDestroy = destroy_event;
  behind.cuEventRecord = record_event;
  behind.cuEventSynchronize = synchronize_event;
  behind.cuEventQuery = query_event;
  behind.cuEventElapsedTime = elapsed;
  behind.cuStreamBeginCapture = begin_capture;
  behind.cuStreamEndCapture = end_capture;
  behind.cuGraphDestroy = destroy_graph;
  behind.cuGraphInstantiateWithFlags = instantiate;
  behind.cuGraphExecDestroy = destroy_exec;
  behind.cuGraphLaunch = launch_graph;
  fill_page_entries(behind);
  work.on_idle = [this](CUstream stream) {
    if (leaving.erase(stream) != 0) host_table().cuStreamDestroy(stream);
  };
}

void FakeState::reset() {
  std::lock_guard lock(mutex);
  calls.clear();
  fail_name.clear();
  failed_call.clear();
  fail_countdown = 0;
  live = {};
  drop_all_waits = false;
  queries_run = true;
  drop_countdown = 0;
  dropped_waits = 0;
}

}  // namespace gpukit::testing
