// What the workers of a transfer engine do, and copies that a caller stages itself.
#include <algorithm>
#include <chrono>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/runtime/transfer_engine_staging.h"

namespace gpukit::runtime {

namespace {

/// The failure as it is told to whoever waits; a code that kills the context is noted.
std::exception_ptr noted(driver::Context& context, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CudaError& error) {
    open_device(context.device()).health.note_error(error.code, "a copy found " + error.name);
  } catch (...) {
  }
  return failure;
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void TransferEngine::serve(Lane& lane) {
  for (;;) {
    if (step(lane)) continue;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || !lane.in_flight.empty() || pick(lane) != nullptr; });
    if (!stop_) continue;
    lane.running = false;
    changed_.notify_all();
    return;
  }
}

bool TransferEngine::step() {
  if (options_.workers) return false;
  bool any = false;
  for (Lane& lane : lanes_) any = step(lane) || any;
  return any;
}

bool TransferEngine::step(Lane& lane) {
  TransferPtr next;
  bool holds_none = false;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return false;
    // Without workers one thread holds the chunks of all lanes.
    holds_none = std::all_of(std::begin(lanes_), std::end(lanes_), [&](const Lane& other) {
      return (options_.workers && &other != &lane) || other.in_flight.empty();
    });
    if (static_cast<int>(lane.in_flight.size()) < options_.depth) next = pick(lane);
    if (next != nullptr) ++next->in_flight_;
    if (next == nullptr && lane.in_flight.empty()) return false;
  }
  if (next != nullptr && submit_piece(lane, next, holds_none)) return true;
  Piece oldest;
  {
    std::lock_guard lock(mutex_);
    if (lane.in_flight.empty()) return false;
    oldest = std::move(lane.in_flight.front());
    lane.in_flight.pop_front();
  }
  retire(lane, std::move(oldest));
  return true;
}

// An earlier transfer of the same array must be in its stream before this one can wait for it there.
TransferEngine::TransferPtr TransferEngine::pick(Lane& lane) const {
  for (const auto& [key, transfer] : lane.open) {
    if (std::all_of(transfer->after_.begin(), transfer->after_.end(),
                    [](const TransferPtr& earlier) { return earlier->settled(); }))
      return transfer;
  }
  return nullptr;
}

void TransferEngine::issue(Lane& lane, Transfer& transfer, size_t offset, Piece& piece) {
  const TransferRequest& request = transfer.request_;
  piece.host = static_cast<char*>(request.host) + offset;
  if (piece.slot) {
    piece.bytes = std::min(ring_.chunk_bytes(), request.bytes - offset);
    if (request.type == TransferType::h2d) copy_bytes(piece.slot.data(), piece.host, piece.bytes);
    copy_piece(request, offset, piece.slot.data(), piece.bytes, lane.stream);
    piece.slot.mark(lane.stream);
  } else {
    piece.bytes = std::min(options_.piece_bytes, request.bytes - offset);
    piece.event = std::make_unique<driver::Event>(context_, false, true);
    copy_piece(request, offset, piece.host, piece.bytes, lane.stream);
    piece.event->record(*lane.stream);
  }
  if (offset + piece.bytes == request.bytes) transfer.submitted_event_->record(*lane.stream);
}

bool TransferEngine::submit_piece(Lane& lane, const TransferPtr& transfer, bool holds_none) {
  Piece piece;
  std::exception_ptr failure;
  bool submitted = false, last = false;
  try {
    context_.make_current();
    if (!transfer->page_locked_) piece.slot = holds_none ? ring_.acquire() : ring_.try_acquire();
    if (transfer->page_locked_ || piece.slot) {
      std::vector<TransferPtr> after;
      std::vector<std::unique_ptr<driver::Event>> ready;
      size_t offset = 0;
      {
        std::lock_guard lock(mutex_);
        offset = transfer->submitted_bytes_;
        after.swap(transfer->after_);
        ready.swap(transfer->ready_);
        if (transfer->record_.start(real_clock().now_ns())) stats_.moved(TransferState::queued, transfer->record_);
      }
      for (const auto& event : ready) lane.stream->wait(*event);
      for (const TransferPtr& earlier : after) lane.stream->wait(*earlier->submitted_event_);
      issue(lane, *transfer, offset, piece);
      submitted = true;
    }
  } catch (...) {
    failure = noted(context_, std::current_exception());
    // What was submitted of it may still read or write the memory.
    code_of([&] { lane.stream->synchronize(); });
  }
  {
    std::lock_guard lock(mutex_);
    if (submitted) {
      transfer->submitted_bytes_ += piece.bytes;
      if (transfer->submitted_bytes_ == transfer->request_.bytes) {
        transfer->all_submitted_ = true;
        lane.open.erase(transfer->key_);
      }
      piece.transfer = transfer;
      lane.in_flight.push_back(std::move(piece));
    } else {
      last = piece_over(*transfer, failure);
    }
  }
  if (last) hand_over(transfer);
  changed_.notify_all();
  return submitted || failure != nullptr;
}

void TransferEngine::retire(Lane& lane, Piece piece) {
  const TransferPtr transfer = std::move(piece.transfer);
  std::exception_ptr failure;
  try {
    context_.make_current();
    if (piece.slot)
      piece.slot.wait();
    else
      piece.event->synchronize();
  } catch (...) {
    failure = noted(context_, std::current_exception());
    code_of([&] { lane.stream->synchronize(); });
  }
  bool wanted = failure == nullptr;
  {
    std::lock_guard lock(mutex_);
    wanted = wanted && !transfer->stopping_;
  }
  if (wanted && piece.slot && transfer->request_.type == TransferType::d2h)
    copy_bytes(piece.host, piece.slot.data(), piece.bytes);
  piece.slot.reset();
  piece.event.reset();
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    if (wanted) transfer->record_.bytes_done += piece.bytes;
    last = piece_over(*transfer, failure);
  }
  if (last) hand_over(transfer);
  changed_.notify_all();
}

/// True when nothing of the transfer is left to do.
bool TransferEngine::piece_over(Transfer& transfer, std::exception_ptr failure) {
  --transfer.in_flight_;
  if (failure != nullptr) {
    if (transfer.failure_ == nullptr) transfer.failure_ = failure;
    transfer.stopping_ = true;
    lane_of(transfer).open.erase(transfer.key_);
  }
  return transfer.in_flight_ == 0 && (transfer.stopping_ || transfer.all_submitted_);
}

// The waiter's thread calls back, so that a callback that waits (for the GIL, say) holds up no copy.
void TransferEngine::hand_over(const TransferPtr& transfer) {
  try {
    Waiter::of(context_.device())
        .add(lane_of(*transfer).stream, transfer->submitted_event_,
             [this, transfer](int code) { end(transfer, code); });
  } catch (...) {
    end(transfer, 0);  // no waiter: its pieces have run all the same
  }
}

void TransferEngine::end(const TransferPtr& transfer, int code) noexcept {
  // Dropped with no lock held: the last owner of a block or of the host's memory may be here.
  std::shared_ptr<memory::Storage> storage, peer;
  std::shared_ptr<const void> keep;
  std::exception_ptr failure;
  TransferState state;
  {
    std::lock_guard lock(mutex_);
    if (transfer->over()) return;
    if (code != 0 && transfer->failure_ == nullptr && !transfer->stopping_)
      transfer->failure_ = std::make_exception_ptr(CudaError("copy", code, context_.api().error_name(code)));
    failure = transfer->failure_;
    TransferRecord& record = transfer->record_;
    const TransferState before = record.state;
    const int64_t now = real_clock().now_ns();
    if (failure != nullptr)
      record.fail(now, text_of(failure));
    else if (transfer->stopping_)
      record.cancel(now);
    else
      record.complete(now);
    stats_.moved(before, record);
    state = record.state;
    remove_user(transfer->request_.storage, transfer);
    remove_user(transfer->request_.peer, transfer);
    active_.erase(record.id);
    transfer->after_.clear();
    storage.swap(transfer->request_.storage);
    peer.swap(transfer->request_.peer);
    keep.swap(transfer->request_.keep);
  }
  changed_.notify_all();
  storage.reset();
  peer.reset();
  keep.reset();
  switch (state) {
    case TransferState::completed: transfer->completion_->finish(); break;
    case TransferState::failed: transfer->completion_->fail(failure); break;
    default: transfer->completion_->cancel("the transfer was cancelled"); break;
  }
}

bool TransferEngine::stop(std::chrono::nanoseconds limit) noexcept {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [&] {
    return std::none_of(std::begin(lanes_), std::end(lanes_), [](const Lane& lane) { return lane.running; });
  });
}

// Copies staged by the caller's own thread

void TransferEngine::copy_in(const std::shared_ptr<driver::Stream>& stream, const memory::Use& destination,
                             const void* source, size_t bytes) {
  Staging staging(ring_, stream, true);
  staging.copy(const_cast<void*>(source), bytes, [&](char* chunk, size_t offset, size_t part) {
    memory::Use use = destination;
    use.offset_bytes += static_cast<int64_t>(offset);
    copy_from_host_async(use, chunk, part, stream);
  });
}

void TransferEngine::copy_out(const std::shared_ptr<driver::Stream>& stream, void* destination,
                              const memory::Use& source, size_t bytes) {
  Staging staging(ring_, stream, false);
  staging.copy(destination, bytes, [&](char* chunk, size_t offset, size_t part) {
    memory::Use use = source;
    use.offset_bytes += static_cast<int64_t>(offset);
    copy_to_host_async(chunk, use, part, stream);
  });
  staging.finish();
}

}  // namespace gpukit::runtime
