// What stands behind DispatchController. Internal to dispatch_controller.cpp and dispatch_gate.cpp.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "gpukit/driver/objects.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"
#include "gpukit/scheduler/dispatch/fair_share.h"
#include "gpukit/scheduler/dispatch/pacing.h"

namespace gpukit::scheduler {

/// Copies use the copy engines and are held to bytes; everything else takes the device's time.
inline bool is_copy(runtime::SubmitKind kind) {
  return kind == runtime::SubmitKind::copy_in || kind == runtime::SubmitKind::copy_out;
}
inline bool moves_bytes(runtime::SubmitKind kind) {
  return is_copy(kind) || kind == runtime::SubmitKind::copy_device || kind == runtime::SubmitKind::fill;
}

struct DispatchController::State : std::enable_shared_from_this<State> {
  using Lock = std::unique_lock<std::mutex>;

  struct Flight {
    LaunchRecord record;
    uint64_t stream = 0;         // of its entry
    uint64_t attachment = 0;     // of the stream, when it asked
    TenantId turns = kNoTenant;  // whose turn it takes
    bool counted = false;        // in its stream's in_flight
    bool fair = false;           // has its tenant's turn, or had it
    double charged_us = 0;
    double ahead_us = 0;  // what it is expected to take
    std::shared_ptr<driver::Event> begin, end;
  };
  using Streams = std::vector<std::shared_ptr<driver::Stream>>;
  /// A stream and those that stand in for it while its work runs on other SMs: one set of limits for all.
  struct StreamEntry {
    std::weak_ptr<driver::Stream> first;
    std::vector<std::weak_ptr<driver::Stream>> streams;  // under control
    StreamOptions options;                               // of attach()
    TenantId member = kNoTenant;                         // of join()
    bool attached = false, watched = false;
    bool in_use() const { return attached || watched || member != kNoTenant; }
    TenantId tenant() const { return options.tenant != kNoTenant ? options.tenant : member; }
    uint64_t attachment = 0;
    int64_t in_flight = 0;
    uint64_t cancels = 0;
    std::string why;  // of the last cancel
  };
  struct Tenant {
    TenantOptions options;
    TokenBucket bucket;
    TenantUsage usage;
    TenantId turns = kNoTenant;  // whose turns it takes while it has no weight
    std::deque<uint64_t> queue;  // tickets that wait for the tenant's turn
    // Theirs alone: waking everyone would take the processor from whoever is about to launch again.
    std::shared_ptr<std::condition_variable> turn_changed = std::make_shared<std::condition_variable>();
  };
  using Observers = std::vector<std::shared_ptr<LaunchObserver>>;
  using Notice = void (LaunchObserver::*)(const LaunchRecord&) noexcept;

  explicit State(Clock& clock);

  // dispatch_controller.cpp; each needs the lock.
  Tenant& tenant(const char* op, TenantId id);
  StreamEntry* entry(const driver::Stream& stream);
  StreamEntry* entry(uint64_t first_id);
  void drop_stream(uint64_t first_id);
  void drop_expired();
  /// The entry, made where there is none, with the stream and the one it stands in for under control. Null when another
  /// control has the stream. What `held` gets must go after the lock.
  StreamEntry* take(StreamControl* self, const std::shared_ptr<driver::Stream>& stream, Streams& held);
  /// Whoever waits by the old rules passes freely.
  void let_pass(StreamEntry& entry);
  /// Ends what stands at the gate of an entry that is not in use.
  void settle_entry(StreamControl* self, uint64_t first_id, Streams& held);
  /// Whose turns the tenant takes.
  TenantId turns_of(TenantId id) const;
  void set_weight(TenantId id, Tenant& of, double weight);
  TenantUsage usage_of(TenantId id, const Tenant& of) const;
  void tell(Lock& lock, Notice notice, const LaunchRecord& record);  // lets the lock go meanwhile

  // dispatch_gate.cpp
  struct Wait {
    uint64_t ticket, stream_id, attachment, cancels;
    int64_t checked_ns;  // when signals were last looked for
  };
  /// The stream's entry as it was when the wait began, null once detached. Throws Error when closed or cancelled.
  StreamEntry* still(const Wait& wait);
  /// Sleeps until something changes or `ns` have passed (negative: no limit).
  void pause(Lock& lock, Wait& wait, int64_t ns);
  void look_for_signals(Lock& lock, Wait& wait);
  bool room_for_turn() const;
  /// Wakes the tenant that may have its turn now.
  void wake_turn();
  /// Rules have changed: wakes all that wait for anything.
  void wake_all();
  void wait_for_limits(Lock& lock, Wait& wait);
  void wait_for_turn(Lock& lock, Wait& wait);
  void mark_begin(Lock& lock, uint64_t ticket, const std::shared_ptr<driver::Stream>& stream);
  std::shared_ptr<driver::Event> take_event(Lock& lock, driver::Context& context);
  void finish(uint64_t ticket, KernelState state, int code) noexcept;
  void settle(Flight& flight, double device_us);
  void count(const LaunchRecord& record);

  Clock& clock;
  const uint64_t generation;  // of the process that made it
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::unordered_map<uint64_t, StreamEntry> streams;
  std::map<TenantId, Tenant> tenants;
  std::map<uint64_t, Flight> flights;
  std::deque<LaunchRecord> over;
  std::map<std::string, KernelStatistics, std::less<>> kernels;
  KernelPacingEngine pacing;
  FairShare fair;
  uint64_t turn = 0;  // the ticket let through and not yet submitted
  double fair_ahead_us = 0;
  int fair_running = 0;                     // let through and not completed
  std::shared_ptr<driver::Event> last_end;  // of the last fair submission, while it may still run
  uint64_t last_stream = 0;
  std::vector<std::shared_ptr<driver::Event>> spare;
  std::shared_ptr<const Observers> observers;
  std::string closed;  // why; empty while open
  int64_t waiting = 0, submitting = 0;
  uint64_t next_ticket = 0, next_attachment = 0;
  TenantId next_tenant = kNoTenant;
};

}  // namespace gpukit::scheduler
