// Which managed blocks are on the device and which in host memory. Moves them, keeps the exact order of their uses.
//
// One lock guards all records. Bytes are moved without it, by the one thread that holds the token; a record says
// `moving` meanwhile. A launch takes all its blocks or none, so no thread waits while it holds some.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/host_arena.h"
#include "gpukit/memory/resource.h"

namespace gpukit::memory {

class PoolState;
struct GroupRecord;

enum class Where : uint8_t { device, moving, host };

/// The last work of a stream that used a block: how many uses were noted on the stream then.
struct StreamUse {
  uint64_t stream;
  uint64_t number;
};

/// What moves as a whole: a block, or a group of them. In a list by last use.
struct Unit {
  explicit Unit(bool group) : is_group(group) {}
  const bool is_group;
  Where where = Where::device;
  int priority = 0;
  int holds = 0;     // launches being submitted
  int reserved = 0;  // wanted by the thread that makes room
  Unit *previous = nullptr, *next = nullptr;
  std::vector<StreamUse> uses;
};

struct ResidentRecord : Unit {
  ResidentRecord(Storage& owner, std::shared_ptr<Account> payer)
      : Unit(false), storage(owner), account(std::move(payer)) {}
  Storage& storage;
  const std::shared_ptr<Account> account;
  Residency* residency = nullptr;
  int pins = 0, graph_holds = 0;
  bool out = false;      // its bytes are not on the device
  bool dropped = false;  // evicted with its addresses kept
  void* host = nullptr;  // the bytes of an evicted block; of a frozen one also later
  std::atomic<bool> frozen{false};
  std::shared_ptr<ByteSource> source;  // of a frozen block, or null
  std::shared_ptr<GroupRecord> group;
};

struct GroupRecord : Unit {
  explicit GroupRecord(Residency& owner) : Unit(true), residency(owner) {}
  Residency& residency;
  std::vector<ResidentRecord*> members;
  int turns = 0;                                 // threads that work with it now
  int64_t last_turn_ns = 0, stays_until_ns = 0;  // when the last one ended; how long others leave it alone
};

struct MovedBytes {
  int64_t copied_out = 0, copied_in = 0;  // by evictions, by restores
  int64_t reread = 0;                     // that restores got from their sources instead
  int64_t host = 0;                       // of copies in host memory now
};

class Residency {
 public:
  Residency(PoolState& pool, size_t host_limit);
  ~Residency();

  /// Of a managed block.
  static Residency* of(const Storage& storage) { return record_of(storage).residency; }
  /// Counts an allocation for a managed block until add(), so that no one gives up while its memory is on the way.
  class Arrival {
   public:
    explicit Arrival(Residency& residency);
    ~Arrival();
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;

   private:
    Residency& residency_;
  };
  void add(Storage& storage) noexcept;
  /// Gives its memory back, wherever it is.
  void remove(Storage& storage) noexcept;

  /// All of them, restored where needed, or none.
  void acquire(std::span<Storage* const> storages);
  void release(std::span<Storage* const> storages) noexcept;
  void note_use(Storage& storage, const std::shared_ptr<driver::Stream>& stream) noexcept;

  driver::Address pin(Storage& storage);
  void unpin(Storage& storage) noexcept;
  void graph_hold(Storage& storage, int change) noexcept;
  bool resident(const Storage& storage) const;
  std::optional<driver::Address> address_now(const Storage& storage) const;
  std::optional<std::string> evicted_bytes(const Storage& storage);
  void evict(Storage& storage);
  void restore(Storage& storage);
  void set_priority(Storage& storage, int priority);
  int priority(const Storage& storage) const;
  void touch(Storage& storage);
  void freeze(Storage& storage, std::shared_ptr<ByteSource> source);
  /// A launch, or who else got hold of it, may write the block.
  void melt(Storage& storage) noexcept;

  void add(GroupRecord& group);
  void join(const std::shared_ptr<GroupRecord>& group, Storage& storage);
  void dissolve(GroupRecord& group) noexcept;
  size_t evict_group(GroupRecord& group);
  void restore_group(GroupRecord& group);
  bool resident(const GroupRecord& group) const;
  size_t size(const GroupRecord& group) const;
  size_t bytes(const GroupRecord& group) const;
  void set_priority(GroupRecord& group, int priority);
  void begin_turn(GroupRecord& group);
  void end_turn(GroupRecord& group) noexcept;
  /// Of the groups of the storages, each once.
  void note_group_use(std::span<Storage* const> storages, const std::shared_ptr<driver::Stream>& stream) noexcept;

  /// Evicts the least recently used blocks charged to `scope` or below (null: any) until `needed` bytes are free.
  /// Waits for launches and work that use them. False: nothing could be evicted. `holding`: this thread has the token.
  bool make_room(const Account* scope, size_t needed, bool holding);

  /// Before a fork: lets the move under way end. Of several devices in the order of their addresses, as launches do.
  void stop_for_fork();
  void lock_for_fork();
  void unlock_after_fork(bool child);
  void add_to(ResourceStats* stats) const;
  MovedBytes moved() const;
  int64_t trim_host() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct StreamMarks {
    std::shared_ptr<driver::Stream> stream;
    uint64_t noted = 0, marked = 0, completed = 0;  // counts of uses
    std::deque<std::pair<uint64_t, std::shared_ptr<driver::Event>>> events;
  };
  /// What an event is to be recorded for: the uses of a stream until now.
  struct Mark {
    std::shared_ptr<driver::Stream> stream;
    uint64_t number;
    std::shared_ptr<driver::Event> event;
  };
  /// The right to move bytes. The lock is held when it is made and when it is gone.
  class Token {
   public:
    Token(Residency& residency, Lock& lock);
    ~Token();
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

   private:
    Residency& residency_;
    Lock& lock_;
  };
  /// Room can be made once another thread has worked with a group for long enough. That thread may need the token, so
  /// who has it gives it up and tries again.
  struct InTurn {};
  template <typename Act>
  void with_token(Lock& lock, Act&& act) {
    for (;;) {
      try {
        Token token(*this, lock);
        return act();
      } catch (const InTurn&) {
        wait_for_turn(lock);
      }
    }
  }
  void wait_for_turn(Lock& lock);
  /// One block on its way.
  struct Moving {
    ResidentRecord* record;
    std::shared_ptr<Storage> kept;  // let go without the lock only: it may be the last owner
    Block block;
    void* host = nullptr;
    bool drop = false;   // its pages go, its addresses stay
    bool copy = false;   // its bytes go to `host`
    bool stays = false;  // the driver did not let it go
  };

  static int own_arrivals();
  static ResidentRecord& record_of(const Storage& storage);
  static Unit& unit_of(const Storage& storage);
  void link(Unit& unit);
  void unlink(Unit& unit) noexcept;
  void move_to_back(Unit& unit) { unlink(unit), link(unit); }
  std::optional<Mark> note(Unit& unit, const std::shared_ptr<driver::Stream>& stream) noexcept;
  /// Without the lock: on a CPU the record waits for the work of the stream.
  static void record(Mark& mark);
  void add_mark(Mark mark);
  void record_and_add(std::optional<Mark> mark) noexcept;
  void forget_completed(StreamMarks& marks);
  void drop_dead_streams();
  void refresh_marks(Lock& lock);
  bool finished(Unit& unit) const;
  bool can_finish(const Unit& unit) const;
  void wait_finished(Unit& unit, Lock& lock);
  void changed() { changed_.notify_all(); }
  void forget_other_threads();

  static bool dying(const Unit& unit);
  static bool pinned(const Unit& unit);
  bool may_leave(const Unit& unit) const;
  static bool in_scope(const Unit& unit, const Account* scope);
  /// Until when others leave a group alone; 0: they need not.
  static int64_t stays_until(const GroupRecord& group);
  Unit* pick(const Account* scope, bool may_wait, Lock& lock);
  void leaving_blocks(Unit& unit, std::vector<Moving>* moving) const;
  bool stage(std::span<Moving> all, size_t first, Lock& lock);
  bool try_stage(std::span<Moving> all, size_t first, Lock& lock);
  size_t send_out(std::span<Unit* const> units, std::vector<Moving>& moving, Lock& lock);
  void wait_until_free(Unit& unit, const char* op, Lock& lock);
  size_t evict_unit(Unit& unit, const char* op, Lock& lock);
  std::vector<std::shared_ptr<driver::Stream>> join(const std::shared_ptr<GroupRecord>& group, Storage& storage,
                                                    Lock& lock);
  void bring(std::vector<Unit*> units, Lock& lock);
  void bring_in(Unit& unit, Lock& lock);
  void drop_copy(ResidentRecord& record) noexcept;
  /// Copies of frozen blocks that are on the device. False: there were none.
  bool drop_spare_copies() noexcept;

  PoolState& pool_;
  HostArena arena_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool token_taken_ = false, taken_for_fork_ = false;
  int arrivals_ = 0;
  struct List {
    Unit *front = nullptr, *back = nullptr;
  };
  std::map<int, List> lists_;  // by priority; the least recently used in front
  std::unordered_map<uint64_t, StreamMarks> marks_;
  size_t tidy_marks_at_ = 64;
  int64_t evictions_ = 0, restores_ = 0, waits_ = 0, wait_ns_ = 0;
  int64_t copied_out_bytes_ = 0, copied_in_bytes_ = 0, reread_bytes_ = 0;
  size_t evicted_bytes_ = 0;
  std::unordered_map<const Account*, size_t> host_bytes_;  // of the copies of its blocks
};

}  // namespace gpukit::memory
