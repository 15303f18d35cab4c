// Weighted fair sharing of one device's time: who runs next. Pure bookkeeping; the caller holds the lock and the clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace gpukit::scheduler {

/// Each tenant has a virtual time that advances by measured time / weight; the one furthest behind runs next. Costs are
/// known only when work has run, so a start is charged with the tenant's recent average and corrected at the end.
class FairShare {
 public:
  using Id = uint64_t;

  FairShare();

  /// `weight` above 0.
  void add(Id tenant, double weight);
  void set_weight(Id tenant, double weight);
  void remove(Id tenant);
  bool has(Id tenant) const { return tenants_.contains(tenant); }

  /// One more piece of work of the tenant waits, or has given up waiting.
  void arrive(Id tenant, int64_t now_ns);
  void leave(Id tenant, int64_t now_ns);

  static constexpr Id kNone = ~Id{0};
  /// Who launches again within this time counts as back to back.
  static constexpr int64_t kHoldNs = 500'000;
  /// Whose work starts next, kNone when none may. The place is kept for the tenant furthest behind if it launches back
  /// to back, so that it is not passed over for being between two launches: while something runs (`idle` false) that
  /// costs no time, else it lasts for kHoldNs at most, and all such pauses for a fifth of the time given; ask again
  /// then.
  Id pick(bool idle, int64_t now_ns) const;

  /// The tenant's work starts: takes it from those that wait. Returns the charge, to be given to finish().
  double start(Id tenant, int64_t now_ns);
  /// `actual_us` negative: never ran, the charge is taken back.
  void finish(Id tenant, double charged_us, double actual_us, int64_t now_ns);

  size_t size() const { return tenants_.size(); }

 private:
  struct Tenant {
    double weight = 1;
    double virtual_us = 0;  // time received / weight
    double average_us = 0;  // of recent work
    int waiting = 0, running = 0;
    int64_t seen_ns = INT64_MIN / 2;
    int late = 0;  // how often in a row it did not come back within kHoldNs
  };
  static bool active(const Tenant& tenant, int64_t now_ns);
  void charge(Tenant& tenant, double us, int64_t now_ns);
  std::map<Id, Tenant> tenants_;
  double virtual_us_ = 0;  // time given / weight of those that were active
  int waiting_ = 0, running_ = 0;
  int64_t idle_since_ns_ = 0;  // while some wait and nothing runs
  double hold_us_;             // what pauses may still cost
};

}  // namespace gpukit::scheduler
