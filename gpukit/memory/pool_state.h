// What stands behind Pool. Internal to memory/.
//
// Small blocks are chunks of slabs, large ones are ranges. A free one is either cached in a lane (an account's on one
// stream: charged to the account, reused there without a driver call) or unowned (charged to none, free for every one
// behind its fence). Pages of unowned ranges and of empty slabs move to other ranges, or back to the driver. So do
// those of cached ranges, the longest unused first, once the pool has from the driver what it may have
// (pool_limit.cpp).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpukit/memory/fence.h"
#include "gpukit/memory/guarded.h"
#include "gpukit/memory/pool.h"
#include "gpukit/memory/residency.h"
#include "gpukit/memory/size_class.h"

namespace gpukit::memory {

using StreamPtr = std::shared_ptr<driver::Stream>;
using AccountPtr = std::shared_ptr<Account>;

struct Lane;
struct Slab;

/// A block as the pool knows it. Block::owner_data points here.
struct Piece {
  driver::Address address = 0;
  size_t bytes = 0;
  Lane* lane = nullptr;  // while live or cached
  Piece* next = nullptr;
  std::unique_ptr<Fence> fence;  // beside the order of the lane's stream
  Slab* slab = nullptr;          // null: a Range
};

/// It can be waited for: none of its streams captures.
inline bool usable(const Piece* piece) { return piece->fence == nullptr || piece->fence->can_mark(); }

/// Pages of the driver without an address.
struct Pages {
  driver::PageHandle handle = 0;
  size_t bytes = 0;
};

/// Addresses with pages behind them, or a plain driver allocation (no pages).
struct Range : Piece {
  std::vector<Pages> pages;
  uint64_t freed_at = 0;  // count of large requests
  bool emptied = false;   // a plain one whose bytes were given up, not its addresses
};

/// The largest of its pages that are not above `limit`.
size_t largest_pages(const Range& range, size_t limit);

/// Pages of one class of chunks.
struct Slab {
  int index = 0;  // class
  std::unique_ptr<Range> range;
  Piece* chunks = nullptr;  // room for all, the first `carved` made
  size_t room = 0, carved = 0;
  size_t used = 0;        // live, cached or in transit
  Piece* free = nullptr;  // unowned
  Fence fence;            // of the pages' life before the slab
  bool listed = false;    // among the slabs with room
};

/// The free blocks of one account on one stream.
struct Lane {
  AccountPtr account;
  StreamPtr stream;
  Piece* small[kNumClasses] = {};
  std::vector<Range*> large;  // ascending by bytes
  int64_t live = 0, cached = 0;
  size_t cached_bytes = 0;
};

class PoolState {
 public:
  PoolState(driver::Context& context, const PoolConfig& config);
  ~PoolState();

  /// How a slow request wants its block. Without `order` nothing touches the block any more when it is handed out.
  struct Request {
    size_t bytes;  // rounded
    int index;     // class, -1: large
    const StreamPtr& home;
    const AccountPtr& account;
    const driver::Stream* order;
    bool evicting;  // this thread holds the residency's token
  };

  Block allocate(size_t bytes, const StreamPtr& stream, const AccountPtr& account);
  /// The same for memory that eviction brings back.
  Block allocate_idle(size_t bytes, const StreamPtr& home, const AccountPtr& account);
  void release(Block block, const StreamPtr& home, std::span<const StreamPtr> others) noexcept;
  /// For a block that no work touches any more: it is free for every one and charged no more.
  void release_idle(Block block) noexcept;
  /// Takes the pages of a range away and keeps its addresses. False: the driver refused and the block is as it was.
  bool can_drop(const Block& block) const;
  bool drop_pages(Block block) noexcept;
  /// Puts pages behind the addresses again; charges the account. Throws OutOfMemoryError.
  void refill_pages(Block block);
  /// Gives the addresses up.
  void release_dropped(Block block) noexcept;

  /// Every lock, taken by the forking thread; the child also forgets the threads it does not have.
  void lock_for_fork();
  void unlock_after_fork(bool child);

  int64_t trim();
  void forget(const Account& account);
  ResourceStats stats();
  long num_lanes(const driver::Stream& stream) const;

  driver::Context& context;
  const PoolConfig config;
  const AccountPtr root;
  std::unique_ptr<GuardedBlocks> guarded;  // debug mode
  Residency residency;

 private:
  struct LaneKey {
    const Account* account;
    uint64_t stream;
    friend bool operator==(const LaneKey&, const LaneKey&) = default;
  };
  struct LaneHash {
    size_t operator()(const LaneKey& key) const {
      return reinterpret_cast<size_t>(key.account) / 64 * 31 + static_cast<size_t>(key.stream) * 0x9e3779b97f4a7c15u;
    }
  };
  /// Pages that belong to no range. They may still be mapped where work of the fence uses them.
  struct Loose {
    Pages pages;
    Fence fence;
  };
  /// Addresses that go when the fence is complete, with the memory that goes with them.
  struct Leaving {
    driver::Address address = 0;
    size_t bytes = 0;
    bool plain = false;         // a driver allocation; else mappings
    std::vector<size_t> parts;  // of the mappings
    std::vector<Pages> pages;
    Fence fence;
  };
  /// Counts the threads that have memory in hand which no list shows.
  class InTransit {
   public:
    explicit InTransit(PoolState& pool);
    ~InTransit();
    InTransit(const InTransit&) = delete;
    InTransit& operator=(const InTransit&) = delete;
    /// Waits for another such thread to finish. False: there is none.
    bool wait_for_others();

   private:
    PoolState& pool_;
  };

  // Lanes. The lock is held.
  Lane* find_lane(const Account* account, const driver::Stream& stream);
  Lane* lane_for(const AccountPtr& account, const StreamPtr& stream);
  void push(Lane* lane, Piece* piece);
  void note_uncached(Lane* lane, const Piece& piece);
  void note_dead(Lane* lane, const Piece& piece);
  Range* fit(Lane* lane, size_t bytes, size_t* at) const;
  Piece* pop_usable(Lane* lane, const Request& request);
  Piece* pop_cached(const Request& request, Lane** from);
  /// `how`: what the counts say of it.
  enum class Counted : uint8_t { fresh, reused, restored };
  Block hand_out(Lane* lane, Piece* piece, Counted how);
  /// To the unowned ones; its fence says what must be waited for.
  void give_up(Piece* piece);
  void disown(Lane* lane, Piece* piece);
  size_t disown_all(Lane* lane, size_t enough);
  void disown_stale(const Account& account);
  bool relieve(const Account& wall, size_t bytes);
  void drop_empty_lanes();
  /// Without the lock. True: a block came back that a higher layer had kept.
  bool reclaim(const Account* scope) { return config.reclaim != nullptr && config.reclaim(context, scope); }

  // Requests.
  /// One attempt to serve a request: done, or the account that forbids it, or (null) no memory.
  struct Outcome {
    bool done = false, again = false;
    Account* wall = nullptr;
  };
  size_t rounded(size_t bytes) const;
  Block allocate_slow(const Request& request);
  void ladder(const Request& request, const std::function<Outcome(bool desperate)>& attempt);
  Outcome attempt(const Request& request, bool desperate, Block* block);
  Outcome attempt_refill(const Request& request, bool desperate, Range* range);
  Piece* take_unowned(const Request& request);
  Piece* take_new(const Request& request, bool desperate);
  /// What is free or cached now would do, or the driver got something back since `returned`: the request was refused
  /// for what others have given back since.
  bool may_fit(const Account* wall, size_t bytes, uint64_t returned);
  void settle(Piece* piece, const Request& request);
  [[noreturn]] void out_of_memory(const Request& request, const Account* wall, const char* tried);

  // Slabs. The lock is held.
  void give_to_slab(Piece* chunk);
  Piece* pop_chunk(int index);
  Slab* add_slab(int index, Range* range);
  Piece* carve(Slab* slab);
  static void add_slab_fence(Piece* chunk);
  void close_empty_slabs();

  // Pages.
  size_t retained() const;
  Range* pop_free_range(size_t bytes, size_t most);
  void dismantle(Range* range);
  void sort_loose();
  void choose_loose(size_t* missing, std::vector<Pages>* pages, Fence* fence);
  void choose_pages(bool desperate, size_t* missing, std::vector<Pages>* pages, Fence* fence);
  void collect_everything();
  Leaving leaving_of(Range* range);
  size_t send_away(size_t enough);
  void leave(Leaving leaving);
  /// Lanes whose work can be waited for, of one account or of all.
  std::vector<Lane*> quiet_lanes(const Account* account);
  /// Gives up the cached range that was freed first, of those with pages of `most` bytes or less. False: there is none.
  bool disown_oldest(const std::vector<Lane*>& lanes, size_t most = SIZE_MAX);
  // The lock is not held.
  Range* obtain(const Account& account, size_t bytes, bool desperate);
  bool gather(const Account& account, size_t bytes, bool desperate, std::vector<Pages>* pages, Fence* fence);
  bool create_pages(size_t bytes, bool desperate, std::vector<Pages>* pages);
  void note_reserved(size_t bytes);

  // How much is kept.
  /// What serving a request of `bytes` with `missing` new ones would have from the driver above what it may. The lock
  /// is held.
  size_t excess(size_t bytes, size_t missing) const;
  /// Takes pages of what is cached, as long as new ones would be too many. The lock is held.
  void move_cached(const Account& account, size_t bytes, size_t* missing, std::vector<Pages>* pages, Fence* fence);
  /// Gives what is cached back to the driver, as long as new memory would be too much. May wait.
  void return_excess(size_t bytes, size_t missing);

  void put_back(std::vector<Pages> pages, const Fence& fence) noexcept;
  void map(driver::Address address, const std::vector<Pages>& pages);
  int unmap(driver::Address address, const std::vector<Pages>& pages) noexcept;
  bool release_some(size_t bytes);
  /// Lets go of what no work uses any more, and waits for the rest in turn while `wait` says so, all but what a capture
  /// keeps. Gives the bytes of the pages returned; pages returned while they were mapped are free when their addresses
  /// go, which is counted in returned_. What fails is tried again later; told at once only with `strict`.
  size_t finish_leaving(const std::function<bool()>& wait, bool strict = false);
  size_t finish_leaving(bool wait) {
    return finish_leaving([wait] { return wait; }, wait);
  }
  size_t let_go(Leaving& leaving);
  uint64_t returned() const;
  void note_freed(size_t bytes);
  void enforce_retained() noexcept;
  void timed_wait(const Fence& fence);

  size_t granularity_ = kPageUnit;
  bool vmm_ = false;
  size_t retained_limit_ = 0, min_spare_ = 0;

  mutable std::mutex mutex_;
  std::unordered_map<LaneKey, std::unique_ptr<Lane>, LaneHash> lanes_;
  Lane* last_lane_ = nullptr;
  std::vector<Slab*> slabs_[kNumClasses];       // all
  std::vector<Slab*> open_slabs_[kNumClasses];  // with room
  std::vector<Range*> free_ranges_;             // unowned
  std::vector<Loose> loose_;
  std::vector<Leaving> leaving_;
  size_t num_leaving_ = 0, leaving_bytes_ = 0;  // with those a thread has in hand; bytes of their pages
  uint64_t large_requests_ = 0;
  size_t cached_large_ = 0, free_large_ = 0, loose_bytes_ = 0;
  uint64_t returned_ = 0;  // times that addresses or pages went back to the driver
  int in_transit_ = 0;
  uint64_t transit_epoch_ = 0;
  std::condition_variable transit_over_;
  ResourceStats stats_;
};

}  // namespace gpukit::memory
