// Copies of pageable memory through two page-locked chunks: one is filled or emptied while the other is under way. With
// the ring at its cap one chunk has to do.
// Internal to the transfer engine.
#pragma once

#include <algorithm>

#include "gpukit/runtime/transfer_engine.h"

namespace gpukit::runtime {

class Staging {
 public:
  /// `in`: from the host. The copies run on `stream`.
  Staging(PinnedRing& ring, std::shared_ptr<driver::Stream> stream, bool in)
      : ring_(ring), stream_(std::move(stream)), in_(in) {}

  /// Calls `issue(chunk, offset, bytes)` for each part, which submits the copy between the chunk and the device.
  /// Host memory has been read when this returns; it has been written after finish().
  template <typename Issue>
  void copy(void* host, size_t bytes, Issue&& issue) {
    for (size_t offset = 0; offset < bytes; ++turn_) {
      if (!parts_[1].slot && turn_ % 2 == 1 && !(parts_[1].slot = ring_.try_acquire())) ++turn_;
      Part& part = parts_[turn_ % 2];
      end(part);
      if (!part.slot) part.slot = ring_.acquire(&check_interrupt);
      part.host = static_cast<char*>(host) + offset;
      part.bytes = std::min(ring_.chunk_bytes(), bytes - offset);
      if (in_) copy_bytes(part.slot.data(), part.host, part.bytes);
      issue(part.slot.data(), offset, part.bytes);
      part.slot.mark(stream_);
      offset += part.bytes;
    }
  }

  /// Waits for what is under way.
  void finish() {
    end(parts_[turn_ % 2]);
    end(parts_[(turn_ + 1) % 2]);
  }
  /// Gives the chunks back. After finish().
  void reset() {
    for (Part& part : parts_) part.slot.reset();
  }

 private:
  struct Part {
    PinnedRing::Slot slot;
    char* host = nullptr;
    size_t bytes = 0;  // under way
  };
  void end(Part& part) {
    if (part.bytes == 0) return;
    part.slot.wait();
    if (!in_) copy_bytes(part.host, part.slot.data(), part.bytes);
    part.bytes = 0;
  }

  PinnedRing& ring_;
  const std::shared_ptr<driver::Stream> stream_;
  const bool in_;
  Part parts_[2];
  size_t turn_ = 0;
};

}  // namespace gpukit::runtime
