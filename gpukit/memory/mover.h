// The copies that eviction and restoring need. Runtime installs its transfer engine; without one a plain copy is made.
#pragma once

#include <cstddef>
#include <span>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

/// One copy between device and host memory.
struct Move {
  driver::Address device = 0;
  void* host = nullptr;  // page-locked when it comes from an eviction; any memory otherwise
  size_t bytes = 0;
};

/// No work touches the memory of either side when a method is called, and all copies are complete when it returns.
/// Called from any thread, with no lock held, never inside a capture's forbidden mode. Throws on failure; then the
/// destinations hold anything and the sources are whole.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual void to_host(driver::Context& context, std::span<const Move> moves) = 0;
  virtual void to_device(driver::Context& context, std::span<const Move> moves) = 0;
};

/// The mover from now on; null: the plain one. `mover` must live until it is replaced and its copies are over.
void set_mover(Mover* mover);
Mover& mover();

}  // namespace gpukit::memory
