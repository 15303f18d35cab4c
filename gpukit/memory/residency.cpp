#include "gpukit/memory/residency.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/memory/hold.h"
#include "gpukit/memory/mover.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// Uses between two marks of a stream: how exactly it is known what has completed while work is under way.
constexpr uint64_t kMarkEvery = 16;

/// How long a fork waits for a move. The one who moves may wait for a thread that needs what the forking one holds.
constexpr std::chrono::seconds kForkWait{1};

}  // namespace

Residency::Residency(PoolState& pool, size_t host_limit) : pool_(pool), arena_(pool.context, host_limit) {}
Residency::~Residency() = default;

Residency::Token::Token(Residency& residency, Lock& lock) : residency_(residency), lock_(lock) {
  residency_.changed_.wait(lock, [&] { return !residency_.token_taken_; });
  residency_.token_taken_ = true;
}

Residency::Token::~Token() {
  residency_.token_taken_ = false;
  residency_.changed();
}

namespace {
// Allocations of managed blocks under way in this thread: at most one.
thread_local int t_arrivals = 0;
}  // namespace

Residency::Arrival::Arrival(Residency& residency) : residency_(residency) {
  std::lock_guard lock(residency_.mutex_);
  ++residency_.arrivals_;
  ++t_arrivals;
}

Residency::Arrival::~Arrival() {
  std::lock_guard lock(residency_.mutex_);
  --residency_.arrivals_;
  --t_arrivals;
  residency_.changed();
}

int Residency::own_arrivals() { return t_arrivals; }

ResidentRecord& Residency::record_of(const Storage& storage) { return *storage.record_; }

Unit& Residency::unit_of(const Storage& storage) {
  ResidentRecord& record = *storage.record_;
  if (record.group != nullptr) return *record.group;
  return record;
}

// Lists

void Residency::link(Unit& unit) {
  List& list = lists_[unit.priority];
  unit.previous = list.back;
  unit.next = nullptr;
  (list.back != nullptr ? list.back->next : list.front) = &unit;
  list.back = &unit;
}

void Residency::unlink(Unit& unit) noexcept {
  List& list = lists_[unit.priority];
  (unit.previous != nullptr ? unit.previous->next : list.front) = unit.next;
  (unit.next != nullptr ? unit.next->previous : list.back) = unit.previous;
  unit.previous = unit.next = nullptr;
}

void Residency::add(Storage& storage) noexcept {
  ResidentRecord& record = record_of(storage);
  record.residency = this;
  g_managed_blocks.fetch_add(1, std::memory_order_relaxed);
  std::optional<Mark> mark;
  {
    std::lock_guard lock(mutex_);
    link(record);
    // The stream may still wait for earlier users of the memory: until then the block is in use.
    mark = note(record, storage.home_);
  }
  record_and_add(std::move(mark));
}

void Residency::remove(Storage& storage) noexcept {
  ResidentRecord& record = record_of(storage);
  g_managed_blocks.fetch_sub(1, std::memory_order_relaxed);
  // Its last owner is gone, so no thread moves it; others see that it is leaving and wait for its memory.
  if (!record.out) {
    if (storage.block_.bytes != 0) pool_.release(storage.block_, storage.home_, storage.other_streams_);
  } else if (record.dropped) {
    pool_.release_dropped(storage.block_);
  }
  std::lock_guard lock(mutex_);
  drop_copy(record);
  if (record.out) {
    evicted_bytes_ -= storage.block_.bytes;
    Account::bump(record.account->evicted_bytes_, size_t{0} - storage.block_.bytes);
    Account::bump(record.account->evicted_blocks_, -1);
  }
  if (record.group != nullptr)
    std::erase(record.group->members, &record);
  else
    unlink(record);
  changed();
}

// Uses

void Residency::record(Mark& mark) {
  if (is_capturing(*mark.stream)) return;
  auto event = std::make_shared<driver::Event>(mark.stream->context());
  event->record(*mark.stream);
  mark.event = std::move(event);
}

void Residency::add_mark(Mark mark) {
  auto marks = marks_.find(mark.stream->id());
  // Another thread may have been faster with a later one.
  if (mark.event == nullptr || marks == marks_.end() || mark.number <= marks->second.marked) return;
  marks->second.events.emplace_back(mark.number, std::move(mark.event));
  marks->second.marked = mark.number;
}

void Residency::record_and_add(std::optional<Mark> mark) noexcept {
  if (!mark) return;
  try {
    RelaxedCapture relaxed(pool_.context);
    record(*mark);
    std::lock_guard lock(mutex_);
    add_mark(*mark);
    if (auto marks = marks_.find(mark->stream->id()); marks != marks_.end()) forget_completed(marks->second);
    if (marks_.size() >= tidy_marks_at_) drop_dead_streams();
  } catch (...) {
    // The next use, or whoever asks, tries again.
  }
}

std::optional<Residency::Mark> Residency::note(Unit& unit, const std::shared_ptr<driver::Stream>& stream) noexcept {
  StreamMarks& marks = marks_[stream->id()];
  const bool first = marks.stream == nullptr;
  if (first) marks.stream = stream;
  const uint64_t number = ++marks.noted;
  auto known = std::find_if(unit.uses.begin(), unit.uses.end(), [&](StreamUse& u) { return u.stream == stream->id(); });
  if (known != unit.uses.end())
    known->number = number;
  else
    unit.uses.push_back({stream->id(), number});
  move_to_back(unit);
  const bool due = number - marks.marked >= kMarkEvery || (first && marks_.size() >= tidy_marks_at_);
  if (!due || stream->capture.load(std::memory_order_relaxed) != nullptr) return std::nullopt;
  return Mark{stream, number, nullptr};
}

void Residency::note_use(Storage& storage, const std::shared_ptr<driver::Stream>& stream) noexcept {
  std::optional<Mark> mark;
  {
    std::lock_guard lock(mutex_);
    mark = note(unit_of(storage), stream);
  }
  record_and_add(std::move(mark));
}

void Residency::forget_completed(StreamMarks& marks) {
  while (!marks.events.empty() && marks.events.front().second->query()) {
    marks.completed = marks.events.front().first;
    marks.events.pop_front();
  }
}

// A stream that no one else knows gets no more work: what it did is over when its marks are.
void Residency::drop_dead_streams() {
  for (auto it = marks_.begin(); it != marks_.end();) {
    StreamMarks& marks = it->second;
    const bool dead = marks.stream.use_count() == 1;
    if (dead && marks.noted != marks.marked) {
      Mark mark{marks.stream, marks.noted, nullptr};
      record(mark);
      add_mark(std::move(mark));
    }
    if (dead) forget_completed(marks);
    it = dead && marks.completed == marks.noted ? marks_.erase(it) : std::next(it);
  }
  tidy_marks_at_ = 2 * marks_.size() + 64;
}

void Residency::refresh_marks(Lock& lock) {
  std::vector<Mark> due;
  for (const auto& [id, marks] : marks_)
    if (marks.noted != marks.marked) due.push_back({marks.stream, marks.noted, nullptr});
  if (!due.empty()) {
    std::exception_ptr failure;
    lock.unlock();
    try {
      for (Mark& mark : due) record(mark);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    for (Mark& mark : due) add_mark(std::move(mark));
    due.clear();
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  for (auto& [id, marks] : marks_) forget_completed(marks);
  drop_dead_streams();
}

bool Residency::finished(Unit& unit) const {
  std::erase_if(unit.uses, [&](const StreamUse& use) {
    auto marks = marks_.find(use.stream);
    return marks == marks_.end() || marks->second.completed >= use.number;
  });
  return unit.uses.empty();
}

bool Residency::can_finish(const Unit& unit) const {
  return std::all_of(unit.uses.begin(), unit.uses.end(), [&](const StreamUse& use) {
    auto marks = marks_.find(use.stream);
    if (marks == marks_.end() || marks->second.marked >= use.number) return true;
    // Noted since the last marks were made: the next ones cover it.
    return !is_capturing(*marks->second.stream);
  });
}

void Residency::wait_finished(Unit& unit, Lock& lock) {
  std::vector<std::shared_ptr<driver::Event>> events;
  for (const StreamUse& use : unit.uses) {
    auto marks = marks_.find(use.stream);
    if (marks == marks_.end()) continue;
    for (const auto& [number, event] : marks->second.events) {
      if (number < use.number) continue;
      events.push_back(event);
      break;
    }
  }
  if (events.empty()) return;
  lock.unlock();
  const int64_t begin = real_clock().now_ns();
  std::exception_ptr failure;
  try {
    RelaxedCapture relaxed(pool_.context);
    for (const auto& event : events) event->synchronize();
  } catch (...) {
    failure = std::current_exception();
  }
  const int64_t end = real_clock().now_ns();
  lock.lock();
  ++waits_;
  wait_ns_ += end - begin;
  if (failure != nullptr) std::rethrow_exception(failure);
}

// Holds

void Residency::acquire(std::span<Storage* const> storages) {
  Lock lock(mutex_);
  auto all_here = [&] {
    return std::all_of(storages.begin(), storages.end(),
                       [](const Storage* s) { return unit_of(*s).where == Where::device; });
  };
  if (!all_here()) {
    with_token(lock, [&] {
      std::vector<Unit*> units;
      for (Storage* storage : storages) units.push_back(&unit_of(*storage));
      bring(std::move(units), lock);
      for (Storage* storage : storages) ++unit_of(*storage).holds;
    });
    return;
  }
  for (Storage* storage : storages) ++unit_of(*storage).holds;
}

void Residency::release(std::span<Storage* const> storages) noexcept {
  std::lock_guard lock(mutex_);
  for (Storage* storage : storages) --unit_of(*storage).holds;
  changed();
}

driver::Address Residency::pin(Storage& storage) {
  Lock lock(mutex_);
  if (unit_of(storage).where != Where::device) {
    with_token(lock, [&] {
      bring({&unit_of(storage)}, lock);
      ++record_of(storage).pins;
    });
    return storage.block_.address;
  }
  ++record_of(storage).pins;
  return storage.block_.address;
}

void Residency::unpin(Storage& storage) noexcept {
  std::lock_guard lock(mutex_);
  --record_of(storage).pins;
  changed();
}

void Residency::graph_hold(Storage& storage, int change) noexcept {
  std::lock_guard lock(mutex_);
  record_of(storage).graph_holds += change;
  changed();
}

bool Residency::resident(const Storage& storage) const {
  std::lock_guard lock(mutex_);
  return !record_of(storage).out;
}

std::optional<driver::Address> Residency::address_now(const Storage& storage) const {
  std::lock_guard lock(mutex_);
  if (record_of(storage).out) return std::nullopt;
  return storage.block_.address;
}

std::optional<std::string> Residency::evicted_bytes(const Storage& storage) {
  std::optional<std::string> bytes;
  // With the token no one moves it meanwhile.
  Lock lock(mutex_);
  Token token(*this, lock);
  if (!record_of(storage).out) return bytes;
  const auto* host = static_cast<const char*>(record_of(storage).host);
  const std::shared_ptr<ByteSource> source = record_of(storage).source;
  lock.unlock();
  try {
    if (host != nullptr) {
      bytes.emplace(host, storage.bytes());
    } else {
      bytes.emplace(storage.bytes(), '\0');
      for (const auto& part : source->parts()) source->read(part.offset, bytes->data() + part.offset, part.bytes);
    }
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
  return bytes;
}

void Residency::set_priority(Storage& storage, int priority) {
  std::lock_guard lock(mutex_);
  ResidentRecord& record = record_of(storage);
  if (record.group != nullptr) {
    record.priority = priority;
    return;
  }
  unlink(record);
  record.priority = priority;
  link(record);
}

int Residency::priority(const Storage& storage) const {
  std::lock_guard lock(mutex_);
  return record_of(storage).priority;
}

void Residency::touch(Storage& storage) {
  std::lock_guard lock(mutex_);
  move_to_back(unit_of(storage));
}

void Residency::stop_for_fork() {
  Lock lock(mutex_);
  taken_for_fork_ = changed_.wait_for(lock, kForkWait, [&] { return !token_taken_; });
  if (taken_for_fork_) token_taken_ = true;
}

void Residency::lock_for_fork() {
  mutex_.lock();
  arena_.mutex().lock();
}

// No launch of theirs is being submitted, and what they moved or destroyed stays as it is: bytes in host memory are
// whole, else those on the device are.
void Residency::forget_other_threads() {
  auto gone = [](const ResidentRecord* record) { return record->storage.weak_from_this().expired(); };
  auto evicted = [](const ResidentRecord* record) { return record->out; };
  for (auto& [priority, list] : lists_) {
    for (Unit *unit = list.front, *next = nullptr; unit != nullptr; unit = next) {
      next = unit->next;
      bool in_host = false;
      if (unit->is_group) {
        auto& members = static_cast<GroupRecord*>(unit)->members;
        std::erase_if(members, gone);
        in_host = std::any_of(members.begin(), members.end(), evicted);
      } else {
        auto* record = static_cast<ResidentRecord*>(unit);
        if (gone(record)) {
          unlink(*record);
          continue;
        }
        in_host = evicted(record);
      }
      unit->holds = unit->reserved = 0;
      if (unit->is_group) static_cast<GroupRecord*>(unit)->turns = 0;
      if (unit->where == Where::moving) unit->where = in_host ? Where::host : Where::device;
    }
  }
}

void Residency::unlock_after_fork(bool child) {
  if (child) {
    forget_other_threads();
    token_taken_ = false;
    arrivals_ = own_arrivals();
    new (&changed_) std::condition_variable;
  } else if (taken_for_fork_) {
    token_taken_ = false;
    changed();
  }
  arena_.mutex().unlock();
  mutex_.unlock();
}

void Residency::add_to(ResourceStats* stats) const {
  {
    std::lock_guard lock(mutex_);
    stats->evictions = evictions_;
    stats->restores = restores_;
    stats->waits += waits_;
    stats->wait_ns += wait_ns_;
    stats->evicted_bytes = static_cast<int64_t>(evicted_bytes_);
  }
  stats->host_bytes = static_cast<int64_t>(arena_.reserved());
  stats->host_limit = static_cast<int64_t>(arena_.limit());
}

int64_t Residency::trim_host() noexcept { return static_cast<int64_t>(arena_.trim()); }

}  // namespace gpukit::memory
