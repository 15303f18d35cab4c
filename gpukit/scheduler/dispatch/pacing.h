// Pacing: launches of a stream by its share of a window, bytes by a rate.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "gpukit/base/clock.h"

namespace gpukit::scheduler {

struct PacingConfig {
  double total_bandwidth = 1.0;  // what the streams may add up to
  double window_ms = 100.0;
  double min_interval_ms = 0.1;
  /// A stream's window starts with its first launch after the last one ended. Off: windows follow each other from the
  /// engine's start, the same for all streams.
  bool adaptive = true;
};

class PacingDecision {
 public:
  enum class Kind : uint8_t { launch, wait, throttle };
  PacingDecision(Kind kind, double wait_ms) : kind_(kind), wait_ms_(wait_ms) {}
  Kind kind() const { return kind_; }
  bool can_launch() const { return kind_ == Kind::launch; }
  bool is_throttled() const { return kind_ == Kind::throttle; }
  /// 0 to launch now; infinite when the window is used up.
  double wait_ms() const { return is_throttled() ? std::numeric_limits<double>::infinity() : wait_ms_; }
  /// When asking again is worth it, throttled or not.
  double retry_ms() const { return wait_ms_; }
  /// Launch, Wait or Throttle.
  const char* decision_type() const;

 private:
  Kind kind_;
  double wait_ms_;
};

struct StreamPacingStats {
  int64_t stream_id = 0;
  double bandwidth = 0;
  int64_t launches_in_window = 0, total_launches = 0, throttled_count = 0;
};

struct PacingStats {
  int64_t stream_count = 0;
  double used_bandwidth = 0, available_bandwidth = 0;
  int64_t total_launches = 0, total_throttled = 0, total_waited = 0;
};

/// A stream with bandwidth b launches at intervals of window * (1 - b), and at most ceil(100 b) times in a window.
/// A stream without bandwidth launches freely. Thread-safe.
class KernelPacingEngine {
 public:
  /// Throws ArgumentError for a config that is not positive and finite.
  explicit KernelPacingEngine(const PacingConfig& config = {}, Clock& clock = real_clock());
  const PacingConfig& config() const { return config_; }

  /// False when the total would be exceeded; a stream's older bandwidth is replaced. Throws ArgumentError unless
  /// `bandwidth` is above 0.
  bool allocate_stream(int64_t stream_id, double bandwidth);
  /// False when it had none.
  bool release_stream(int64_t stream_id);
  PacingDecision should_launch(int64_t stream_id) const;
  void record_launch(int64_t stream_id);
  void record_throttle(int64_t stream_id);
  void record_wait(int64_t stream_id);
  std::optional<StreamPacingStats> stream_stats(int64_t stream_id) const;
  PacingStats stats() const;
  /// Forgets launches and counts; the bandwidths stay.
  void reset();

 private:
  struct Stream {
    double bandwidth = 0;
    int64_t window_start_ns = 0, last_launch_ns = 0;
    int64_t launches_in_window = 0, total_launches = 0, throttled = 0;
    bool launched = false;
  };
  int64_t window_ns() const;
  int64_t interval_ns(const Stream& stream) const;
  /// Launches in the window that `now` lies in.
  int64_t in_window(const Stream& stream, int64_t now_ns) const;
  double used_bandwidth() const;

  const PacingConfig config_;
  Clock& clock_;
  const int64_t start_ns_;
  mutable std::mutex mutex_;
  std::map<int64_t, Stream> streams_;
  int64_t total_launches_ = 0, total_throttled_ = 0, total_waited_ = 0;
};

/// Bytes per second, with a burst of 5 ms worth. Not thread-safe.
class TokenBucket {
 public:
  /// 0: no limit.
  explicit TokenBucket(double bytes_per_second = 0) : rate_(bytes_per_second) {}
  double rate() const { return rate_; }
  void set_rate(double bytes_per_second, int64_t now_ns);
  /// Nanoseconds until take() is due; 0 when it is.
  int64_t wait_ns(int64_t now_ns) const;
  /// May go into debt: one transfer is never cut, the next one waits for it.
  void take(double bytes, int64_t now_ns);

 private:
  double level(int64_t now_ns) const;
  double rate_;
  double tokens_ = 0;
  int64_t filled_ns_ = INT64_MIN;  // never
};

}  // namespace gpukit::scheduler
