// Streams that run on one set of SMs, and how their work moves when the set changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::runtime {

/// Where the work of a moved stream goes, and what that must come after. Immutable but for what was followed.
struct StreamMove;

/// The streams of one session: of a device's default session, of a partition or of an execution context.
/// A stream keeps its identity for who holds it; its work goes where resolve() says. Thread-safe.
class StreamGroup : public std::enable_shared_from_this<StreamGroup> {
 public:
  /// On the SMs of `green`, or on all of them.
  static std::shared_ptr<StreamGroup> make(driver::Context& context,
                                           std::shared_ptr<driver::GreenContext> green = nullptr);

  /// `counted`: false for one that a graph captures on, which has no work of its own. Throws CudaError.
  std::shared_ptr<driver::Stream> make_stream(int priority, bool counted = true);
  /// Called with every stream that make_stream makes, before it is given out; may throw to refuse.
  using StreamHook = std::function<void(const std::shared_ptr<driver::Stream>&)>;
  void set_hook(StreamHook hook);
  /// Whose streams these are, for who watches them: `context 'a'`.
  void set_label(std::string label);
  std::shared_ptr<driver::GreenContext> green() const;
  /// What is submitted from now on runs on the SMs of `green` (null: all), after what the streams hold now. Streams
  /// that are left go after their last event. A stream that captures stays. Nothing has changed when this throws.
  void move_to(std::shared_ptr<driver::GreenContext> green);
  /// Living streams that make_stream gave, those of captures apart.
  int num_streams() const;
  /// Streams that take work now, and earlier ones that still have some.
  std::vector<std::shared_ptr<driver::Stream>> streams() const;

 private:
  friend const std::shared_ptr<driver::Stream>& resolve_moved(const std::shared_ptr<driver::Stream>& stream);
  friend std::shared_ptr<driver::Stream> stand_in(const driver::Stream& first);
  struct Entry {
    std::weak_ptr<driver::Stream> first;  // what make_stream gave
    std::shared_ptr<StreamMove> move;     // null: it was never moved
    bool counted = true;
  };
  explicit StreamGroup(driver::Context& context) : context_(context) {}
  void retire(const std::shared_ptr<driver::Stream>& left) noexcept;

  driver::Context& context_;
  mutable std::mutex mutex_;
  std::shared_ptr<driver::GreenContext> green_;
  StreamHook hook_;
  std::string label_ = "default session";
  std::unordered_map<uint64_t, Entry> entries_;  // by the first stream's id
  std::vector<std::shared_ptr<driver::Stream>> leaving_;
};

const std::shared_ptr<driver::Stream>& resolve_moved(const std::shared_ptr<driver::Stream>& stream);

/// The stream that takes `stream`'s work now. The reference is good until this thread's next few calls.
inline const std::shared_ptr<driver::Stream>& resolve(const std::shared_ptr<driver::Stream>& stream) {
  return stream->moved.load(std::memory_order_acquire) ? resolve_moved(stream) : stream;
}

/// The stream that stands in for `first` now, or null. Unlike resolve() it submits nothing.
std::shared_ptr<driver::Stream> stand_in(const driver::Stream& first);

/// A stream beside the current one of `device`: of the same session, on the same SMs. `counted` as in make_stream.
/// Throws CudaError, DeviceError.
std::shared_ptr<driver::Stream> new_stream(Device device, int priority, bool counted = true);

/// Later work of `then` waits for what `first` holds now. Nothing for one and the same stream. Throws CudaError.
void order_after(const driver::Stream& first, const driver::Stream& then);

/// Lets go of the streams this thread was sent to, for tests that count what is alive.
void forget_moved_streams() noexcept;

}  // namespace gpukit::runtime
