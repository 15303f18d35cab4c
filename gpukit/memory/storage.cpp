#include "gpukit/memory/storage.h"

#include <algorithm>
#include <mutex>

#include "gpukit/memory/resource.h"

namespace gpukit::memory {

namespace {

/// Foreign blocks whose last use on our streams had not finished when their last owner went.
struct PendingRelease {
  std::vector<std::unique_ptr<driver::Event>> events;
  std::function<void()> release;
};

std::mutex& pending_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::vector<PendingRelease>& pending() {
  static auto* list = new std::vector<PendingRelease>;
  return *list;
}

bool finished(const PendingRelease& entry, bool wait) {
  for (const auto& event : entry.events) {
    event->context().make_current();
    if (wait) event->synchronize();
    if (!event->query()) return false;
  }
  return true;
}

struct SpinLock {
  explicit SpinLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinLock() { flag_.clear(std::memory_order_release); }
  std::atomic_flag& flag_;
};

}  // namespace

void run_pending_releases(bool wait) {
  std::vector<PendingRelease> ready;
  {
    std::lock_guard lock(pending_mutex());
    if (pending().empty()) return;
    ready.swap(pending());
  }
  // The waits and the releases run with no lock held: a release may call into another library.
  std::vector<PendingRelease> later;
  for (PendingRelease& entry : ready) {
    if (finished(entry, wait))
      entry.release();
    else
      later.push_back(std::move(entry));
  }
  std::lock_guard lock(pending_mutex());
  for (PendingRelease& entry : later) pending().push_back(std::move(entry));
}

std::shared_ptr<Storage> Storage::allocate(Resource& resource, size_t bytes, std::shared_ptr<driver::Stream> stream) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->context_ = &stream->context();
  storage->bytes_ = bytes;
  if (bytes != 0) storage->block_ = resource.allocate(bytes, stream);
  storage->resource_ = &resource;
  storage->home_ = std::move(stream);
  return storage;
}

std::shared_ptr<Storage> Storage::adopt(driver::Context& context, driver::Address address, size_t bytes,
                                        std::function<void()> release) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->context_ = &context;
  storage->block_ = {address, bytes, nullptr};
  storage->bytes_ = bytes;
  storage->release_ = std::move(release);
  return storage;
}

Storage::~Storage() {
  if (resource_ != nullptr) {
    if (block_.bytes != 0) resource_->release(block_, home_, other_streams_);
    return;
  }
  if (!release_) return;
  PendingRelease entry{{}, std::move(release_)};
  try {
    for (const auto& stream : other_streams_) {
      stream->context().make_current();
      if (stream->query()) continue;
      entry.events.push_back(std::make_unique<driver::Event>(stream->context()));
      entry.events.back()->record(*stream);
    }
    if (entry.events.empty()) {
      entry.release();
      return;
    }
    std::lock_guard lock(pending_mutex());
    pending().push_back(std::move(entry));
  } catch (...) {
    // The driver refused to tell; its context is dead, so nothing runs on the memory any more.
    try {
      if (entry.release) entry.release();
    } catch (...) {
    }
  }
}

std::vector<std::shared_ptr<driver::Stream>> Storage::streams() {
  SpinLock lock(lock_);
  std::vector<std::shared_ptr<driver::Stream>> all = other_streams_;
  if (home_ != nullptr) all.push_back(home_);
  return all;
}

void Storage::note_foreign_use(const std::shared_ptr<driver::Stream>& stream) {
  SpinLock lock(lock_);
  for (const auto& known : other_streams_)
    if (known == stream) return;
  other_streams_.push_back(stream);
}

}  // namespace gpukit::memory
