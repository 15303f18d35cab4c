// What may stand at the launch gate of a stream: limits, pacing, records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpukit::driver {
class Stream;
}

namespace gpukit::runtime {

enum class SubmitKind : uint8_t { kernel, host_function, copy_in, copy_out, copy_device, fill, graph };

/// What may watch, pace or hold back the submissions of a stream.
class StreamControl {
 public:
  virtual ~StreamControl() = default;
  /// Before the driver call; may wait (in-flight limit, pacing, bandwidth). Throws to refuse. Returns a ticket for
  /// submitted().
  virtual uint64_t admit(const std::shared_ptr<driver::Stream>& stream, const char* name, SubmitKind kind,
                         size_t bytes) = 0;
  /// After the driver call with its code; kNotSubmitted when the call was never made. Never throws.
  virtual void submitted(uint64_t ticket, const std::shared_ptr<driver::Stream>& stream, int code) noexcept = 0;

  /// The work of `from` goes to `to` from now on, which nobody has used yet: takes it under the same rules.
  virtual void moved(const std::shared_ptr<driver::Stream>& from, const std::shared_ptr<driver::Stream>& to) {
    (void)from, (void)to;
  }

  static constexpr int kNotSubmitted = -1;
};

}  // namespace gpukit::runtime
