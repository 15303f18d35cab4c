// The copies that eviction and restoring need. Runtime installs its transfer engine; without one a plain copy is made.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

struct Use;
class ByteSource;

/// One copy between device and host memory.
struct Move {
  driver::Address device = 0;
  void* host = nullptr;  // page-locked when it comes from an eviction; any memory otherwise
  size_t bytes = 0;
  ByteSource* source = nullptr;  // of copies to the device: in place of `host`
  size_t source_offset = 0;
  bool whole = false;  // the source is asked for all at once
};

/// No work touches the memory of either side when a method is called, and all copies are complete when it returns.
/// Called from any thread, with no lock held, never inside a capture's forbidden mode. Throws on failure; then the
/// destinations hold anything and the sources are whole.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual void to_host(driver::Context& context, std::span<const Move> moves) = 0;
  virtual void to_device(driver::Context& context, std::span<const Move> moves) = 0;

  /// Copies between a block and any host memory, after the work of `stream`; restores the block first. The caller
  /// holds no block. `op` is what errors name. May throw what ended a wait (a signal).
  virtual void write(const char* op, const std::shared_ptr<driver::Stream>& stream, const Use& block, const void* host,
                     size_t bytes);
  virtual void read(const char* op, const std::shared_ptr<driver::Stream>& stream, void* host, const Use& block,
                    size_t bytes);
};

/// The mover from now on; null: the plain one. `mover` must live until it is replaced and its copies are over.
void set_mover(Mover* mover);
Mover& mover();

}  // namespace gpukit::memory
