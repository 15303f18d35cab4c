#include "gpukit/memory/mover.h"

#include <atomic>
#include <vector>

#include "gpukit/base/fork.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/hold.h"

namespace gpukit::memory {

namespace {

/// Copies one after the other on a stream of its own per device, and waits.
class PlainMover final : public Mover {
 public:
  void to_host(driver::Context& context, std::span<const Move> moves) override {
    copy(context, moves, driver::CopyKind::device_to_host);
  }
  void to_device(driver::Context& context, std::span<const Move> moves) override {
    copy(context, moves, driver::CopyKind::host_to_device);
  }

 private:
  static void copy(driver::Context& context, std::span<const Move> moves, driver::CopyKind kind) {
    driver::Stream stream(context, 0);
    try {
      std::vector<char> part;
      for (const Move& move : moves) {
        if (move.bytes == 0) continue;
        if (move.source != nullptr && context.device().kind == DeviceKind::cpu) {
          move.source->read(move.source_offset, reinterpret_cast<void*>(move.device), move.bytes);
          continue;
        }
        if (move.source != nullptr) {
          part.resize(move.bytes);
          move.source->read(move.source_offset, part.data(), move.bytes);
          context.api().copy_async(nullptr, move.device, part.data(), 0, move.bytes, kind, stream.handle());
          stream.synchronize();
          continue;
        }
        if (kind == driver::CopyKind::device_to_host)
          context.api().copy_async(move.host, 0, nullptr, move.device, move.bytes, kind, stream.handle());
        else
          context.api().copy_async(nullptr, move.device, move.host, 0, move.bytes, kind, stream.handle());
      }
      stream.synchronize();
    } catch (...) {
      // What was submitted must not run on after the memory went to someone else.
      context.api().synchronize_stream(stream.handle());
      throw;
    }
  }
};

std::atomic<Mover*> g_mover{nullptr};

}  // namespace

void Mover::write(const char*, const std::shared_ptr<driver::Stream>& stream, const Use& block, const void* host,
                  size_t bytes) {
  stream->synchronize();
  const Hold hold({&block, 1});
  const Move move{(*block.storage)->address(), const_cast<void*>(host), bytes};
  to_device(stream->context(), {&move, 1});
}

void Mover::read(const char*, const std::shared_ptr<driver::Stream>& stream, void* host, const Use& block,
                 size_t bytes) {
  stream->synchronize();
  const Hold hold({&block, 1});
  const Move move{(*block.storage)->address(), host, bytes};
  to_host(stream->context(), {&move, 1});
}

void set_mover(Mover* mover) { g_mover.store(mover, std::memory_order_release); }

Mover& mover() {
  static auto* plain = new PlainMover;
  Mover* set = g_mover.load(std::memory_order_acquire);
  return set != nullptr ? *set : *plain;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<mover>();
}  // namespace

}  // namespace gpukit::memory
