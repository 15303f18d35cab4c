// Streams, events, copies and host functions of the host table.
#include <algorithm>
#include <cstring>

#include "gpukit/driver/host_state.h"

namespace gpukit::driver::host {

Stream*& running_stream() {
  static thread_local Stream* running = nullptr;
  return running;
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>* stream) {
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {
    Context* context = nullptr;
    if (CUresult code = live_context(&context)) return code;
    *stream = context->legacy;
    return CUDA_SUCCESS;
  }
  *stream = find(state().streams, handle);
  if (*stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return (*stream)->green != nullptr && (*stream)->green->destroyed ? CUDA_ERROR_STREAM_DETACHED : CUDA_SUCCESS;
}

namespace {

CUresult stream_create(CUstream* handle, unsigned, int priority) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->priority = std::clamp(priority, -5, 0);
  std::lock_guard lock(state().mutex);
  if (CUresult code = live_context(&stream->context)) return code;
  *handle = reinterpret_cast<CUstream>(stream.get());
  state().streams.emplace(stream.get(), stream);
  return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream handle) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(state().mutex);
    stream = find(state().streams, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (std::shared_ptr<Capture> capture = stream->capture) {
      invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      std::erase(capture->streams, stream.get());
      stream->capture = nullptr;
      if (capture->origin == stream.get()) finish(capture);
    }
    state().streams.erase(handle);
  }
  std::lock_guard wait(stream->run);
  return CUDA_SUCCESS;
}

// Finds a stream the host may ask about: not one that captures, and not from a thread that does.
CUresult find_for_host(CUstream handle, std::shared_ptr<Stream>* stream) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = find_stream(handle, stream)) return code;
  if ((*stream)->capture != nullptr) return invalidate(*(*stream)->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return refuse_while_capturing();
}

CUresult stream_synchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (CUresult code = find_for_host(handle, &stream)) return code;
  std::lock_guard wait(stream->run);
  return CUDA_SUCCESS;
}

CUresult stream_query(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (CUresult code = find_for_host(handle, &stream)) return code;
  if (!stream->run.try_lock()) return CUDA_ERROR_NOT_READY;
  stream->run.unlock();
  return CUDA_SUCCESS;
}

void merge(Frontier& frontier, const Frontier& more) {
  frontier.insert(frontier.end(), more.begin(), more.end());
  std::sort(frontier.begin(), frontier.end());
  frontier.erase(std::unique(frontier.begin(), frontier.end()), frontier.end());
}

CUresult wait_for_captured(const std::shared_ptr<Stream>& stream, const Event& event) {
  const std::shared_ptr<Capture>& capture = event.capture;
  if (stream->capture == nullptr) {
    if (capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
    if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->context->legacy) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    stream->capture = capture;
    stream->frontier = event.frontier;
    capture->streams.push_back(stream.get());
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (capture->ended) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (stream->capture != capture) {
    invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  merge(stream->frontier, event.frontier);
  return CUDA_SUCCESS;
}

// Outside a capture there is nothing to wait for: a recorded event's work has already run.
CUresult stream_wait_event(CUstream handle, CUevent event_handle, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Stream> stream;
  if (CUresult code = find_stream(handle, &stream)) return code;
  std::shared_ptr<Event> event = find(state().events, event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) return wait_for_captured(stream, *event);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  // A capture may not depend on work outside it.
  return event->recorded ? invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION) : CUDA_SUCCESS;
}

CUresult launch_host_function(CUstream stream, CUhostFn function, void* argument) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { function(argument); });
}

CUresult event_create(CUevent* handle, unsigned flags) {
  if (handle == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  std::lock_guard lock(state().mutex);
  if (CUresult code = live_context(&event->context)) return code;
  *handle = reinterpret_cast<CUevent>(event.get());
  state().events.emplace(event.get(), event);
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent handle) {
  std::lock_guard lock(state().mutex);
  return state().events.erase(handle) == 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult event_record(CUevent event_handle, CUstream handle) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  {
    std::lock_guard lock(state().mutex);
    if (CUresult code = find_stream(handle, &stream)) return code;
    event = find(state().events, event_handle);
    if (event == nullptr || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr) {
      if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      event->capture = stream->capture;
      event->frontier = stream->frontier;
      return CUDA_SUCCESS;
    }
  }
  std::lock_guard order(stream->run);
  std::lock_guard lock(state().mutex);
  event->capture = nullptr;
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}

CUresult event_query(CUevent handle) {
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Event> event = find(state().events, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) return invalidate(*event->capture, CUDA_ERROR_CAPTURED_EVENT);
  return refuse_while_capturing();
}

CUresult event_elapsed(float* milliseconds, CUevent start_handle, CUevent stop_handle) {
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Event> start = find(state().events, start_handle), stop = find(state().events, stop_handle);
  if (start == nullptr || stop == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (start->capture != nullptr || stop->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (!start->recorded || !stop->recorded || !start->timing || !stop->timing) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
  return CUDA_SUCCESS;
}

CUresult copy(void* destination, const void* source, size_t bytes, CUstream stream) {
  if (bytes != 0 && (destination == nullptr || source == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] {
    if (bytes != 0) std::memmove(destination, source, bytes);
  });
}

CUresult copy_to_device(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  return copy(reinterpret_cast<void*>(destination), source, bytes, stream);
}

CUresult copy_to_host(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(destination, reinterpret_cast<const void*>(source), bytes, stream);
}

CUresult copy_on_device(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes, stream);
}

template <typename Value>
CUresult set(CUdeviceptr destination, Value value, size_t count, CUstream stream) {
  if ((count != 0 && destination == 0) || destination % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { std::fill_n(reinterpret_cast<Value*>(destination), count, value); });
}

}  // namespace

void fill_stream_entries(CudaTable& table) {
  table.cuStreamCreateWithPriority = stream_create;
  table.cuStreamDestroy = stream_destroy;
  table.cuStreamSynchronize = stream_synchronize;
  table.cuStreamQuery = stream_query;
  table.cuStreamWaitEvent = stream_wait_event;
  table.cuLaunchHostFunc = launch_host_function;
  table.cuEventCreate = event_create;
  table.cuEventDestroy = event_destroy;
  table.cuEventRecord = event_record;
  table.cuEventSynchronize = event_query;  // a recorded event has always happened
  table.cuEventQuery = event_query;
  table.cuEventElapsedTime = event_elapsed;
  table.cuMemcpyHtoDAsync = copy_to_device;
  table.cuMemcpyDtoHAsync = copy_to_host;
  table.cuMemcpyDtoDAsync = copy_on_device;
  table.cuMemsetD8Async = set<unsigned char>;
  table.cuMemsetD16Async = set<unsigned short>;
  table.cuMemsetD32Async = set<unsigned>;
}

}  // namespace gpukit::driver::host

namespace gpukit::driver {

void step_aside(void (*f)()) {
  host::Stream* const stream = std::exchange(host::running_stream(), nullptr);
  if (stream == nullptr) return f();
  struct Back {
    host::Stream* stream;
    ~Back() {
      stream->run.lock();
      host::running_stream() = stream;
    }
  } back{stream};
  stream->run.unlock();
  f();
}

}  // namespace gpukit::driver
