// Page-locked chunks that pageable memory is copied through. Grown on use, never above a cap, kept for the next copy.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::runtime {

class PinnedRing {
  struct Chunk;

 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  static constexpr size_t kMaxChunks = 16;

  explicit PinnedRing(driver::Context& context, size_t chunk_bytes = kChunkBytes, size_t max_chunks = kMaxChunks);
  /// Waits for what is in flight. Every slot must have been given back.
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  /// One chunk, held by whoever holds the slot. Goes back to the ring with it; whoever takes the chunk next gets it
  /// when the work marked last has finished.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept : ring_(other.ring_), chunk_(other.chunk_) { other.chunk_ = nullptr; }
    Slot& operator=(Slot&& other) noexcept;
    ~Slot() { reset(); }
    explicit operator bool() const { return chunk_ != nullptr; }
    char* data() const;
    /// The chunk is in use until what `stream` holds now has run. Throws CudaError; the slot then waits for the stream
    /// itself before it goes back.
    void mark(const std::shared_ptr<driver::Stream>& stream);
    /// Waits for what was marked. Throws CudaError.
    void wait();
    /// True when nothing marked is left to run.
    bool idle();
    /// Gives the chunk back. Never throws.
    void reset() noexcept;

   private:
    friend class PinnedRing;
    Slot(PinnedRing* ring, Chunk* chunk) : ring_(ring), chunk_(chunk) {}
    PinnedRing* ring_ = nullptr;
    Chunk* chunk_ = nullptr;
  };

  size_t chunk_bytes() const { return chunk_bytes_; }
  /// A chunk that nothing uses any more: a finished one, else a new one, else the one that finishes first. Waits for
  /// another holder at the cap, so the caller must hold none; calls `check` now and then meanwhile, which may throw to
  /// end the wait. Throws CudaError when memory cannot be page-locked and the ring has none.
  Slot acquire(void (*check)() = nullptr) { return take(true, check); }
  /// The same for who holds some already: no slot instead of a wait for another holder.
  Slot try_acquire() { return take(false, nullptr); }

  struct Stats {
    size_t chunks = 0, free = 0, in_flight = 0, held = 0;
    size_t bytes = 0;       // page-locked now
    uint64_t acquired = 0;  // slots handed out so far
    uint64_t waited = 0;    // of them, after a wait for the device or another holder
  };
  Stats stats() const;
  /// Gives chunks that nothing uses back to the driver; the number of bytes.
  size_t trim();

 private:
  Slot take(bool wait_for_holders, void (*check)());
  static bool finished(Chunk& chunk);
  /// Null when every chunk is held or busy. The lock is held.
  Chunk* take_idle();
  /// A new chunk; the lock is let go meanwhile. Throws CudaError.
  Chunk* grow(std::unique_lock<std::mutex>& lock);
  void give_back(Chunk* chunk) noexcept;

  driver::Context& context_;
  const size_t chunk_bytes_, max_chunks_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> free_;
  std::vector<Chunk*> in_flight_;  // given back while marked, oldest first
  size_t growing_ = 0;             // chunks being made with no lock held
  uint64_t acquired_ = 0, waited_ = 0;
};

}  // namespace gpukit::runtime
