// The control at the launch gate: in-flight limits, pacing, fair shares of GPU time, bandwidth, and a record of every
// submission with its times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/base/device.h"
#include "gpukit/runtime/stream_control.h"
#include "gpukit/scheduler/dispatch/dispatch_state.h"

namespace gpukit::scheduler {

using TenantId = uint64_t;
inline constexpr TenantId kNoTenant = 0;

/// Who a stream's work is for.
struct TenantOptions {
  std::string name;
  /// Above 0: a share weight / (sum of the weights that want to run) of the device's time. Work of such tenants runs
  /// one piece at a time, in the order of their shares. 0: not held to a share.
  double weight = 0;
  /// Above 0: what copies and fills of this tenant may move in a second.
  double bytes_per_second = 0;
};

struct StreamOptions {
  TenantId tenant = kNoTenant;
  int max_in_flight = 0;        // submitted and not completed; 0: no limit
  double launch_bandwidth = 0;  // above 0: launches follow the rules of KernelPacingEngine
};

/// One submission, from the moment it asks to be let through. Times are those of the controller's clock; 0: not yet.
struct LaunchRecord {
  uint64_t id = 0;
  std::string name;
  runtime::SubmitKind kind = runtime::SubmitKind::kernel;
  size_t bytes = 0;
  uint64_t stream_id = 0;
  TenantId tenant = kNoTenant;
  std::string context;  // the tenant's name
  std::string note;     // of the LaunchNote in force: `slice 2 of 7`, `unsliced`
  KernelState state = KernelState::queued;
  int64_t queued_ns = 0, launched_ns = 0, completed_ns = 0;
  double device_us = -1;  // between its two events on the device; negative: not measured
  int code = 0;           // the driver's, when failed
};

struct KernelStatistics {
  std::string name;
  runtime::SubmitKind kind = runtime::SubmitKind::kernel;
  int64_t count = 0, failed = 0;
  double total_us = 0, min_us = 0, max_us = 0;  // device time of those that completed
};

struct TenantUsage {
  TenantId id = kNoTenant;
  std::string name;
  double weight = 0, bytes_per_second = 0;
  int streams = 0;
  int64_t pending_kernels = 0, pending_copies = 0;  // asked and not completed
  int64_t kernels = 0, copies = 0, failed = 0;      // completed; graphs and host functions count as kernels
  int64_t bytes = 0;                                // moved by copies and fills
  double device_us = 0;                             // of kernels
  double wait_us = 0;                               // held back at the gate, all together
};

/// Told of every submission of a controller, on the thread where it happens, with no lock held.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void on_queued(const LaunchRecord&) noexcept {}
  virtual void on_launched(const LaunchRecord&) noexcept {}
  /// Completed, failed or cancelled.
  virtual void on_completed(const LaunchRecord&) noexcept {}
};

/// While it exists, what this thread submits is recorded with the note.
class LaunchNote {
 public:
  explicit LaunchNote(std::string text);
  ~LaunchNote();
  LaunchNote(const LaunchNote&) = delete;
  LaunchNote& operator=(const LaunchNote&) = delete;
  static const std::string* current();

 private:
  std::string text_;
  const std::string* previous_;
};

/// Controls any number of streams of one device. Thread-safe.
class DispatchController final : public runtime::StreamControl {
 public:
  /// The controller of a device, made at first use and never destroyed. A stream has one control: use this one.
  static DispatchController& of(Device device);

  explicit DispatchController(Clock& clock = real_clock());
  /// Wakes who waits with an error and detaches every stream. No thread may be about to submit to one of them.
  ~DispatchController() override;

  TenantId add_tenant(const TenantOptions& options);
  /// Throws ArgumentError for an unknown tenant or a bad value.
  void set_weight(TenantId tenant, double weight);
  void set_bytes_per_second(TenantId tenant, double bytes_per_second);
  /// While it has no weight of its own, work of `tenant` takes turns as work of `other` does; kNoTenant: it takes none.
  /// False when one of them is unknown.
  bool set_turns(TenantId tenant, TenantId other);
  /// Detaches its streams; those that joined leave. What waits goes on without control.
  void remove_tenant(TenantId tenant);

  /// Takes the stream under control, or changes its options; they stay with it when its work moves to other SMs. Throws
  /// Error when another control has it, ArgumentError for an unknown tenant, a bad value, or a launch_bandwidth above
  /// what is left.
  void attach(const std::shared_ptr<driver::Stream>& stream, const StreamOptions& options = {});
  /// Later submissions pass freely, and so does what waits; what is in flight is still recorded.
  void detach(const std::shared_ptr<driver::Stream>& stream);
  /// The stream's work is of `tenant` where attach() names no tenant; what attach() set stays. False when another
  /// control has the stream.
  bool join(const std::shared_ptr<driver::Stream>& stream, TenantId tenant);
  void leave(const std::shared_ptr<driver::Stream>& stream);
  /// Attached or joined.
  bool attached(const driver::Stream& stream) const;
  /// Records what passes without a limit of its own, also while it is attached, and beyond that. False when another
  /// control has the stream.
  bool watch(const std::shared_ptr<driver::Stream>& stream);
  void unwatch(const std::shared_ptr<driver::Stream>& stream);
  /// Who waits at the gate of `stream` gets Error(why).
  void cancel_waiting(const driver::Stream& stream, const std::string& why);

  void add_observer(std::shared_ptr<LaunchObserver> observer);
  void remove_observer(const std::shared_ptr<LaunchObserver>& observer);

  int64_t in_flight(const driver::Stream& stream) const;  // submitted and not completed
  int64_t waiting() const;                                // threads held back now
  /// Waits until nothing is in flight; lets signals through.
  void drain() const;
  TenantUsage usage(TenantId tenant) const;  // throws ArgumentError for an unknown one
  std::vector<TenantUsage> usage() const;
  /// By name, the one with the most device time first.
  std::vector<KernelStatistics> kernel_statistics() const;
  /// What is over, oldest first, at most `limit` of the last kRecords, then what is not.
  std::vector<LaunchRecord> records(size_t limit = kRecords) const;
  void reset_statistics();
  static constexpr size_t kRecords = 4096;

  // StreamControl
  uint64_t admit(const std::shared_ptr<driver::Stream>& stream, const char* name, runtime::SubmitKind kind,
                 size_t bytes) override;
  void submitted(uint64_t ticket, const std::shared_ptr<driver::Stream>& stream, int code) noexcept override;
  void moved(const std::shared_ptr<driver::Stream>& from, const std::shared_ptr<driver::Stream>& to) override;

 private:
  struct State;
  void follow(const std::shared_ptr<driver::Stream>& stream);
  std::shared_ptr<State> state_;  // shared with the waiter's callbacks
};

}  // namespace gpukit::scheduler
