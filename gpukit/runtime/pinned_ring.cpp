#include "gpukit/runtime/pinned_ring.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/memory/fence.h"

namespace gpukit::runtime {

namespace {
constexpr auto kSignalSlice = std::chrono::milliseconds(50);
}  // namespace

struct PinnedRing::Chunk {
  explicit Chunk(driver::Context& context, size_t bytes) : context(context), event(context, false, true) {
    memory = static_cast<char*>(context.api().allocate_pinned(bytes));
  }
  ~Chunk() { context.api().release_pinned(memory); }

  driver::Context& context;
  driver::Event event;  // blocking: who waits sleeps
  char* memory = nullptr;
  bool marked = false;
  std::shared_ptr<driver::Stream> unrecorded;  // marked, but the event could not be recorded
};

PinnedRing::PinnedRing(driver::Context& context, size_t chunk_bytes, size_t max_chunks)
    : context_(context), chunk_bytes_(chunk_bytes), max_chunks_(std::max<size_t>(max_chunks, 1)) {
  free_.reserve(max_chunks_);
  in_flight_.reserve(max_chunks_);
}

PinnedRing::~PinnedRing() {
  for (Chunk* chunk : in_flight_) {
    try {
      context_.make_current();
      if (chunk->unrecorded != nullptr) chunk->unrecorded->synchronize();
      chunk->event.synchronize();
    } catch (...) {
      // The context is dead: nothing reads the memory any more.
    }
  }
}

PinnedRing::Slot& PinnedRing::Slot::operator=(Slot&& other) noexcept {
  if (this != &other) {
    reset();
    ring_ = other.ring_;
    chunk_ = other.chunk_;
    other.chunk_ = nullptr;
  }
  return *this;
}

char* PinnedRing::Slot::data() const { return chunk_->memory; }

void PinnedRing::Slot::mark(const std::shared_ptr<driver::Stream>& stream) {
  chunk_->marked = true;
  chunk_->unrecorded = stream;
  chunk_->event.record(*stream);
  chunk_->unrecorded = nullptr;
}

void PinnedRing::Slot::wait() {
  if (!chunk_->marked) return;
  if (chunk_->unrecorded != nullptr)
    chunk_->unrecorded->synchronize();
  else
    chunk_->event.synchronize();
  chunk_->unrecorded = nullptr;
  chunk_->marked = false;
}

bool PinnedRing::Slot::idle() { return finished(*chunk_); }

void PinnedRing::Slot::reset() noexcept {
  if (chunk_ == nullptr) return;
  ring_->give_back(chunk_);
  chunk_ = nullptr;
}

bool PinnedRing::finished(Chunk& chunk) {
  if (!chunk.marked) return true;
  const bool done = chunk.unrecorded != nullptr ? chunk.unrecorded->query() : chunk.event.query();
  if (!done) return false;
  chunk.unrecorded = nullptr;
  chunk.marked = false;
  return true;
}

PinnedRing::Chunk* PinnedRing::take_idle() {
  if (!free_.empty()) {
    Chunk* chunk = free_.back();
    free_.pop_back();
    return chunk;
  }
  auto it = std::find_if(in_flight_.begin(), in_flight_.end(), [](Chunk* chunk) { return finished(*chunk); });
  if (it == in_flight_.end()) return nullptr;
  Chunk* chunk = *it;
  in_flight_.erase(it);
  return chunk;
}

PinnedRing::Chunk* PinnedRing::grow(std::unique_lock<std::mutex>& lock) {
  ++growing_;
  lock.unlock();
  std::unique_ptr<Chunk> made;
  try {
    made = std::make_unique<Chunk>(context_, chunk_bytes_);
  } catch (...) {
    lock.lock();
    --growing_;
    returned_.notify_all();
    throw;
  }
  lock.lock();
  --growing_;
  chunks_.push_back(std::move(made));
  return chunks_.back().get();
}

PinnedRing::Slot PinnedRing::take(bool wait_for_holders, void (*check)()) {
  context_.make_current();
  bool waited = false;
  std::exception_ptr refused;
  auto checked = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    Chunk* chunk = take_idle();
    if (chunk == nullptr && !refused && chunks_.size() + growing_ < max_chunks_) {
      try {
        chunk = grow(lock);
      } catch (...) {
        // What there is has to do; with nothing at all the refusal is the answer.
        refused = std::current_exception();
        continue;
      }
    }
    if (chunk == nullptr && !in_flight_.empty()) {
      Slot oldest(this, in_flight_.front());
      in_flight_.erase(in_flight_.begin());
      lock.unlock();
      oldest.wait();
      lock.lock();
      chunk = std::exchange(oldest.chunk_, nullptr);
      waited = true;
    }
    if (chunk != nullptr) {
      ++acquired_;
      waited_ += waited;
      return Slot(this, chunk);
    }
    if (!wait_for_holders) return {};
    if (chunks_.empty() && growing_ == 0) std::rethrow_exception(refused);
    waited = true;
    if (check == nullptr) {
      returned_.wait(lock);
      continue;
    }
    returned_.wait_for(lock, kSignalSlice);
    if (std::chrono::steady_clock::now() - checked < kSignalSlice) continue;
    lock.unlock();
    check();
    lock.lock();
    checked = std::chrono::steady_clock::now();
  }
}

void PinnedRing::give_back(Chunk* chunk) noexcept {
  std::lock_guard lock(mutex_);
  (chunk->marked ? in_flight_ : free_).push_back(chunk);  // never grows: room for every chunk was reserved
  // All: one of them may be about to give up.
  returned_.notify_all();
}

PinnedRing::Stats PinnedRing::stats() const {
  std::lock_guard lock(mutex_);
  Stats s;
  s.chunks = chunks_.size();
  s.free = free_.size();
  s.in_flight = in_flight_.size();
  s.held = s.chunks - s.free - s.in_flight;
  s.bytes = s.chunks * chunk_bytes_;
  s.acquired = acquired_;
  s.waited = waited_;
  return s;
}

size_t PinnedRing::trim() {
  std::vector<std::unique_ptr<Chunk>> dropped;
  {
    std::lock_guard lock(mutex_);
    for (Chunk* chunk : free_) {
      auto it = std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& own) { return own.get() == chunk; });
      dropped.push_back(std::move(*it));
      chunks_.erase(it);
    }
    free_.clear();
  }
  // Nothing uses the chunks, so a capture of this thread may go on.
  const memory::RelaxedCapture relaxed(context_);
  const size_t count = dropped.size();
  dropped.clear();
  return count * chunk_bytes_;
}

}  // namespace gpukit::runtime
