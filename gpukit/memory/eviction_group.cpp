#include "gpukit/memory/eviction_group.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/memory/pool.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

// Groups as the residency sees them

void Residency::add(GroupRecord& group) {
  std::lock_guard lock(mutex_);
  link(group);
}

void Residency::join(const std::shared_ptr<GroupRecord>& group, Storage& storage) {
  std::vector<std::shared_ptr<driver::Stream>> streams;  // go after the lock
  Lock lock(mutex_);
  with_token(lock, [&] { streams = join(group, storage, lock); });
}

/// Streams of replays, to be let go without the lock.
std::vector<std::shared_ptr<driver::Stream>> Residency::join(const std::shared_ptr<GroupRecord>& group,
                                                             Storage& storage, Lock& lock) {
  std::vector<std::shared_ptr<driver::Stream>> streams;
  ResidentRecord& record = record_of(storage);
  if (record.group == group) return streams;
  if (record.group != nullptr) throw Error("EvictionGroup.add: the block belongs to another group");
  bring({&record, group.get()}, lock);
  changed_.wait(lock, [&] { return record.holds == 0; });
  group->members.push_back(&record);
  unlink(record);
  record.group = group;
  for (const StreamUse& use : record.uses) {
    auto known = std::find_if(group->uses.begin(), group->uses.end(),
                              [&](const StreamUse& other) { return other.stream == use.stream; });
    if (known == group->uses.end())
      group->uses.push_back(use);
    else
      known->number = std::max(known->number, use.number);
  }
  record.uses.clear();
  // Replays were noted for groups only.
  if (record.graph_holds == 0) return streams;
  streams = storage.streams();
  for (const auto& stream : streams) note(*group, stream);
  return streams;
}

void Residency::dissolve(GroupRecord& group) noexcept {
  Lock lock(mutex_);
  Token token(*this, lock);
  changed_.wait(lock, [&] { return group.holds == 0; });
  std::vector<std::shared_ptr<GroupRecord>> last;
  for (ResidentRecord* member : group.members) {
    member->where = member->out ? Where::host : Where::device;
    member->uses = group.uses;
    last.push_back(std::move(member->group));
    member->group = nullptr;
    link(*member);
  }
  group.members.clear();
  unlink(group);
}

size_t Residency::evict_group(GroupRecord& group) {
  RelaxedCapture relaxed(pool_.context);
  Lock lock(mutex_);
  Token token(*this, lock);
  if (group.where != Where::device || group.members.empty()) return 0;
  return evict_unit(group, "EvictionGroup.evict", lock);
}

void Residency::restore_group(GroupRecord& group) {
  Lock lock(mutex_);
  with_token(lock, [&] { bring({&group}, lock); });
}

bool Residency::resident(const GroupRecord& group) const {
  std::lock_guard lock(mutex_);
  return group.where == Where::device;
}

size_t Residency::size(const GroupRecord& group) const {
  std::lock_guard lock(mutex_);
  return group.members.size();
}

size_t Residency::bytes(const GroupRecord& group) const {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const ResidentRecord* member : group.members) bytes += member->storage.bytes();
  return bytes;
}

void Residency::set_priority(GroupRecord& group, int priority) {
  std::lock_guard lock(mutex_);
  unlink(group);
  group.priority = priority;
  link(group);
}

void Residency::note_group_use(std::span<Storage* const> storages,
                               const std::shared_ptr<driver::Stream>& stream) noexcept {
  std::optional<Mark> mark;
  {
    std::lock_guard lock(mutex_);
    std::vector<GroupRecord*> groups;
    for (Storage* storage : storages) {
      GroupRecord* group = record_of(*storage).group.get();
      if (group == nullptr || std::find(groups.begin(), groups.end(), group) != groups.end()) continue;
      groups.push_back(group);
      if (auto due = note(*group, stream)) mark = std::move(due);
    }
  }
  record_and_add(std::move(mark));
}

// Public face

EvictionGroup::EvictionGroup(Pool& pool) : record_(std::make_shared<GroupRecord>(*pool.residency())) {
  record_->residency.add(*record_);
}

EvictionGroup::~EvictionGroup() { record_->residency.dissolve(*record_); }

void EvictionGroup::add(const std::shared_ptr<Storage>& storage) {
  if (storage == nullptr || !storage->managed() || storage->record_->residency != &record_->residency)
    throw Error("EvictionGroup.add: the block must come from an account of this device that evicts");
  record_->residency.join(record_, *storage);
}

size_t EvictionGroup::evict() { return record_->residency.evict_group(*record_); }
void EvictionGroup::restore() { record_->residency.restore_group(*record_); }
bool EvictionGroup::resident() const { return record_->residency.resident(*record_); }
size_t EvictionGroup::size() const { return record_->residency.size(*record_); }
size_t EvictionGroup::bytes() const { return record_->residency.bytes(*record_); }
void EvictionGroup::set_priority(int priority) { record_->residency.set_priority(*record_, priority); }

GroupHold::GroupHold(std::span<const std::shared_ptr<Storage>> storages) {
  if (storages.empty()) return;
  storages_.reserve(storages.size());
  for (const auto& storage : storages) storages_.push_back(storage.get());
  Residency::of(*storages_.front())->acquire(storages_);
}

GroupHold::~GroupHold() {
  if (!storages_.empty()) Residency::of(*storages_.front())->release(storages_);
}

void GroupHold::note_use(const std::shared_ptr<driver::Stream>& stream) {
  if (!storages_.empty()) Residency::of(*storages_.front())->note_group_use(storages_, stream);
}

}  // namespace gpukit::memory
