// Blocks that no one changes any more, whose eviction copies nothing, and the turns of groups.
#include <algorithm>
#include <chrono>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// How long a group that no thread works with is left alone: a program is on its way from one step to the next.
constexpr int64_t kBetweenTurns = 2'000'000;

/// How often a thread looks whether the turn of another is over.
constexpr std::chrono::milliseconds kLookForTurn{2};

thread_local GroupTurn* t_turn = nullptr;

}  // namespace

// Frozen blocks

void Residency::freeze(Storage& storage, std::shared_ptr<ByteSource> source) {
  if (source != nullptr) {
    for (const ByteSource::Part& part : source->parts())
      if (part.offset > storage.bytes() || part.bytes > storage.bytes() - part.offset)
        throw Error("freeze: a part of the source lies outside the block of " + std::to_string(storage.bytes()) +
                    " bytes");
  }
  std::shared_ptr<ByteSource> before;  // goes after the lock
  Lock lock(mutex_);
  Token token(*this, lock);
  ResidentRecord& record = record_of(storage);
  before = std::exchange(record.source, std::move(source));
  record.frozen = true;
}

void Residency::melt(Storage& storage) noexcept {
  ResidentRecord& record = record_of(storage);
  if (!record.frozen.load(std::memory_order_relaxed)) return;
  std::shared_ptr<ByteSource> source;  // goes after the lock
  std::lock_guard lock(mutex_);
  record.frozen = false;
  source = std::move(record.source);
  drop_copy(record);
}

void Residency::drop_copy(ResidentRecord& record) noexcept {
  if (record.host == nullptr) return;
  arena_.release(std::exchange(record.host, nullptr));
  const auto held = host_bytes_.find(record.account.get());
  held->second -= record.storage.block_.bytes;
  if (held->second == 0) host_bytes_.erase(held);
}

bool Residency::drop_spare_copies() noexcept {
  bool any = false;
  auto drop = [&](ResidentRecord& record) {
    any = any || record.host != nullptr;
    drop_copy(record);
  };
  for (auto& [priority, list] : lists_) {
    for (Unit* unit = list.front; unit != nullptr; unit = unit->next) {
      if (unit->where != Where::device) continue;
      if (!unit->is_group) {
        drop(static_cast<ResidentRecord&>(*unit));
        continue;
      }
      for (ResidentRecord* member : static_cast<GroupRecord&>(*unit).members) drop(*member);
    }
  }
  return any;
}

void freeze(Storage& storage, std::shared_ptr<ByteSource> source) {
  if (storage.managed()) Residency::of(storage)->freeze(storage, std::move(source));
}

void melt(Storage& storage) noexcept {
  if (storage.managed()) Residency::of(storage)->melt(storage);
}

MovedBytes Residency::moved() const {
  std::lock_guard lock(mutex_);
  return {copied_out_bytes_, copied_in_bytes_, reread_bytes_, static_cast<int64_t>(arena_.used())};
}

// Turns

int64_t Residency::stays_until(const GroupRecord& group) {
  if (group.turns != 0) return group.stays_until_ns;
  return std::min(group.stays_until_ns, group.last_turn_ns + kBetweenTurns);
}

void Residency::begin_turn(GroupRecord& group) {
  Lock lock(mutex_);
  if (group.where == Where::device) {
    ++group.turns;
    return;
  }
  with_token(lock, [&] {
    bring({&group}, lock);
    ++group.turns;
  });
}

void Residency::wait_for_turn(Lock& lock) { changed_.wait_for(lock, kLookForTurn); }

void Residency::end_turn(GroupRecord& group) noexcept {
  std::lock_guard lock(mutex_);
  --group.turns;
  group.last_turn_ns = real_clock().now_ns();
  changed();
}

GroupTurn::GroupTurn(EvictionGroup& group) : record_(group.record_), outer_(t_turn) {
  record_->residency.begin_turn(*record_);
  t_turn = this;
}

GroupTurn::~GroupTurn() {
  t_turn = outer_;
  record_->residency.end_turn(*record_);
}

bool GroupTurn::is_own(const GroupRecord& group) {
  for (const GroupTurn* turn = t_turn; turn != nullptr; turn = turn->outer_)
    if (turn->record_.get() == &group) return true;
  return false;
}

}  // namespace gpukit::memory
