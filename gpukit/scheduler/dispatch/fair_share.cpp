#include "gpukit/scheduler/dispatch/fair_share.h"

#include <algorithm>

namespace gpukit::scheduler {
namespace {

// Between two launches a tenant still counts as there.
constexpr int64_t kGraceNs = 2'000'000;
// What a tenant may catch up on after it did not use its share.
constexpr double kLagUs = 20'000;
constexpr double kLagPieces = 8;  // at least that many of the longest pieces of work around
constexpr double kAverageWeight = 0.25;
constexpr int kMostLate = 2;
constexpr double kHoldPart = 0.2;  // of the time given
constexpr double kHoldMostUs = 2'000;

}  // namespace

FairShare::FairShare() : hold_us_(kHoldMostUs) {}

void FairShare::add(Id tenant, double weight) {
  Tenant& added = tenants_[tenant];
  added.weight = weight;
  added.virtual_us = virtual_us_;
}

void FairShare::set_weight(Id tenant, double weight) { tenants_.at(tenant).weight = weight; }

void FairShare::remove(Id tenant) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return;
  waiting_ -= found->second.waiting;
  running_ -= found->second.running;
  tenants_.erase(found);
}

bool FairShare::active(const Tenant& tenant, int64_t now_ns) {
  return tenant.waiting > 0 || tenant.running > 0 || now_ns - tenant.seen_ns < kGraceNs;
}

void FairShare::arrive(Id id, int64_t now_ns) {
  Tenant& tenant = tenants_.at(id);
  double weights = tenant.weight, longest = tenant.average_us;
  for (const auto& [other, state] : tenants_) {
    if (other == id || !active(state, now_ns)) continue;
    weights += state.weight;
    longest = std::max(longest, state.average_us);
  }
  // Who comes back after a pause starts where the others are.
  const double lag = active(tenant, now_ns) ? std::max(kLagUs, kLagPieces * longest) / weights : 0;
  tenant.virtual_us = std::max(tenant.virtual_us, virtual_us_ - lag);
  if (tenant.waiting == 0) tenant.late = now_ns - tenant.seen_ns < kHoldNs ? 0 : tenant.late + 1;
  ++tenant.waiting;
  if (++waiting_ == 1 && running_ == 0) idle_since_ns_ = now_ns;
  tenant.seen_ns = now_ns;
}

void FairShare::leave(Id id, int64_t now_ns) {
  auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  --found->second.waiting;
  --waiting_;
  found->second.seen_ns = now_ns;
}

FairShare::Id FairShare::pick(bool idle, int64_t now_ns) const {
  const Tenant* behind = nullptr;  // of those that are between two launches
  const Tenant* waiting = nullptr;
  Id waiting_id = kNone;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.waiting > 0) {
      if (waiting != nullptr && waiting->virtual_us <= tenant.virtual_us) continue;
      waiting = &tenant;
      waiting_id = id;
    } else if (tenant.late <= kMostLate &&
               (idle ? hold_us_ > 0 && now_ns - tenant.seen_ns < kHoldNs : active(tenant, now_ns))) {
      if (behind == nullptr || tenant.virtual_us < behind->virtual_us) behind = &tenant;
    }
  }
  if (waiting == nullptr) return kNone;
  return behind != nullptr && behind->virtual_us < waiting->virtual_us ? kNone : waiting_id;
}

void FairShare::charge(Tenant& tenant, double us, int64_t now_ns) {
  double weights = 0;
  for (const auto& [id, state] : tenants_)
    if (active(state, now_ns)) weights += state.weight;
  tenant.virtual_us += us / tenant.weight;
  virtual_us_ += us / std::max(weights, tenant.weight);
}

double FairShare::start(Id id, int64_t now_ns) {
  Tenant& tenant = tenants_.at(id);
  if (running_ == 0) hold_us_ -= static_cast<double>(now_ns - idle_since_ns_) / 1e3;
  --tenant.waiting;
  --waiting_;
  ++tenant.running;
  ++running_;
  tenant.seen_ns = now_ns;
  const double charged = tenant.average_us;
  charge(tenant, charged, now_ns);
  return charged;
}

void FairShare::finish(Id id, double charged_us, double actual_us, int64_t now_ns) {
  auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  Tenant& tenant = found->second;
  charge(tenant, std::max(actual_us, 0.0) - charged_us, now_ns);
  if (tenant.running > 0) {
    --tenant.running;
    if (--running_ == 0) idle_since_ns_ = now_ns;
  }
  tenant.seen_ns = now_ns;
  if (actual_us < 0) return;
  hold_us_ = std::min(hold_us_ + kHoldPart * actual_us, kHoldMostUs);
  tenant.average_us += tenant.average_us == 0 ? actual_us : kAverageWeight * (actual_us - tenant.average_us);
}

}  // namespace gpukit::scheduler
