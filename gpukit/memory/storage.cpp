#include "gpukit/memory/storage.h"

#include <algorithm>
#include <bit>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/residency.h"
#include "gpukit/memory/resource.h"
#include "gpukit/memory/stand_in.h"

namespace gpukit::memory {

constinit std::atomic<uint64_t> g_forgotten_streams{0};

namespace {

constexpr size_t kManyStreams = 8;

/// Foreign blocks whose last use on our streams had not finished when their last owner went.
struct PendingRelease {
  driver::Context* context = nullptr;
  Fence work;
  std::function<void()> release;
};

std::mutex& pending_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<pending_mutex>();

std::list<PendingRelease>& pending() {
  static auto* list = new std::list<PendingRelease>;
  return *list;
}
[[maybe_unused]] const bool g_made_at_load = made_at_load<pending>();

/// `ask` tells whether work has finished. When the driver does not say, it has not, unless the context is dead.
template <typename Ask>
bool finished(driver::Context& context, Ask&& ask) noexcept {
  try {
    RelaxedCapture relaxed(context);
    return ask();
  } catch (const CudaError& error) {
    return driver::is_sticky(error.code);
  } catch (...) {
    return false;
  }
}

bool finished(const driver::Stream& stream) noexcept {
  return finished(stream.context(), [&] { return !is_capturing(stream) && stream.query(); });
}

bool finished(PendingRelease& entry, bool wait) noexcept {
  if (entry.work.empty()) return true;
  return finished(*entry.context, [&] {
    if (!entry.work.can_mark()) return false;
    Marker marker;
    entry.work.mark(marker);
    if (wait) entry.work.synchronize();
    return entry.work.complete();
  });
}

void call_release(PendingRelease& entry) noexcept {
  std::optional<RelaxedCapture> relaxed;
  try {
    // Another library may do what a capture of this thread forbids.
    relaxed.emplace(*entry.context);
  } catch (...) {
    // A dead context captures nothing.
  }
  try {
    std::exchange(entry.release, nullptr)();
  } catch (...) {
    // Nobody is left to be told.
  }
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
  std::list<PendingRelease> entries;
  {
    std::lock_guard lock(pending_mutex());
    if (pending().empty()) return;
    entries.swap(pending());
  }
  // The waits and the releases run with no lock held: a release may call into another library.
  for (auto it = entries.begin(); it != entries.end();) {
    const auto entry = it++;
    if (!finished(*entry, wait)) continue;
    call_release(*entry);
    entries.erase(entry);
  }
  std::lock_guard lock(pending_mutex());
  pending().splice(pending().end(), entries);
}

std::shared_ptr<Storage> Storage::allocate(Resource& resource, size_t bytes, std::shared_ptr<driver::Stream> stream,
                                           const std::shared_ptr<Account>& account) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->context_ = &stream->context();
  storage->bytes_ = bytes;
  storage->home_ = std::move(stream);
  Residency* residency = nullptr;
  if (account != nullptr && account->movable() && bytes != 0) residency = resource.residency();
  if (residency == nullptr) [[likely]] {
    if (bytes != 0) storage->block_ = resource.allocate(bytes, storage->home_, account);
    storage->resource_ = &resource;
    storage->quiet_stream_ = storage->home_.get();
    return storage;
  }
  auto record = std::make_unique<ResidentRecord>(*storage, account);
  Residency::Arrival arrival(*residency);
  storage->block_ = resource.allocate(bytes, storage->home_, account);
  storage->resource_ = &resource;
  storage->record_ = std::move(record);
  residency->add(*storage);
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
    if (record_ != nullptr)
      record_->residency->remove(*this);
    else if (block_.bytes != 0)
      resource_->release(block_, home_, other_streams_);
    return;
  }
  if (!release_) return;
  try {
    std::list<PendingRelease> entry(1);
    entry.front().context = context_;
    entry.front().release = std::move(release_);
    for (const auto& stream : other_streams_)
      if (!finished(*stream)) entry.front().work.add(stream);
    if (finished(entry.front(), false)) {
      call_release(entry.front());
      return;
    }
    std::lock_guard lock(pending_mutex());
    pending().splice(pending().end(), entry);
  } catch (...) {
    // No memory to remember it by: it is never released.
  }
}

std::vector<std::shared_ptr<driver::Stream>> Storage::streams() {
  SpinLock lock(lock_);
  std::vector<std::shared_ptr<driver::Stream>> all = other_streams_;
  if (home_ != nullptr) all.push_back(home_);
  return all;
}

void Storage::note_other_use(const std::shared_ptr<driver::Stream>& stream) {
  if (record_ != nullptr) record_->residency->note_use(*this, stream);
  if (stream == home_) return;
  std::vector<std::shared_ptr<driver::Stream>> known;  // the last owner of a stream goes with no lock held
  {
    SpinLock lock(lock_);
    for (const auto& old : other_streams_)
      if (old == stream) return;
    other_streams_.push_back(stream);
    if (other_streams_.size() < kManyStreams || !std::has_single_bit(other_streams_.size())) return;
    known = other_streams_;
  }
  // A stream per request must not make the list grow for ever: those whose work is over are forgotten.
  std::vector<std::pair<driver::Stream*, uint64_t>> idle;
  for (const auto& old : known) {
    const uint64_t submitted = old->sequence.load(std::memory_order_acquire);
    if (old != stream && finished(*old)) idle.emplace_back(old.get(), submitted);
  }
  if (idle.empty()) return;
  SpinLock lock(lock_);
  // Before the look at the sequence: who submits after it sees the new count and notes its use again.
  g_forgotten_streams.fetch_add(1, std::memory_order_seq_cst);
  for (const auto& [old, submitted] : idle)
    if (old->sequence.load(std::memory_order_seq_cst) == submitted)
      std::erase_if(other_streams_, [old = old](const auto& entry) { return entry.get() == old; });
}

// Residency

driver::Address Storage::pin() {
  if (is_stand_in(*this)) {
    const std::shared_ptr<Storage> self = shared_from_this();
    const Use use{&self};
    refuse_stand_ins("array", {&use, 1});
  }
  return record_ != nullptr ? record_->residency->pin(*this) : block_.address;
}

void Storage::unpin() noexcept {
  if (record_ != nullptr) record_->residency->unpin(*this);
}

void Storage::graph_hold() {
  if (record_ != nullptr) record_->residency->graph_hold(*this, 1);
}

void Storage::graph_release() noexcept {
  if (record_ != nullptr) record_->residency->graph_hold(*this, -1);
}

bool Storage::resident() const { return record_ == nullptr || record_->residency->resident(*this); }

std::optional<driver::Address> Storage::address_now() const {
  if (record_ == nullptr) return block_.address;
  return record_->residency->address_now(*this);
}

std::optional<std::string> Storage::evicted_bytes() const {
  return record_ != nullptr ? record_->residency->evicted_bytes(*this) : std::nullopt;
}

void Storage::evict() {
  if (record_ == nullptr) throw Error("evict: the block's account does not evict");
  record_->residency->evict(*this);
}

void Storage::restore() {
  if (record_ != nullptr) record_->residency->restore(*this);
}

void Storage::set_priority(int priority) {
  if (record_ != nullptr) record_->residency->set_priority(*this, priority);
}

int Storage::priority() const { return record_ != nullptr ? record_->residency->priority(*this) : 0; }

void Storage::touch() {
  if (record_ != nullptr) record_->residency->touch(*this);
}

}  // namespace gpukit::memory
