// Asynchronous copies between host and device on streams of their own, so that compute goes on beside them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "gpukit/memory/mover.h"
#include "gpukit/memory/storage.h"
#include "gpukit/runtime/pinned_ring.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/runtime/transfer_queue.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::runtime {

class TransferEngine;

/// What to copy. `keep` is what keeps the host memory valid; it is dropped when the transfer is over.
struct TransferRequest {
  TransferType type = TransferType::h2d;
  std::shared_ptr<memory::Storage> storage;  // the device's side: h2d and d2d write it, d2h reads it
  int64_t offset_bytes = 0;
  void* host = nullptr;                   // the other side, read by h2d and written by d2h
  std::shared_ptr<memory::Storage> peer;  // the other side of d2d
  int64_t peer_offset_bytes = 0;
  size_t bytes = 0;
  int priority = 0;  // higher goes first
  std::shared_ptr<const void> keep;
};

/// One copy given to an engine. Shared with whoever asked for it.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  /// State, times and bytes as they are now.
  TransferRecord record() const;
  /// Over when the copy is: done, failed or cancelled. Callbacks run on the device's waiter thread.
  const std::shared_ptr<Completion>& completion() const { return completion_; }
  /// True when the copy will not be made whole: nothing more is submitted, and the transfer ends as cancelled once what
  /// is in flight has run. False when it is over or wholly submitted already.
  bool cancel();
  /// Work given to `stream` from now on comes after this copy. Waits until the copy has been submitted; inside a
  /// capture, until it has run.
  void order_before(const driver::Stream& stream);

 private:
  friend class TransferEngine;
  Transfer(TransferEngine& engine, TransferRequest request);
  bool over() const { return is_terminal(record_.state); }
  /// Everything it will ever submit is in its stream.
  bool settled() const { return over() || all_submitted_ || (stopping_ && in_flight_ == 0); }

  TransferEngine& engine_;
  TransferRequest request_;
  const std::shared_ptr<Completion> completion_;

  // Under the engine's mutex from here on.
  TransferRecord record_;
  std::vector<std::unique_ptr<driver::Event>> ready_;  // earlier work that uses either side
  std::vector<std::shared_ptr<Transfer>> after_;       // earlier transfers that use either side
  std::shared_ptr<driver::Event> submitted_event_;     // after the last piece
  std::exception_ptr failure_;
  std::pair<int64_t, uint64_t> key_;  // its place in the lane
  size_t submitted_bytes_ = 0;
  int in_flight_ = 0;           // pieces, the one being submitted included
  bool page_locked_ = false;    // the host's side
  bool all_submitted_ = false;  // submitted_event_ is recorded
  bool stopping_ = false;       // cancelled or failed: no more pieces
};

/// The copies of one device. Host-to-device, device-to-host and device-to-device copies each have a stream and a worker
/// thread, made at first use. Pageable memory goes through the page-locked ring in chunks; page-locked memory is copied
/// directly, in pieces. The transfer of the highest priority gets the next piece; equal ones go in order.
///
/// A transfer comes after everything submitted so far to the streams that use its arrays and to the current stream, and
/// after earlier transfers of the same arrays. Later launches on these arrays come after the transfer (see settle).
class TransferEngine {
 public:
  struct Options {
    size_t chunk_bytes = PinnedRing::kChunkBytes;
    size_t max_chunks = PinnedRing::kMaxChunks;
    size_t piece_bytes = size_t{16} << 20;  // of direct copies
    int depth = 2;                          // pieces in flight per stream
    bool workers = true;                    // false: the caller of step() does the work, for tests
    bool in_place = true;  // sources write into the memory of a CPU; false: through the ring, for tests
  };
  explicit TransferEngine(driver::Context& context) : TransferEngine(context, Options()) {}
  TransferEngine(driver::Context& context, Options options);
  /// Cancels what is waiting, waits for what is in flight, ends the workers.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// Queues a copy. May wait only for the control of the current stream (pacing). Throws ArgumentError, CudaError,
  /// Error when no thread can be started, and inside a capture, naming `op`.
  std::shared_ptr<Transfer> submit(const char* op, TransferRequest request);

  /// Copies pageable memory through the ring on `stream` from the calling thread; the source has been read when this
  /// returns.
  void copy_in(const std::shared_ptr<driver::Stream>& stream, const memory::Use& destination, const void* source,
               size_t bytes);
  /// The same to pageable memory, which holds the data when this returns.
  void copy_out(const std::shared_ptr<driver::Stream>& stream, void* destination, const memory::Use& source,
                size_t bytes);

  /// The copies of eviction; complete when this returns. No work may touch the memory of either side. Throws CudaError.
  void move(TransferType type, std::span<const memory::Move> moves);

  /// Submits or retires one piece. False when there is nothing to do. For engines without workers.
  bool step();
  /// Waits until every transfer given so far is over.
  void drain();

  driver::Context& context() const { return context_; }
  /// Of the copies of this type; made at first use.
  std::shared_ptr<driver::Stream> stream(TransferType type);
  PinnedRing& ring() { return ring_; }
  TransferStats stats() const;
  std::vector<TransferRecord> active() const;

  /// Orders `stream` after the transfers that conflict with `use`.
  void settle(const memory::Use& use, const driver::Stream& stream);
  /// Ends the workers; what is still queued is never copied. False when they have not ended after `limit`.
  bool stop(std::chrono::nanoseconds limit) noexcept;

 private:
  friend class Transfer;
  using TransferPtr = std::shared_ptr<Transfer>;
  struct Piece {
    TransferPtr transfer;
    PinnedRing::Slot slot;                 // staged
    std::unique_ptr<driver::Event> event;  // direct
    char* host = nullptr;                  // where a staged piece of d2h goes
    size_t bytes = 0;
  };
  struct Lane {
    std::shared_ptr<driver::Stream> stream;
    std::map<std::pair<int64_t, uint64_t>, TransferPtr> open;  // (-priority, id): with bytes left to submit
    std::deque<Piece> in_flight;
    bool started = false, running = false;
  };

  Lane& lane_of(const Transfer& transfer) { return lanes_[static_cast<int>(transfer.request_.type)]; }
  // No lock is held.
  /// The moves that have a source. What was submitted to `stream` is under way when this returns or throws.
  void fill(const std::shared_ptr<driver::Stream>& stream, std::span<const memory::Move> moves);
  void serve(Lane& lane);
  bool step(Lane& lane);
  /// False, and nothing done, when there is no chunk: a piece must be retired first.
  bool submit_piece(Lane& lane, const TransferPtr& transfer, bool holds_none);
  void issue(Lane& lane, Transfer& transfer, size_t offset, Piece& piece);
  void retire(Lane& lane, Piece piece);
  void hand_over(const TransferPtr& transfer);
  void admit(const TransferRequest& request) const;
  void end(const TransferPtr& transfer, int code) noexcept;
  std::vector<std::unique_ptr<driver::Event>> record_users(const char* op, const TransferRequest& request) const;
  // Under the lock.
  TransferPtr pick(Lane& lane) const;
  bool piece_over(Transfer& transfer, std::exception_ptr failure);
  void boost(Transfer& transfer);
  std::vector<TransferPtr> conflicts(const memory::Storage* storage, bool write) const;
  void add_user(const std::shared_ptr<memory::Storage>& storage, const TransferPtr& transfer);
  void remove_user(const std::shared_ptr<memory::Storage>& storage, const TransferPtr& transfer);

  driver::Context& context_;
  const Options options_;
  PinnedRing ring_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Lane lanes_[3];
  std::shared_ptr<driver::Stream> move_streams_[2];           // in, out
  std::multimap<const memory::Storage*, TransferPtr> users_;  // active transfers by each side
  std::map<uint64_t, TransferPtr> active_;
  uint64_t next_id_ = 0;
  TransferStats stats_;
  bool stop_ = false;
};

/// The engine of a device, made at first use and never destroyed.
TransferEngine& transfer_engine(Device device);
TransferEngine& transfer_engine(driver::Context& context);  // of an opened device
/// Null when it was not made yet.
TransferEngine* find_transfer_engine(const driver::Context& context);
/// Ends the workers of all engines, for the end of the process. Waits a second at most.
void stop_transfer_engines() noexcept;

/// Copies up to `bytes` with several threads when that is faster.
void copy_bytes(void* destination, const void* source, size_t bytes);

/// copy_from_host and copy_to_host (transfer.h) in the order of `stream`, naming `caller`.
void copy_from_host(const memory::Use& destination, const void* source, size_t bytes,
                    const std::shared_ptr<driver::Stream>& stream, const char* caller);
void copy_to_host(void* destination, const memory::Use& source, size_t bytes,
                  const std::shared_ptr<driver::Stream>& stream, const char* caller);

/// One piece of a transfer, at `offset` of both sides, on the engine's own stream; through the launch gate. `host`
/// stands for the host's side when the piece is staged.
void copy_piece(const TransferRequest& request, size_t offset, void* host, size_t bytes,
                const std::shared_ptr<driver::Stream>& stream);

/// Makes the engine of an opened device do the copies of eviction.
void install_mover(driver::Context& context);

}  // namespace gpukit::runtime
