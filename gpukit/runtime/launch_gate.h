// The one door to a stream. Kernels, host functions, copies and graph launches all pass it.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include "gpukit/base/error.h"
#include "gpukit/memory/storage.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/stream_control.h"

namespace gpukit::runtime {

class Capture;

/// One submission: construct, submit, call done() with the driver's result code.
///   Submission s(stream, "add");      // health, context, capture rules, the stream's control, which may wait;
///                                     // throws before anything is submitted
///   int code = s.api().launch(...);
///   if (s.capturing()) s.keep(...);   // how to issue the same work eagerly
///   s.done(code, uses);               // throws CudaError on failure; notes the uses
class Submission {
 public:
  /// `name` must outlive the device's record of recent launches: a literal or a kernel's own name.
  /// `bytes`: what a copy or fill moves.
  Submission(const std::shared_ptr<driver::Stream>& stream, const char* name, SubmitKind kind = SubmitKind::kernel,
             size_t bytes = 0);
  ~Submission() {
    if (control_ != nullptr) [[unlikely]]
      report(StreamControl::kNotSubmitted);
  }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  const std::shared_ptr<driver::Stream>& stream() const { return stream_; }
  const driver::Api& api() const { return stream_->api(); }
  bool capturing() const { return capture_ != nullptr; }
  Capture* capture() const { return capture_.get(); }

  /// After the driver call. Outside a capture: three branches and a loop over `uses`.
  void done(int code, std::span<const memory::Use> uses) {
    if (control_ != nullptr) [[unlikely]]
      report(code);
    if (code != 0) failed(code);
    stream_->sequence.fetch_add(1, std::memory_order_relaxed);
    if (capture_ != nullptr || blocking_) return finish(uses);
    for (const memory::Use& use : uses)
      if (use.storage != nullptr) (*use.storage)->note_use(stream_);
  }
  /// While capturing: issues the same work again on a stream, for Graph::verify. Returns the driver's code.
  void keep(std::function<int(const driver::Stream&)> again);

 private:
  [[noreturn]] void failed(int code);
  void finish(std::span<const memory::Use> uses);
  std::shared_ptr<Capture> join_capture(Capture& capture) const;
  void admit(StreamControl& control, SubmitKind kind, size_t bytes);
  void report(int code) noexcept;

  const std::shared_ptr<driver::Stream>& stream_;
  const char* name_;
  DeviceState& device_;
  std::shared_ptr<Capture> capture_;  // null outside of captures
  StreamControl* control_ = nullptr;  // between admit() and submitted()
  uint64_t ticket_ = 0;
  bool blocking_;  // PYGPUKIT_LAUNCH_BLOCKING
};

/// Work on the CPU device: runs `function(addresses)` in stream order, one address per use (element 0 of the view).
/// `function` must not throw; bad data goes to note_fault. Long work asks check_interrupt now and then: what that
/// throws ends the work, is thrown here, and leaves garbage in what is written.
void run_host(const char* name, Device device, std::span<const memory::Use> uses,
              std::function<void(void* const* addresses)> function);
inline void run_host(const char* name, Device device, std::initializer_list<memory::Use> uses,
                     std::function<void(void* const* addresses)> function) {
  run_host(name, device, std::span<const memory::Use>(uses.begin(), uses.size()), std::move(function));
}

/// Throws Error when this thread captures: `to_numpy: waits for the device and cannot run inside a graph capture`.
void refuse_in_capture(const char* op, const char* why);

/// Runs a driver call that throws and gives its code instead, for done().
template <typename F>
int code_of(F&& call) {
  try {
    call();
    return 0;
  } catch (const CudaError& error) {
    return error.code;
  }
}

}  // namespace gpukit::runtime
