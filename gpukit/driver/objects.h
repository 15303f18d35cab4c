// Owners of driver objects: device context, stream, event, kernel library. No policy here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "gpukit/driver/api.h"

namespace gpukit::runtime {
class Capture;
}

namespace gpukit::driver {

/// A device opened through one driver: its primary context and properties. One that was opened well is never destroyed.
class Context {
 public:
  /// Retains the primary context of `ordinal`. Throws CudaError.
  Context(const Api& api, int ordinal);
  ~Context();  // releases it; runs only when opening the device fails half-way
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Api& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  Device device() const { return {api_.kind(), static_cast<int16_t>(ordinal_)}; }
  const DeviceProperties& properties() const { return properties_; }
  ContextHandle handle() const { return handle_; }
  void make_current() const { api_.make_current(handle_); }

 private:
  Api api_;
  int ordinal_;
  ContextHandle handle_;
  DeviceProperties properties_;
};

/// A non-blocking stream of ours. Shared by pointer: memory remembers the streams it was used on.
class Stream {
 public:
  Stream(Context& context, int priority);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Context& context() const { return context_; }
  const Api& api() const { return context_.api(); }
  Device device() const { return context_.device(); }
  StreamHandle handle() const { return handle_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }  // unique in the process, never reused
  void synchronize() const;
  bool query() const;
  void wait(const class Event& event) const;

  /// Launches submitted so far; the gate increments it.
  std::atomic<uint64_t> sequence{0};
  /// The value `sequence` had before the last wait that found the stream empty.
  std::atomic<uint64_t> idle_sequence{0};
  /// Not null while this stream captures: who collects what is submitted (runtime/graph.h).
  std::atomic<runtime::Capture*> capture{nullptr};

 private:
  Context& context_;
  StreamHandle handle_;
  int priority_;
  uint64_t id_;
};

class Event {
 public:
  explicit Event(Context& context, bool timing = false, bool blocking = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Context& context() const { return context_; }
  EventHandle handle() const { return handle_; }
  void record(const Stream& stream);
  void synchronize() const;
  bool query() const;  // true when never recorded

 private:
  Context& context_;
  EventHandle handle_;
};

/// Milliseconds between two recorded timing events; throws CudaError when one is not complete or has no timing.
float elapsed_ms(const Event& start, const Event& stop);

}  // namespace gpukit::driver
