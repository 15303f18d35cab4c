#include "gpukit/runtime/launch_gate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/base/metrics.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/tracing.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::runtime {

namespace {

constexpr int kUnknown = -1;
std::atomic<int> g_blocking{kUnknown};

/// No guarded static: a fork while another thread reads the variable would leave the child waiting for it.
bool launch_blocking() {
  int value = g_blocking.load(std::memory_order_relaxed);
  if (value == kUnknown) g_blocking.store(value = env::launch_blocking() ? 1 : 0, std::memory_order_relaxed);
  return value != 0;
}

/// A function and the addresses it is called with; those of a common call lie in it.
struct HostTask {
  HostTask(std::function<void(void* const*)> f, std::span<const memory::Use> uses) : function(std::move(f)) {
    if (uses.size() > few.size()) many.resize(uses.size());
    void** next = many.empty() ? few.data() : many.data();
    for (const memory::Use& use : uses)
      *next++ =
          use.storage == nullptr ? nullptr : reinterpret_cast<char*>((*use.storage)->address()) + use.offset_bytes;
  }
  void run() const { function(many.empty() ? few.data() : many.data()); }

  std::function<void(void* const*)> function;
  std::array<void*, 6> few;
  std::vector<void*> many;
};

void run_task(void* task) { static_cast<const HostTask*>(task)->run(); }

void run_and_delete_task(void* task) {
  std::unique_ptr<HostTask> owned(static_cast<HostTask*>(task));
  owned->run();
}

}  // namespace

Submission::Submission(const std::shared_ptr<driver::Stream>& stream, const char* name, SubmitKind kind, size_t bytes)
    : stream_(stream), name_(name), device_(open_device(stream->device())), blocking_(launch_blocking()) {
  device_.health.check();
  device_.context.make_current();
  if (Capture* capture = thread_capture()) {
    capture_ = join_capture(*capture);
  } else if (stream->capture.load(std::memory_order_relaxed) != nullptr) {
    throw Error(std::string(name) + ": the stream is being captured by another thread");
  }
  if (StreamControl* control = stream->control.load(std::memory_order_acquire)) [[unlikely]]
    admit(*control, kind, bytes);
  device_.health.note_launch(name);
}

void Submission::admit(StreamControl& control, SubmitKind kind, size_t bytes) {
  // A capture submits nothing: its replays are what a control sees.
  if (capture_ != nullptr) {
    counter("gate.captured").add();
    return;
  }
  ticket_ = control.admit(stream_, name_, kind, bytes);
  control_ = &control;
  device_.context.make_current();
}

void Submission::report(int code) noexcept { std::exchange(control_, nullptr)->submitted(ticket_, stream_, code); }

std::shared_ptr<Capture> Submission::join_capture(Capture& capture) const {
  if (stream_ == capture.origin_) return capture.shared_from_this();
  if (stream_->device() == capture.origin_->device()) {
    driver::CaptureInfo info = api().capture_info(stream_->handle());
    if (info.status == driver::CaptureStatus::active && info.id == capture.id_) {
      if (std::find(capture.joined_.begin(), capture.joined_.end(), stream_) == capture.joined_.end()) {
        capture.joined_.push_back(stream_);
        stream_->capture.store(&capture, std::memory_order_release);
      }
      return capture.shared_from_this();
    }
  }
  throw Error(std::string(name_) +
              ": submitted to a stream outside the running graph capture; make that stream wait for an event "
              "recorded inside the capture first");
}

void Submission::keep(std::function<int(const driver::Stream&)> again) { capture_->keep(std::move(again)); }

void Submission::failed(int code) {
  std::string text = std::string(name_) + " failed with " + api().error_name(code);
  std::string recent = device_.health.note_error(code, text);
  throw CudaError(name_, code, api().error_name(code), "last launches, newest first: " + recent);
}

void Submission::finish(std::span<const memory::Use> uses) {
  for (const memory::Use& use : uses) {
    if (use.storage == nullptr) continue;
    (*use.storage)->note_use(stream_);
    if (capture_ != nullptr) capture_->pin(*use.storage, use.write);
  }
  if (capture_ != nullptr) return;
  int code = code_of([&] { stream_->synchronize(); });
  if (code != 0) failed(code);
}

void run_host(const char* name, Device device, std::span<const memory::Use> uses,
              std::function<void(void* const* addresses)> function) {
  check_work(name, uses);
  settle(uses, *borrow_stream(device));
  // Before the gate, as everywhere: what a control has given its turn must not wait for memory that others hold.
  const memory::Hold hold(uses);
  Submission submission(borrow_stream(device), name, SubmitKind::host_function);
  const driver::Api& api = submission.api();
  driver::StreamHandle stream = submission.stream()->handle();
  int code = 0;
  Interruptible work([] { driver::step_aside(&check_interrupt); });
  if (submission.capturing()) {
    const auto shared = std::make_shared<HostTask>(std::move(function), uses);
    code = code_of([&] { api.launch_host(stream, run_task, shared.get()); });
    if (code == 0) {
      submission.capture()->keep_alive(shared);
      submission.keep([shared](const driver::Stream& again) {
        return code_of([&] { again.api().launch_host(again.handle(), run_task, shared.get()); });
      });
    }
  } else {
    auto task = std::make_unique<HostTask>(std::move(function), uses);
    code = code_of([&] { api.launch_host(stream, run_and_delete_task, task.get()); });
    // On success the submitted function owns the task.
    if (code == 0) task.release();
  }
  submission.done(code, uses);
  work.rethrow();
}

void refuse_in_capture(const char* op, const char* why) {
  refuse_in_trace(op, why);
  if (thread_capture() == nullptr) return;
  throw Error(std::string(op) + ": " + why + " and cannot run inside a graph capture");
}

}  // namespace gpukit::runtime
