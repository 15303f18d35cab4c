// Fences: the work that must be over before memory is used again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

/// Makes the context current and lets this thread make calls that a capture of its own forbids.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(driver::Context& context) : api_(context.api()) {
    context.make_current();
    mode_ = api_.relax_capture();
  }
  ~RelaxedCapture() { api_.restore_capture(mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const driver::Api& api_;
  int mode_ = 0;
};

/// Asks the driver: a stream joins a capture by waiting for an event, before anything is submitted to it.
bool is_capturing(const driver::Stream& stream);

/// How often a block has forgotten streams that were idle. Who submits to a stream without noting the use again, since
/// the block knows of it, must note it when this has changed.
extern std::atomic<uint64_t> g_forgotten_streams;

/// One event per stream for the fences that are marked together.
class Marker {
 public:
  const std::shared_ptr<driver::Event>& now(const std::shared_ptr<driver::Stream>& stream);

 private:
  std::vector<std::pair<const driver::Stream*, std::shared_ptr<driver::Event>>> marks_;
};

/// Either recorded events, or streams whose work until now counts and has no event yet. Never records an event on a
/// capturing stream.
class Fence {
 public:
  bool empty() const { return events_.empty() && unmarked_.empty(); }
  void add(const std::shared_ptr<driver::Stream>& stream);
  void add(const std::shared_ptr<driver::Event>& event);
  void add(const Fence& other);
  /// Work on `stream` itself follows it anyway.
  void forget(const driver::Stream& stream);
  /// False while a stream without an event captures.
  bool can_mark() const;
  bool marked() const { return unmarked_.empty(); }
  /// Records what is missing. Throws CudaError; the fence is still whole then.
  void mark(Marker& marker);
  /// Makes later work of `stream` wait. Marked fences only, as below.
  void order(const driver::Stream& stream) const;
  /// Waits on the host.
  void synchronize() const;
  /// True when all is over. Forgets what is.
  bool complete();

 private:
  std::vector<std::shared_ptr<driver::Event>> events_;
  std::vector<std::shared_ptr<driver::Stream>> unmarked_;
};

}  // namespace gpukit::memory
