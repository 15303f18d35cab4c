// Choosing what leaves, and moving bytes out and in. The token is held throughout; the lock is not held while bytes
// move.
#include <algorithm>
#include <iterator>
#include <optional>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/mover.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

// A group that came back stays for some times what that took, so that most of the time goes to work and not to moves.
constexpr int64_t kStayFactor = 4, kLeastStay = 20'000'000, kMostStay = 500'000'000;

}  // namespace

// Choice

bool Residency::dying(const Unit& unit) {
  auto gone = [](const ResidentRecord* record) { return record->storage.weak_from_this().expired(); };
  if (!unit.is_group) return gone(static_cast<const ResidentRecord*>(&unit));
  const auto& members = static_cast<const GroupRecord&>(unit).members;
  return std::any_of(members.begin(), members.end(), gone);
}

bool Residency::pinned(const Unit& unit) {
  if (!unit.is_group) {
    const auto& record = static_cast<const ResidentRecord&>(unit);
    return record.pins != 0 || record.graph_holds != 0;
  }
  const auto& members = static_cast<const GroupRecord&>(unit).members;
  return std::any_of(members.begin(), members.end(), [](const ResidentRecord* member) { return member->pins != 0; });
}

bool Residency::may_leave(const Unit& unit) const {
  if (pinned(unit)) return false;
  if (!unit.is_group) return true;
  const auto& members = static_cast<const GroupRecord&>(unit).members;
  return std::any_of(members.begin(), members.end(), [&](const ResidentRecord* member) {
    return member->graph_holds == 0 || pool_.can_drop(member->storage.block_);
  });
}

namespace {

/// What leaves an account makes room above it: not where that much is kept for the account anyway.
bool makes_room(const Account& account, const Account* scope) {
  for (const Account* below = &account; below != nullptr && below != scope; below = below->parent().get())
    if (below->kept() != 0 && below->charged() <= below->kept()) return false;
  return true;
}

}  // namespace

bool Residency::in_scope(const Unit& unit, const Account* scope) {
  auto wanted = [&](const ResidentRecord* record) {
    const Account& account = *record->account;
    return account.eviction() && (scope == nullptr || scope->contains(account)) && makes_room(account, scope);
  };
  if (!unit.is_group) return wanted(static_cast<const ResidentRecord*>(&unit));
  const auto& members = static_cast<const GroupRecord&>(unit).members;
  return std::any_of(members.begin(), members.end(), wanted);
}

Unit* Residency::pick(const Account* scope, bool may_wait, Lock& lock) {
  for (;;) {
    refresh_marks(lock);
    Unit* unfinished = nullptr;
    bool busy = arrivals_ > own_arrivals();
    bool in_turn = false;  // another thread works with a group
    const int64_t now = real_clock().now_ns();
    for (auto& [priority, list] : lists_) {
      bool held = false;
      for (Unit* unit = list.front; unit != nullptr; unit = unit->next) {
        if (unit->where != Where::device || unit->reserved != 0 || !in_scope(*unit, scope) || !may_leave(*unit))
          continue;
        if (unit->holds != 0 || dying(*unit)) {
          held = true;
          continue;
        }
        if (unit->is_group) {
          const auto& group = static_cast<const GroupRecord&>(*unit);
          if (GroupTurn::is_own(group)) continue;
          if (stays_until(group) > now) {
            held = in_turn = true;
            continue;
          }
        }
        if (finished(*unit)) return unit;
        const bool can_wait = can_finish(*unit);
        if (unfinished == nullptr && can_wait) unfinished = unit;
        // Its thread captures a graph, which is soon over.
        if (!can_wait && unit->is_group && static_cast<const GroupRecord&>(*unit).turns != 0) held = in_turn = true;
      }
      busy = busy || held;
      // A higher priority leaves only when nothing below can.
      if (unfinished != nullptr || held) break;
    }
    if (!may_wait) return nullptr;
    if (unfinished != nullptr)
      wait_finished(*unfinished, lock);
    else if (in_turn)
      throw InTurn();
    else if (busy)
      changed_.wait(lock);
    else
      return nullptr;
  }
}

bool Residency::make_room(const Account* scope, size_t needed, bool holding) {
  std::vector<Moving> moving, refused;  // go after the lock
  Lock lock(mutex_);
  std::optional<Token> token;
  if (!holding) {
    // Whoever holds the token must not wait for this allocation meanwhile.
    arrivals_ -= own_arrivals();
    changed();
    token.emplace(*this, lock);
    arrivals_ += own_arrivals();
  }
  std::vector<Unit*> units, passed_over;
  size_t freed = 0;
  bool in_turn = false;
  auto come_back = [&] {
    for (Unit* unit : passed_over) --unit->reserved;
  };
  try {
    while (freed < needed) {
      Unit* unit = pick(scope, units.empty(), lock);
      if (unit == nullptr) break;
      const size_t first = moving.size();
      leaving_blocks(*unit, &moving);
      if (moving.size() == first) continue;  // its last owner has just gone
      unit->where = Where::moving;
      units.push_back(unit);
      if (!stage(moving, first, lock)) {
        // No host memory for this one; perhaps for another.
        unit->where = Where::device;
        units.pop_back();
        ++unit->reserved;
        passed_over.push_back(unit);
        refused.insert(refused.end(), std::make_move_iterator(moving.begin() + static_cast<std::ptrdiff_t>(first)),
                       std::make_move_iterator(moving.end()));
        moving.resize(first);
        changed();
        continue;
      }
      for (size_t i = first; i < moving.size(); ++i) freed += moving[i].block.bytes;
    }
  } catch (const InTurn&) {
    // Nothing was chosen yet.
    come_back();
    changed();
    if (holding) throw;
    in_turn = true;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    for (Unit* unit : units) unit->where = Where::device;
    for (Moving& entry : moving)
      if (entry.copy && entry.host != nullptr) arena_.release(entry.host);
    come_back();
    changed();
    throw;
  }
  if (in_turn) {
    token.reset();
    wait_for_turn(lock);
    return true;
  }
  come_back();
  if (units.empty()) return false;
  return send_out(units, moving, lock) != 0;
}

// Out

void Residency::leaving_blocks(Unit& unit, std::vector<Moving>* moving) const {
  auto add = [&](ResidentRecord* record, bool drop) {
    auto kept = record->storage.weak_from_this().lock();
    if (kept == nullptr) return;
    const bool copy = record->host == nullptr && record->source == nullptr;
    moving->push_back({record, std::move(kept), record->storage.block_, record->host, drop, copy});
  };
  if (!unit.is_group) return add(static_cast<ResidentRecord*>(&unit), false);
  for (ResidentRecord* member : static_cast<GroupRecord&>(unit).members) {
    if (member->graph_holds == 0)
      add(member, false);
    else if (pool_.can_drop(member->storage.block_))
      add(member, true);
  }
}

bool Residency::stage(std::span<Moving> all, size_t first, Lock& lock) {
  // Copies of what is on the device anyway give way: they can be made again.
  return try_stage(all, first, lock) || (drop_spare_copies() && try_stage(all, first, lock));
}

bool Residency::try_stage(std::span<Moving> all, size_t first, Lock& lock) {
  const std::span<Moving> moving = all.subspan(first);
  for (const Moving& entry : moving) {
    const Account& account = *entry.record->account;
    const auto held = host_bytes_.find(&account);
    size_t bytes = held != host_bytes_.end() ? held->second : 0;
    for (const Moving& other : all)
      if (other.copy && other.record->account == entry.record->account) bytes += other.block.bytes;
    if (entry.copy && account.host_limit() != 0 && bytes > account.host_limit()) return false;
  }
  lock.unlock();
  bool enough = true;
  std::exception_ptr failure;
  try {
    RelaxedCapture relaxed(pool_.context);
    for (Moving& entry : moving) {
      if (!entry.copy) continue;
      entry.host = arena_.allocate(entry.kept->bytes());
      enough = enough && entry.host != nullptr;
      if (!enough) break;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (!enough || failure != nullptr) {
    for (Moving& entry : moving) {
      if (!entry.copy) continue;
      if (entry.host != nullptr) arena_.release(entry.host);
      entry.host = nullptr;
    }
  }
  lock.lock();
  if (failure != nullptr) std::rethrow_exception(failure);
  return enough;
}

size_t Residency::send_out(std::span<Unit* const> units, std::vector<Moving>& moving, Lock& lock) {
  std::vector<Move> moves;
  for (const Moving& entry : moving)
    if (entry.copy) moves.push_back({entry.block.address, entry.host, entry.kept->bytes()});
  lock.unlock();
  size_t freed = 0;
  std::exception_ptr failure;
  try {
    RelaxedCapture relaxed(pool_.context);
    mover().to_host(pool_.context, moves);
    lock.lock();
    // Before the block goes: should the process fork, its child finds the bytes.
    for (Moving& entry : moving) {
      entry.record->host = entry.host;
      entry.record->out = true;
      entry.record->dropped = entry.drop;
    }
    lock.unlock();
    for (Moving& entry : moving) {
      if (!entry.drop) {
        pool_.release_idle(entry.block);
      } else if (!pool_.drop_pages(entry.block)) {
        entry.stays = true;
        if (!entry.copy) continue;
        arena_.release(entry.host);
        entry.host = nullptr;
        continue;
      }
      freed += entry.block.bytes;
    }
  } catch (...) {
    failure = std::current_exception();
    for (Moving& entry : moving)
      if (entry.copy) arena_.release(entry.host);
  }
  lock.lock();
  for (Unit* unit : units) unit->where = failure != nullptr ? Where::device : Where::host;
  if (failure == nullptr) {
    for (Moving& entry : moving) {
      ResidentRecord& record = *entry.record;
      record.host = entry.host;
      if (entry.stays) {
        record.out = record.dropped = false;
        continue;
      }
      ++evictions_;
      if (entry.copy) {
        copied_out_bytes_ += static_cast<int64_t>(entry.kept->bytes());
        host_bytes_[record.account.get()] += entry.block.bytes;
      }
      evicted_bytes_ += entry.block.bytes;
      Account::bump(record.account->evicted_bytes_, entry.block.bytes);
      Account::bump(record.account->evicted_blocks_, 1);
      Account::bump(record.account->evictions_, 1);
      note_event("memory", "evict", record.account->name(), static_cast<int64_t>(entry.block.bytes));
    }
  }
  changed();
  if (failure != nullptr) std::rethrow_exception(failure);
  return freed;
}

void Residency::wait_until_free(Unit& unit, const char* op, Lock& lock) {
  for (;;) {
    refresh_marks(lock);
    if (pinned(unit))
      throw Error(std::string(op) + ": the block is pinned, held by a graph or known to another library");
    if (unit.holds != 0 || dying(unit)) {
      changed_.wait(lock);
      continue;
    }
    if (finished(unit)) return;
    if (!can_finish(unit)) throw Error(std::string(op) + ": the block is used by a running graph capture");
    wait_finished(unit, lock);
  }
}

size_t Residency::evict_unit(Unit& unit, const char* op, Lock& lock) {
  wait_until_free(unit, op, lock);
  std::vector<Moving> moving;
  size_t freed = 0;
  unit.where = Where::moving;
  try {
    leaving_blocks(unit, &moving);
    if (moving.empty()) {
      unit.where = Where::device;
      return 0;
    }
    if (!stage(moving, 0, lock))
      throw OutOfMemoryError(std::string(op) +
                                 ": no host memory left for evicted blocks: " + std::to_string(arena_.reserved()) +
                                 " of " + std::to_string(arena_.limit()) + " bytes page-locked",
                             static_cast<int64_t>(moving.empty() ? 0 : moving.front().block.bytes),
                             static_cast<int64_t>(arena_.used()), static_cast<int64_t>(arena_.limit()));
    Unit* units[] = {&unit};
    freed = send_out(units, moving, lock);
  } catch (...) {
    unit.where = Where::device;
    changed();
    lock.unlock();
    moving.clear();
    lock.lock();
    throw;
  }
  lock.unlock();
  moving.clear();
  lock.lock();
  return freed;
}

void Residency::evict(Storage& storage) {
  RelaxedCapture relaxed(pool_.context);
  Lock lock(mutex_);
  Token token(*this, lock);
  if (record_of(storage).group != nullptr) throw Error("evict: the block belongs to a group, which leaves as a whole");
  if (record_of(storage).where == Where::device) evict_unit(record_of(storage), "evict", lock);
}

// In

void Residency::restore(Storage& storage) {
  Lock lock(mutex_);
  with_token(lock, [&] { bring({&unit_of(storage)}, lock); });
}

void Residency::bring(std::vector<Unit*> units, Lock& lock) {
  for (Unit* unit : units) ++unit->reserved;
  try {
    for (Unit* unit : units)
      if (unit->where == Where::host) bring_in(*unit, lock);
  } catch (...) {
    for (Unit* unit : units) --unit->reserved;
    changed();
    throw;
  }
  for (Unit* unit : units) --unit->reserved;
}

void Residency::bring_in(Unit& unit, Lock& lock) {
  std::vector<Moving> moving;
  auto add = [&](ResidentRecord* record) {
    if (!record->out) return;
    if (auto kept = record->storage.weak_from_this().lock())
      moving.push_back({record, std::move(kept), record->storage.block_, record->host, record->dropped});
  };
  if (unit.is_group) {
    for (ResidentRecord* member : static_cast<GroupRecord&>(unit).members) add(member);
  } else {
    add(static_cast<ResidentRecord*>(&unit));
  }
  unit.where = Where::moving;
  lock.unlock();
  const int64_t begin = real_clock().now_ns();
  size_t placed = 0, copied = 0, reread = 0;
  std::exception_ptr failure;
  try {
    RelaxedCapture relaxed(pool_.context);
    std::vector<Move> moves;
    for (Moving& entry : moving) {
      if (entry.drop)
        pool_.refill_pages(entry.block);
      else
        entry.block = pool_.allocate_idle(entry.kept->bytes_, entry.kept->home_, entry.record->account);
      ++placed;
      if (entry.host != nullptr) {
        moves.push_back({entry.block.address, entry.host, entry.kept->bytes_});
        copied += entry.kept->bytes_;
        continue;
      }
      ByteSource* source = entry.record->source.get();
      for (const auto& part : source->parts()) {
        moves.push_back({entry.block.address + part.offset, nullptr, part.bytes, source, part.offset, part.whole});
        reread += part.bytes;
      }
    }
    mover().to_device(pool_.context, moves);
  } catch (...) {
    failure = std::current_exception();
    for (size_t i = 0; i < placed; ++i) {
      if (!moving[i].drop)
        pool_.release_idle(moving[i].block);
      else
        pool_.drop_pages(moving[i].block);
    }
  }
  lock.lock();
  unit.where = failure != nullptr ? Where::host : Where::device;
  if (failure == nullptr) {
    for (Moving& entry : moving) {
      ResidentRecord& record = *entry.record;
      evicted_bytes_ -= record.storage.block_.bytes;
      Account::bump(record.account->evicted_bytes_, size_t{0} - record.storage.block_.bytes);
      Account::bump(record.account->evicted_blocks_, -1);
      Account::bump(record.account->restores_, 1);
      ++restores_;
      note_event("memory", "restore", record.account->name(), static_cast<int64_t>(entry.block.bytes));
      record.storage.block_ = entry.block;
      record.out = record.dropped = false;
      if (!record.frozen || record.source != nullptr) drop_copy(record);
    }
    copied_in_bytes_ += static_cast<int64_t>(copied);
    reread_bytes_ += static_cast<int64_t>(reread);
    if (unit.is_group) {
      const int64_t now = real_clock().now_ns();
      static_cast<GroupRecord&>(unit).stays_until_ns =
          now + std::clamp(kStayFactor * (now - begin), kLeastStay, kMostStay);
    }
    move_to_back(unit);
  }
  changed();
  lock.unlock();
  moving.clear();
  lock.lock();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace gpukit::memory
