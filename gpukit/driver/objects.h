// Owners of driver objects: device context, stream, event, kernel library. No policy here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/driver/api.h"

namespace gpukit::runtime {
class Capture;
class StreamControl;
class StreamGroup;
}  // namespace gpukit::runtime

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

/// A device's SMs, split once into groups of the hardware's grain. Green contexts are made of its groups.
class SmSplit {
 public:
  /// Throws CudaError where api().has_green_contexts() is false.
  explicit SmSplit(Context& context, int min_count = 1);

  Context& context() const { return context_; }
  int num_groups() const { return static_cast<int>(sms_.groups.size()); }
  int sms_per_group() const { return sms_.groups.empty() ? 0 : sms_.groups.front().sm_count; }
  int remainder_sms() const { return sms_.remainder.sm_count; }
  const SmGroups& sms() const { return sms_; }

 private:
  Context& context_;
  SmGroups sms_;
};

/// Owner of a green context: streams made in it run on its SMs only. Never made current. Keeps the driver's streams
/// that are over for later ones: what a driver spends on a stream may not come back with it. Thread-safe.
class GreenContext {
 public:
  /// The SMs of the groups numbered in `groups`, and those left over with `remainder`. Throws ArgumentError, CudaError.
  GreenContext(const SmSplit& split, std::span<const int> groups, bool remainder = false);
  ~GreenContext();
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;

  Context& context() const { return context_; }
  GreenHandle handle() const { return handle_; }
  int sm_count() const { return sm_count_; }

 private:
  friend class Stream;
  StreamHandle take_stream(int priority);
  void give_back_stream(StreamHandle stream, int priority) noexcept;

  Context& context_;
  GreenHandle handle_;
  int sm_count_;
  std::mutex mutex_;
  std::vector<std::pair<int, StreamHandle>> idle_;  // by priority
};

/// A non-blocking stream of ours. Shared by pointer: memory remembers the streams it was used on.
class Stream {
 public:
  /// On the SMs of `green`, which must be of the same context; without one, on all of them.
  Stream(Context& context, int priority, std::shared_ptr<GreenContext> green = nullptr);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Context& context() const { return context_; }
  const Api& api() const { return context_.api(); }
  Device device() const { return context_.device(); }
  StreamHandle handle() const { return handle_; }
  int priority() const { return priority_; }
  const std::shared_ptr<GreenContext>& green() const { return green_; }  // null: the primary context
  uint64_t id() const { return id_; }                                    // unique in the process, never reused
  void synchronize() const;
  bool query() const;
  void wait(const class Event& event) const;

  /// Launches submitted so far; the gate increments it.
  std::atomic<uint64_t> sequence{0};
  /// The value `sequence` had before the last wait that found the stream empty.
  std::atomic<uint64_t> idle_sequence{0};
  /// Not null while this stream captures: who collects what is submitted (runtime/graph.h).
  std::atomic<runtime::Capture*> capture{nullptr};
  /// Not null while something watches, paces or limits this stream (runtime/stream_control.h).
  std::atomic<runtime::StreamControl*> control{nullptr};
  /// The streams it belongs with; set once, before the stream is used. True in `moved`: its work goes to another stream
  /// (runtime/stream_group.h).
  std::weak_ptr<runtime::StreamGroup> group;
  std::atomic<bool> moved{false};
  /// Of a stream that takes a moved one's work: that one. Set as `group` is.
  void stand_in_for(const std::shared_ptr<Stream>& first);
  const std::weak_ptr<Stream>& first() const { return first_; }
  uint64_t first_id() const { return first_id_; }  // its own, where it stands in for none

 private:
  Context& context_;
  std::shared_ptr<GreenContext> green_;
  StreamHandle handle_;
  int priority_;
  uint64_t id_, first_id_;
  std::weak_ptr<Stream> first_;
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
