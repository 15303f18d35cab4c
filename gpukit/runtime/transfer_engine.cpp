#include "gpukit/runtime/transfer_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/thread.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_list.h"

namespace gpukit::runtime {

namespace {

constexpr auto kSignalSlice = std::chrono::milliseconds(50);
constexpr int64_t kCopyGrain = int64_t{512} << 10;

bool page_locked(const driver::Api& api, const void* memory, size_t bytes) {
  auto* first = static_cast<const char*>(memory);
  return api.is_page_locked(first) && api.is_page_locked(first + bytes - 1);
}

void check_side(const char* op, const char* argument, const std::shared_ptr<memory::Storage>& storage, int64_t offset,
                size_t bytes, Device device) {
  if (storage == nullptr) throw ArgumentError(op, argument, "be memory of " + str(device), "none");
  if (!(storage->device() == device)) throw ArgumentError(op, argument, "be on " + str(device), str(storage->device()));
  if (offset < 0 || static_cast<size_t>(offset) > storage->bytes() || bytes > storage->bytes() - offset)
    throw ArgumentError(op, argument, "hold " + std::to_string(bytes) + " bytes at " + std::to_string(offset),
                        std::to_string(storage->bytes()) + " bytes");
}

/// For the record only: a block that may be moved has no address to show.
uint64_t shown_address(const std::shared_ptr<memory::Storage>& storage, int64_t offset) {
  return storage->managed() ? 0 : storage->address() + static_cast<uint64_t>(offset);
}

}  // namespace

void copy_bytes(void* destination, const void* source, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kCopyGrain, [=](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(destination) + begin, static_cast<const char*>(source) + begin,
                static_cast<size_t>(end - begin));
  });
}

constinit std::atomic<int64_t> g_active_transfers{0};

// Transfer

Transfer::Transfer(TransferEngine& engine, TransferRequest request)
    : engine_(engine), request_(std::move(request)), completion_(std::make_shared<Completion>()) {
  record_.type = request_.type;
  record_.bytes = request_.bytes;
  record_.priority = request_.priority;
  const uint64_t device = shown_address(request_.storage, request_.offset_bytes);
  const uint64_t other = request_.type == TransferType::d2d ? shown_address(request_.peer, request_.peer_offset_bytes)
                                                            : reinterpret_cast<uintptr_t>(request_.host);
  record_.source = request_.type == TransferType::d2h ? device : other;
  record_.destination = request_.type == TransferType::d2h ? other : device;
}

TransferRecord Transfer::record() const {
  std::lock_guard lock(engine_.mutex_);
  return record_;
}

bool Transfer::cancel() {
  auto self = shared_from_this();
  {
    std::lock_guard lock(engine_.mutex_);
    if (over() || all_submitted_ || failure_ != nullptr) return false;
    stopping_ = true;
    engine_.lane_of(*this).open.erase(key_);
    if (in_flight_ != 0) return true;  // whoever retires the last piece ends it
  }
  engine_.end(self, 0);
  return true;
}

void Transfer::order_before(const driver::Stream& stream) {
  // A capture cannot wait for work outside it, so there the copy must have run.
  const bool run = thread_capture() != nullptr;
  std::shared_ptr<driver::Event> event;
  {
    std::unique_lock lock(engine_.mutex_);
    auto ordered = [&] {
      if (over()) return true;
      if (stopping_ || run) return (stopping_ || all_submitted_) && in_flight_ == 0;
      return all_submitted_;
    };
    engine_.boost(*this);
    while (!ordered()) {
      if (engine_.options_.workers) engine_.changed_.wait_for(lock, kSignalSlice);
      lock.unlock();
      if (!engine_.options_.workers) engine_.step();
      check_interrupt();
      lock.lock();
    }
    if (over() || stopping_ || run) return;
    event = submitted_event_;
  }
  stream.wait(*event);
}

// TransferEngine

TransferEngine::TransferEngine(driver::Context& context, Options options)
    : context_(context), options_(options), ring_(context, options.chunk_bytes, options.max_chunks) {}

TransferEngine::~TransferEngine() {
  std::vector<TransferPtr> left;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, transfer] : active_) left.push_back(transfer);
  }
  for (const TransferPtr& transfer : left) transfer->cancel();
  try {
    drain();
  } catch (...) {
    // The context is dead: nothing is in flight.
  }
  while (!stop(std::chrono::seconds(1))) {
  }
}

std::shared_ptr<driver::Stream> TransferEngine::stream(TransferType type) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<driver::Stream>& stream = lanes_[static_cast<int>(type)].stream;
  if (stream == nullptr) {
    context_.make_current();
    stream = std::make_shared<driver::Stream>(context_, 0);
    list_stream(stream, "transfers");
  }
  return stream;
}

std::vector<std::unique_ptr<driver::Event>> TransferEngine::record_users(const char* op,
                                                                         const TransferRequest& request) const {
  std::vector<std::shared_ptr<driver::Stream>> streams = request.storage->streams();
  if (request.peer != nullptr) {
    auto more = request.peer->streams();
    streams.insert(streams.end(), more.begin(), more.end());
  }
  streams.push_back(current_stream(context_.device()));
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  std::vector<std::unique_ptr<driver::Event>> events;
  for (const auto& stream : streams) {
    stream->context().make_current();
    if (stream->api().capture_info(stream->handle()).status != driver::CaptureStatus::none)
      throw Error(std::string(op) + ": a stream that uses the array is being captured by another thread");
    events.push_back(std::make_unique<driver::Event>(stream->context()));
    events.back()->record(*stream);
  }
  context_.make_current();
  return events;
}

// The engine's streams serve everyone, so a session that is paced or limited waits here, before its copy is queued.
void TransferEngine::admit(const TransferRequest& request) const {
  const auto stream = current_stream(context_.device());
  if (request.bytes == 0 || stream->control.load(std::memory_order_acquire) == nullptr) return;
  constexpr SubmitKind kinds[] = {SubmitKind::copy_in, SubmitKind::copy_out, SubmitKind::copy_device};
  Submission(stream, "transfer", kinds[static_cast<int>(request.type)], request.bytes).done(0, {});
}

std::shared_ptr<Transfer> TransferEngine::submit(const char* op, TransferRequest request) {
  refuse_in_capture(op, "copies beside the stream");
  open_device(context_.device()).health.check();
  check_side(op, "array", request.storage, request.offset_bytes, request.bytes, context_.device());
  if (request.type == TransferType::d2d)
    check_side(op, "source", request.peer, request.peer_offset_bytes, request.bytes, context_.device());
  else if (request.host == nullptr && request.bytes != 0)
    throw ArgumentError(op, "host memory", "not be null", "null");
  admit(request);
  context_.make_current();

  TransferPtr transfer(new Transfer(*this, std::move(request)));
  const TransferRequest& asked = transfer->request_;
  if (asked.bytes != 0) {
    transfer->page_locked_ = asked.type == TransferType::d2d || page_locked(context_.api(), asked.host, asked.bytes);
    transfer->ready_ = record_users(op, asked);
    transfer->submitted_event_ = std::make_shared<driver::Event>(context_);
    stream(asked.type);
  }
  {
    std::lock_guard lock(mutex_);
    if (stop_) throw Error(std::string(op) + ": the process is exiting; nothing more is copied");
    Lane& lane = lane_of(*transfer);
    if (asked.bytes != 0 && options_.workers && !lane.started) {
      start_thread([this, &lane] { serve(lane); }).detach();
      lane.started = lane.running = true;
    }
    TransferRecord& record = transfer->record_;
    record.id = next_id_++;
    record.queued_ns = real_clock().now_ns();
    ++stats_.total_queued;
    ++stats_.pending_count;
    transfer->key_ = {-static_cast<int64_t>(record.priority), record.id};
    transfer->after_ = conflicts(asked.storage.get(), asked.type != TransferType::d2h);
    if (asked.peer != nullptr) {
      auto more = conflicts(asked.peer.get(), false);
      transfer->after_.insert(transfer->after_.end(), more.begin(), more.end());
    }
    active_.emplace(record.id, transfer);
    add_user(asked.storage, transfer);
    if (asked.peer != nullptr) add_user(asked.peer, transfer);
    if (asked.bytes != 0) {
      lane.open.emplace(transfer->key_, transfer);
    } else {
      record.start(record.queued_ns);
      stats_.moved(TransferState::queued, record);
    }
  }
  if (asked.bytes == 0) end(transfer, 0);
  changed_.notify_all();
  return transfer;
}

std::vector<TransferEngine::TransferPtr> TransferEngine::conflicts(const memory::Storage* storage, bool write) const {
  std::vector<TransferPtr> found;
  auto [first, last] = users_.equal_range(storage);
  for (; first != last; ++first) {
    const TransferRequest& other = first->second->request_;
    const bool writes = other.storage.get() == storage && other.type != TransferType::d2h;
    if (write || writes) found.push_back(first->second);
  }
  return found;
}

void TransferEngine::add_user(const std::shared_ptr<memory::Storage>& storage, const TransferPtr& transfer) {
  users_.emplace(storage.get(), transfer);
  storage->pending_transfers.fetch_add(1, std::memory_order_release);
  g_active_transfers.fetch_add(1, std::memory_order_release);
}

void TransferEngine::remove_user(const std::shared_ptr<memory::Storage>& storage, const TransferPtr& transfer) {
  if (storage == nullptr) return;
  auto [first, last] = users_.equal_range(storage.get());
  auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second == transfer; });
  if (found == last) return;
  users_.erase(found);
  storage->pending_transfers.fetch_sub(1, std::memory_order_release);
  g_active_transfers.fetch_sub(1, std::memory_order_release);
}

void TransferEngine::settle(const memory::Use& use, const driver::Stream& stream) {
  std::vector<TransferPtr> earlier;
  {
    std::lock_guard lock(mutex_);
    earlier = conflicts(use.storage->get(), use.write);
  }
  for (const TransferPtr& transfer : earlier) transfer->order_before(stream);
}

// Somebody waits for it: nothing goes before it any more.
void TransferEngine::boost(Transfer& transfer) {
  Lane& lane = lane_of(transfer);
  auto node = lane.open.extract(transfer.key_);
  if (node.empty()) return;
  transfer.key_.first = std::numeric_limits<int64_t>::min();
  node.key() = transfer.key_;
  lane.open.insert(std::move(node));
}

void TransferEngine::drain() {
  std::vector<TransferPtr> left;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, transfer] : active_) left.push_back(transfer);
  }
  for (const TransferPtr& transfer : left) {
    while (!options_.workers && step()) {
    }
    transfer->completion()->wait();
  }
}

TransferStats TransferEngine::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::vector<TransferRecord> TransferEngine::active() const {
  std::vector<TransferRecord> list;
  std::lock_guard lock(mutex_);
  for (const auto& [id, transfer] : active_) list.push_back(transfer->record_);
  return list;
}

// Engines of the process

namespace {

/// Left behind in a forked child, whose threads do not exist and whose locks may be taken.
struct Engines {
  explicit Engines(uint64_t of) : generation(of) {}
  const uint64_t generation;
  std::mutex mutex;
  std::map<const driver::Context*, TransferEngine*> by_context;
};

std::atomic<Engines*> g_engines{nullptr};

Engines& engines() {
  Engines* seen = g_engines.load(std::memory_order_acquire);
  const uint64_t generation = files::fork_generation();
  while (seen == nullptr || seen->generation != generation) {
    auto* fresh = new Engines(generation);
    if (g_engines.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *seen;
}

}  // namespace

TransferEngine& transfer_engine(driver::Context& context) {
  Engines& all = engines();
  std::lock_guard lock(all.mutex);
  TransferEngine*& engine = all.by_context[&context];
  if (engine == nullptr) {
    engine = new TransferEngine(context);
    static const int hook = std::atexit([] { stop_transfer_engines(); });
    static_cast<void>(hook);
  }
  return *engine;
}

TransferEngine* find_transfer_engine(const driver::Context& context) {
  Engines& all = engines();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_context.find(&context);
  return found == all.by_context.end() ? nullptr : found->second;
}

TransferEngine& transfer_engine(Device device) { return transfer_engine(open_device(device).context); }

void stop_transfer_engines() noexcept {
  Engines& all = engines();
  std::lock_guard lock(all.mutex);
  for (const auto& [context, engine] : all.by_context) engine->stop(std::chrono::seconds(1));
}

void settle_slow(std::span<const memory::Use> uses, const driver::Stream& stream) {
  for (const memory::Use& use : uses) {
    if (use.storage != nullptr && (*use.storage)->pending_transfers.load(std::memory_order_acquire) != 0)
      transfer_engine((*use.storage)->context()).settle(use, stream);
  }
}

}  // namespace gpukit::runtime
