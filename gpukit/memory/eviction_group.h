// A group of blocks that leave and come back together at the same addresses: a model with its graphs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpukit/memory/storage.h"

namespace gpukit::memory {

class Pool;
struct GroupRecord;

/// Its blocks move as a whole only, and never while one is held or used by running work. A block held by a graph keeps
/// its address: its pages are dropped and new ones put there. Such blocks of at most 1 MiB, or on a GPU without virtual
/// memory, stay where they are. Frozen blocks (byte_source.h) are not copied out again. Thread-safe.
class EvictionGroup {
 public:
  explicit EvictionGroup(Pool& pool);
  ~EvictionGroup();  // the blocks move alone again; evicted ones are restored when used
  EvictionGroup(const EvictionGroup&) = delete;
  EvictionGroup& operator=(const EvictionGroup&) = delete;

  /// Brings the block and the group back first. Throws Error when the block is not managed by this pool or belongs to
  /// another group, and OutOfMemoryError.
  void add(const std::shared_ptr<Storage>& storage);
  /// Moves all to host memory, or throws and moves none: Error when one is pinned, OutOfMemoryError when the host side
  /// is full. Waits for running work. Gives the device bytes that became free.
  size_t evict();
  /// Brings all back, or throws OutOfMemoryError and brings none.
  void restore();
  bool resident() const;
  size_t size() const;
  size_t bytes() const;
  void set_priority(int priority);

 private:
  friend class GroupTurn;
  std::shared_ptr<GroupRecord> record_;
};

/// This thread works with a group for a while, launch after launch: a step of a model. The group is brought back first.
/// Others who want its room wait then, for some times as long as it took to bring the group back and no longer, so that
/// two models which share the room of one take turns of many steps. Nested turns are fine.
class GroupTurn {
 public:
  /// Throws OutOfMemoryError, and what a ByteSource throws.
  explicit GroupTurn(EvictionGroup& group);
  ~GroupTurn();
  GroupTurn(const GroupTurn&) = delete;
  GroupTurn& operator=(const GroupTurn&) = delete;
  /// Of this thread.
  static bool is_own(const GroupRecord& group);

 private:
  const std::shared_ptr<GroupRecord> record_;
  GroupTurn* const outer_;
};

/// What a graph replay takes: `storages` with their groups are resident and stay until it is submitted. They must be of
/// one device and outlive it.
class GroupHold {
 public:
  explicit GroupHold(std::span<const std::shared_ptr<Storage>> storages);
  ~GroupHold();
  GroupHold(const GroupHold&) = delete;
  GroupHold& operator=(const GroupHold&) = delete;
  /// The work submitted under this hold runs on `stream`.
  void note_use(const std::shared_ptr<driver::Stream>& stream);

 private:
  std::vector<Storage*> storages_;
};

}  // namespace gpukit::memory
