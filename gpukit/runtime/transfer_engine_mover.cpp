// The copies of eviction, on streams of their own: neither queued transfers nor compute stand before them.
#include <mutex>
#include <set>

#include "gpukit/base/fork.h"
#include "gpukit/memory/mover.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer_engine_staging.h"

namespace gpukit::runtime {

namespace {

std::mutex& known_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<known_mutex>();

class EngineMover final : public memory::Mover {
 public:
  /// `plain` serves contexts that are not of an opened device.
  explicit EngineMover(memory::Mover& plain) : plain_(plain) {}

  void add(const driver::Context& context) {
    std::lock_guard lock(known_mutex());
    known_.insert(&context);
  }
  void to_host(driver::Context& context, std::span<const memory::Move> moves) override {
    if (!knows(context)) return plain_.to_host(context, moves);
    transfer_engine(context).move(TransferType::d2h, moves);
  }
  void to_device(driver::Context& context, std::span<const memory::Move> moves) override {
    if (!knows(context)) return plain_.to_device(context, moves);
    transfer_engine(context).move(TransferType::h2d, moves);
  }
  // Staged as every copy is: a chunk of the ring first and the block only while its piece is submitted. The other way
  // round, whoever has a chunk and waits for a block would never get it.
  void write(const char* op, const std::shared_ptr<driver::Stream>& stream, const memory::Use& block, const void* host,
             size_t bytes) override {
    if (!knows(stream->context())) return plain_.write(op, stream, block, host, bytes);
    copy_from_host(block, host, bytes, stream, op);
    synchronize(*stream, op);
  }
  void read(const char* op, const std::shared_ptr<driver::Stream>& stream, void* host, const memory::Use& block,
            size_t bytes) override {
    if (!knows(stream->context())) return plain_.read(op, stream, host, block, bytes);
    copy_to_host(host, block, bytes, stream, op);
  }

 private:
  bool knows(const driver::Context& context) {
    std::lock_guard lock(known_mutex());
    return known_.contains(&context);
  }

  memory::Mover& plain_;
  std::set<const driver::Context*> known_;
};

}  // namespace

void install_mover(driver::Context& context) {
  static EngineMover* mover = [] {
    auto* made = new EngineMover(memory::mover());
    memory::set_mover(made);
    return made;
  }();
  mover->add(context);
}

// Not through the launch gate: a launch that captures may need a block back, and the copy is no part of its capture.
void TransferEngine::move(TransferType type, std::span<const memory::Move> moves) {
  const driver::Api& api = context_.api();
  context_.make_current();
  std::shared_ptr<driver::Stream> stream;
  {
    std::lock_guard lock(mutex_);
    auto& own = move_streams_[type == TransferType::h2d ? 0 : 1];
    if (own == nullptr) own = std::make_shared<driver::Stream>(context_, -1);
    stream = own;
  }
  const bool in = type == TransferType::h2d;
  // A spinning wait: a sleeping thread wakes too late for copies of a few hundred microseconds.
  driver::Event done(context_);
  auto copy = [&](void* host, driver::Address device, size_t bytes) {
    if (in)
      api.copy_async(nullptr, device, host, 0, bytes, driver::CopyKind::host_to_device, stream->handle());
    else
      api.copy_async(host, 0, nullptr, device, bytes, driver::CopyKind::device_to_host, stream->handle());
  };
  try {
    Staging staging(ring_, stream, in);
    for (const memory::Move& move : moves) {
      if (move.bytes == 0 || move.source != nullptr) continue;
      if (api.is_page_locked(move.host)) {
        copy(move.host, move.device, move.bytes);
        continue;
      }
      staging.copy(move.host, move.bytes,
                   [&](char* chunk, size_t offset, size_t bytes) { copy(chunk, move.device + offset, bytes); });
    }
    staging.finish();
    staging.reset();
    fill(stream, moves);
    done.record(*stream);
    done.synchronize();
  } catch (...) {
    // Nothing may touch the memory once this has thrown.
    code_of([&] { stream->synchronize(); });
    throw;
  }
}

}  // namespace gpukit::runtime
