#include "gpukit/scheduler/dispatch/pacing.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::scheduler {
namespace {

constexpr double kLaunchesPerWindow = 100;
constexpr double kBurstSeconds = 0.005;
constexpr double kSlack = 1e-9;  // sums of shares such as 0.1 + 0.2 + 0.7

double positive(const char* argument, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw ArgumentError("PacingConfig", argument, "be above 0 and finite", std::to_string(value));
  return value;
}

}  // namespace

const char* PacingDecision::decision_type() const {
  switch (kind_) {
    case Kind::launch: return "Launch";
    case Kind::wait: return "Wait";
    case Kind::throttle: break;
  }
  return "Throttle";
}

KernelPacingEngine::KernelPacingEngine(const PacingConfig& config, Clock& clock)
    : config_(config), clock_(clock), start_ns_(clock.now_ns()) {
  positive("total_bandwidth", config.total_bandwidth);
  positive("window_ms", config.window_ms);
  if (!(config.min_interval_ms >= 0) || !std::isfinite(config.min_interval_ms))
    throw ArgumentError("PacingConfig", "min_interval_ms", "be 0 or more", std::to_string(config.min_interval_ms));
}

double KernelPacingEngine::used_bandwidth() const {
  double used = 0;
  for (const auto& [id, stream] : streams_) used += stream.bandwidth;
  return used;
}

bool KernelPacingEngine::allocate_stream(int64_t stream_id, double bandwidth) {
  if (!(bandwidth > 0) || !std::isfinite(bandwidth))
    throw ArgumentError("allocate_stream", "bandwidth", "be above 0 and finite", number_text(bandwidth));
  std::lock_guard lock(mutex_);
  auto found = streams_.find(stream_id);
  const double own = found == streams_.end() ? 0 : found->second.bandwidth;
  if (used_bandwidth() - own + bandwidth > config_.total_bandwidth + kSlack) return false;
  streams_[stream_id].bandwidth = bandwidth;
  return true;
}

bool KernelPacingEngine::release_stream(int64_t stream_id) {
  std::lock_guard lock(mutex_);
  return streams_.erase(stream_id) != 0;
}

int64_t KernelPacingEngine::window_ns() const { return static_cast<int64_t>(config_.window_ms * 1e6); }

int64_t KernelPacingEngine::interval_ns(const Stream& stream) const {
  const double interval = config_.window_ms * std::max(1 - stream.bandwidth, 0.0);
  return static_cast<int64_t>(std::max(interval, config_.min_interval_ms) * 1e6);
}

int64_t KernelPacingEngine::in_window(const Stream& stream, int64_t now_ns) const {
  if (!stream.launched || now_ns - stream.window_start_ns >= window_ns()) return 0;
  return stream.launches_in_window;
}

PacingDecision KernelPacingEngine::should_launch(int64_t stream_id) const {
  using Kind = PacingDecision::Kind;
  std::lock_guard lock(mutex_);
  auto found = streams_.find(stream_id);
  if (found == streams_.end() || !found->second.launched) return {Kind::launch, 0};
  const Stream& stream = found->second;
  const int64_t now = clock_.now_ns();
  const double most = std::ceil(stream.bandwidth * kLaunchesPerWindow - kSlack);
  if (static_cast<double>(in_window(stream, now)) >= most)
    return {Kind::throttle, static_cast<double>(stream.window_start_ns + window_ns() - now) / 1e6};
  const int64_t left = stream.last_launch_ns + interval_ns(stream) - now;
  if (left > 0) return {Kind::wait, static_cast<double>(left) / 1e6};
  return {Kind::launch, 0};
}

void KernelPacingEngine::record_launch(int64_t stream_id) {
  std::lock_guard lock(mutex_);
  ++total_launches_;
  auto found = streams_.find(stream_id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  const int64_t now = clock_.now_ns();
  if (in_window(stream, now) == 0) {
    stream.launches_in_window = 0;
    stream.window_start_ns = config_.adaptive ? now : now - (now - start_ns_) % window_ns();
  }
  ++stream.launches_in_window;
  ++stream.total_launches;
  stream.last_launch_ns = now;
  stream.launched = true;
}

void KernelPacingEngine::record_throttle(int64_t stream_id) {
  std::lock_guard lock(mutex_);
  ++total_throttled_;
  if (auto found = streams_.find(stream_id); found != streams_.end()) ++found->second.throttled;
}

void KernelPacingEngine::record_wait(int64_t) {
  std::lock_guard lock(mutex_);
  ++total_waited_;
}

std::optional<StreamPacingStats> KernelPacingEngine::stream_stats(int64_t stream_id) const {
  std::lock_guard lock(mutex_);
  auto found = streams_.find(stream_id);
  if (found == streams_.end()) return std::nullopt;
  const Stream& stream = found->second;
  return StreamPacingStats{stream_id, stream.bandwidth, in_window(stream, clock_.now_ns()), stream.total_launches,
                           stream.throttled};
}

PacingStats KernelPacingEngine::stats() const {
  std::lock_guard lock(mutex_);
  const double used = used_bandwidth();
  return {static_cast<int64_t>(streams_.size()),
          used,
          config_.total_bandwidth - used,
          total_launches_,
          total_throttled_,
          total_waited_};
}

void KernelPacingEngine::reset() {
  std::lock_guard lock(mutex_);
  for (auto& [id, stream] : streams_) stream = {.bandwidth = stream.bandwidth};
  total_launches_ = total_throttled_ = total_waited_ = 0;
}

// Bytes

double TokenBucket::level(int64_t now_ns) const {
  const double burst = rate_ * kBurstSeconds;
  if (filled_ns_ == INT64_MIN) return burst;
  return std::min(burst, tokens_ + rate_ * static_cast<double>(now_ns - filled_ns_) * 1e-9);
}

void TokenBucket::set_rate(double bytes_per_second, int64_t now_ns) {
  const double level_now = rate_ > 0 ? level(now_ns) : 0;
  rate_ = bytes_per_second;
  tokens_ = std::min(level_now, rate_ * kBurstSeconds);
  filled_ns_ = now_ns;
}

int64_t TokenBucket::wait_ns(int64_t now_ns) const {
  if (!(rate_ > 0)) return 0;
  const double tokens = level(now_ns);
  return tokens > 0 ? 0 : static_cast<int64_t>(std::ceil(-tokens / rate_ * 1e9)) + 1;
}

void TokenBucket::take(double bytes, int64_t now_ns) {
  if (!(rate_ > 0)) return;
  tokens_ = level(now_ns) - bytes;
  filled_ns_ = now_ns;
}

}  // namespace gpukit::scheduler
