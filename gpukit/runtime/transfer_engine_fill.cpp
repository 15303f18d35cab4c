// Blocks filled from their sources: several threads read, each into a chunk of the ring whose copy runs beside the
// reading of the others. Where the host can write the device's memory, straight into that.
#include <atomic>
#include <mutex>
#include <vector>

#include "gpukit/base/thread_pool.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/fence.h"
#include "gpukit/runtime/transfer_engine.h"

namespace gpukit::runtime {

namespace {

constexpr size_t kDirectBytes = size_t{1} << 20;  // that a thread reads at once in place

/// One read of a source.
struct Read {
  const memory::Move* move;
  size_t offset, bytes;  // of the move
};

std::vector<Read> cut(std::span<const memory::Move> moves, size_t most) {
  std::vector<Read> reads;
  for (const memory::Move& move : moves) {
    if (move.source == nullptr) continue;
    const size_t step = move.whole ? move.bytes : most;
    for (size_t at = 0; at < move.bytes; at += step) reads.push_back({&move, at, std::min(step, move.bytes - at)});
  }
  return reads;
}

/// What went wrong first in the order of the reads; those behind it are skipped.
class FirstFault {
 public:
  void note(int64_t index) {
    std::lock_guard lock(mutex_);
    if (index >= at_) return;
    at_ = index;
    error_ = std::current_exception();
  }
  bool before(int64_t index) {
    std::lock_guard lock(mutex_);
    return at_ < index;
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  int64_t at_ = INT64_MAX;
  std::exception_ptr error_;
};

template <typename Serve>
void each(const std::vector<Read>& reads, Serve&& serve) {
  FirstFault fault;
  parallel_for(static_cast<int64_t>(reads.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !fault.before(i); ++i) {
      try {
        serve(reads[static_cast<size_t>(i)]);
      } catch (...) {
        fault.note(i);
      }
    }
  });
  fault.rethrow();
}

}  // namespace

void TransferEngine::fill(const std::shared_ptr<driver::Stream>& stream, std::span<const memory::Move> moves) {
  if (context_.device().kind == DeviceKind::cpu && options_.in_place) {
    each(cut(moves, kDirectBytes), [](const Read& read) {
      const memory::Move& move = *read.move;
      move.source->read(move.source_offset + read.offset, reinterpret_cast<char*>(move.device) + read.offset,
                        read.bytes);
    });
    return;
  }
  each(cut(moves, ring_.chunk_bytes()), [&](const Read& read) {
    const memory::RelaxedCapture relaxed(context_);
    const memory::Move& move = *read.move;
    PinnedRing::Slot slot = ring_.acquire();
    move.source->read(move.source_offset + read.offset, slot.data(), read.bytes);
    context_.api().copy_async(nullptr, move.device + read.offset, slot.data(), 0, read.bytes,
                              driver::CopyKind::host_to_device, stream->handle());
    slot.mark(stream);
  });
}

}  // namespace gpukit::runtime
